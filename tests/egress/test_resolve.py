"""Looking up names takes bounded time and bounded threads, whatever name servers do."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from reprise.egress import resolve
from reprise.egress.contract import NotReached
from tests.fixtures.sandbox import PATIENCE


async def test_a_name_of_this_machine_is_found() -> None:
    assert set(await resolve.system_resolver("localhost")) <= {"127.0.0.1", "::1"}


async def test_a_name_that_is_none_is_told() -> None:
    with pytest.raises(NotReached, match=r"no address of nothing\.invalid was found"):
        await resolve.system_resolver("nothing.invalid")


async def test_a_silent_name_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def silent(*args: Any, **more: Any) -> list[Any]:
        release.wait(PATIENCE)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    monkeypatch.setattr(resolve, "PATIENCE_S", 0.01)
    with pytest.raises(NotReached, match="no name server said"):
        await resolve.system_resolver("slow.example")
    monkeypatch.setattr(resolve, "PATIENCE_S", PATIENCE)
    # Those that were given up still take their place, so their number is bounded.
    asking = [
        asyncio.create_task(resolve.system_resolver(f"h{n}.example"))
        for n in range(resolve.AT_ONCE - 1)
    ]
    await asyncio.sleep(0)
    with pytest.raises(NotReached, match="other look-ups wait"):
        await resolve.system_resolver("one.more.example")
    release.set()
    async with asyncio.timeout(PATIENCE):
        assert await asyncio.gather(*asking) == [[]] * len(asking)
        while not resolve._running.acquire(blocking=False):
            await asyncio.sleep(0.001)
    resolve._running.release()


async def test_a_thousand_answers_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(*args: Any, **more: Any) -> list[Any]:
        return [(2, 1, 6, "", (f"8.8.{n // 256}.{n % 256}", 0)) for n in range(1000)]

    monkeypatch.setattr(socket, "getaddrinfo", many)
    assert len(await resolve.system_resolver("many.example")) == resolve.MOST


def test_this_machines_addresses_are_known() -> None:
    assert "127.0.0.1" in {str(each) for each in resolve.own_addresses()}
