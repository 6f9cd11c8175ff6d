"""Asks this machine's resolver for a host's addresses, in threads of its own and with a time limit.

Not in asyncio's own few threads: name servers that do not answer would keep them from all else.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import psutil

from reprise.egress.addresses import Address, parse
from reprise.egress.contract import NotReached

#: Seconds that name servers have to answer.
PATIENCE_S = 20.0

#: Questions at once, those that were given up but not answered among them.
AT_ONCE = 32

#: Addresses of one host that are looked at.
MOST = 32

_running = threading.BoundedSemaphore(AT_ONCE)


async def system_resolver(host: str) -> list[str]:
    """The addresses of a host as this machine sees them. Raises NotReached."""
    if not _running.acquire(blocking=False):
        raise NotReached(f"{host} was not looked up: {AT_ONCE} other look-ups wait for an answer")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def ask() -> None:
        found: list[str] = []
        failed: Exception | None = None
        try:
            answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            found.extend(str(each[4][0]) for each in answers)
        except (OSError, UnicodeError) as error:
            failed = error
        finally:
            _running.release()
        # The loop may be gone by now, and nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_answer, answer, found, failed)

    threading.Thread(target=ask, name=f"resolve {host}", daemon=True).start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = await answer
    except TimeoutError:
        raise NotReached(f"no name server said where {host} is within {PATIENCE_S:.0f} s") from None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NotReached(f"no address of {host} was found: {reason}") from error
    return list(dict.fromkeys(found))[:MOST]


def _answer(answer: asyncio.Future[list[str]], found: list[str], failed: Exception | None) -> None:
    if answer.done():
        return
    if failed is not None:
        answer.set_exception(failed)
    else:
        answer.set_result(found)


def own_addresses() -> frozenset[Address]:
    """All addresses of this machine's interfaces, as they are now."""
    found = (
        parse(each.address.partition("%")[0])
        for addresses in psutil.net_if_addrs().values()
        for each in addresses
        if each.family in (socket.AF_INET, socket.AF_INET6)
    )
    return frozenset(address for address in found if address is not None)
