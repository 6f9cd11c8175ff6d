"""The policies that bind whoever asks, from the top: the server's file, then those in the log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from reprise.errors import UnavailableError
from reprise.log.policies import Policies, StoredPolicy
from reprise.log.postgres import Log
from reprise_server.agent.policy.reading import MAX_BYTES, BadPolicy, parse_policy, policy_of
from reprise_server.agent.policy.rules import SERVER, Level, Policy


class Settings(Protocol):
    """What of the agent's settings counts here: `RepriseAgent`."""

    policy_file: str


class PolicyUnavailable(UnavailableError):
    """A policy that binds cannot be read: nothing is allowed until it can."""


async def levels(log: Log, settings: Settings) -> list[Level]:
    """The levels that bind the log's login, from the top.

    A policy that cannot be read stops everything, rather than count as none. Raises
    PolicyUnavailable, DatabaseUnavailable.
    """
    found: list[Level] = []
    if settings.policy_file:
        found.append(Level(SERVER, await asyncio.to_thread(of_file, settings.policy_file)))
    found.extend(map(level_of, await Policies(log).current()))
    return found


def of_file(path: str) -> Policy:
    """The operator's policy. Raises PolicyUnavailable."""
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        return parse_policy(data, path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise PolicyUnavailable(
            f"The policy of this server, {path}, cannot be read: {why}. The agent does nothing"
            " until it can (RepriseAgent.policy_file)."
        ) from error
    except BadPolicy as error:
        raise PolicyUnavailable(
            "The policy of this server is none, so the agent does nothing until it is mended"
            f" (RepriseAgent.policy_file):\n{error}"
        ) from error


def level_of(stored: StoredPolicy) -> Level:
    """A stored policy as a level. Raises PolicyUnavailable."""
    try:
        return Level(stored.scope, policy_of(stored.body, f"{stored.scope}@{stored.version}"))
    except BadPolicy as error:
        raise PolicyUnavailable(
            f"The policy of {stored.scope} (version {stored.version}, set by {stored.by}) is none,"
            f" so the agent does nothing until it is mended:\n{error}"
        ) from error
