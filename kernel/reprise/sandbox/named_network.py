"""Changes what a named environment says of the network: places, limits, the record, credentials."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reprise.errors import UsageError
from reprise.quantities import parse_size
from reprise.sandbox.named import NamedEnvironment, load, load_or_new, save
from reprise.sandbox.network import (
    PACKAGE_INDEX,
    HostSecret,
    NetworkRules,
    check_place,
    parse_rules,
)


def network_allow(name: str, places: Iterable[str], *, private: bool = False) -> NamedEnvironment:
    """Allow places (HOST, HOST:PORT, *.HOST, PACKAGE_INDEX) of an environment.

    private: at addresses too that are refused otherwise. Raises UsageError.
    """
    environment = load_or_new(name)
    rules = environment.network
    added = tuple(check_place(each, (PACKAGE_INDEX,)) for each in places)
    if private:
        # Where the index is counts as named by whoever configured it, so it is never private.
        if PACKAGE_INDEX in added:
            rules = replace(rules, allow=_union(rules.allow, (PACKAGE_INDEX,)))
            added = tuple(each for each in added if each != PACKAGE_INDEX)
        # It allows all that the same place in `allow` does.
        allow = tuple(each for each in rules.allow if each not in added)
        rules = replace(rules, allow=allow, private=_union(rules.private, added))
    else:
        added = tuple(each for each in added if each not in rules.private)
        rules = replace(rules, allow=_union(rules.allow, added))
    return _saved(environment, rules)


def network_deny(name: str, places: Iterable[str]) -> NamedEnvironment:
    """Allow these places no longer. Raises UsageError for one that no rule names."""
    environment = load(name)
    rules = environment.network
    for each in places:
        place = each.lower()
        if place not in (*rules.allow, *rules.private):
            there = ", ".join((*rules.allow, *rules.private)) or "none"
            raise UsageError(
                f"{each!r} is no place that {name!r} allows by that name, so nothing was changed. "
                f"Allowed: {there}."
            )
        rules = replace(
            rules,
            allow=tuple(one for one in rules.allow if one != place),
            private=tuple(one for one in rules.private if one != place),
        )
    return _saved(environment, rules)


def network_limits(
    name: str, *, connections: str | None, rate: str | None, size: str | None
) -> NamedEnvironment:
    """Set limits of the network from what a person wrote ("none" for no limit). Raises
    UsageError."""
    environment = load_or_new(name)
    said = environment.network.to_json()
    for field, text, read in (
        ("connections", connections, _number),
        ("rate", rate, _number),
        ("bytes", size, parse_size),
    ):
        if text == "default":
            said.pop(field, None)
        elif text is not None:
            said[field] = 0 if text in ("none", "0") else read(text)
    return _saved(environment, parse_rules(said))


def network_record(name: str, on: bool) -> NamedEnvironment:
    """Record what hosts answer, so that replays need no network; or no longer."""
    environment = load_or_new(name)
    return _saved(environment, replace(environment.network, record=on))


def network_secret(name: str, secret: HostSecret) -> NamedEnvironment:
    """Let the proxy add a credential, in place of the one in that header of that host.

    Raises UsageError.
    """
    environment = load_or_new(name)
    rules = environment.network
    others = tuple(each for each in rules.secrets if not _same(each, secret.host, secret.header))
    said = replace(rules, secrets=(*others, secret)).to_json()
    return _saved(environment, parse_rules(said))


def network_secret_remove(name: str, host: str, header: str | None) -> tuple[HostSecret, ...]:
    """Add the credentials of a host no longer (of one header: that one); returns them.

    Raises UsageError when there is none.
    """
    environment = load(name)
    rules = environment.network
    gone = tuple(each for each in rules.secrets if _same(each, host.lower(), header or each.header))
    if not gone:
        there = ", ".join(f"{each.header} for {each.host}" for each in rules.secrets) or "none"
        raise UsageError(
            f"{name!r} has no such credential for {host}, so nothing was changed. There: {there}."
        )
    left = tuple(each for each in rules.secrets if each not in gone)
    _saved(environment, replace(rules, secrets=left))
    return gone


def _same(secret: HostSecret, host: str, header: str) -> bool:
    return secret.host == host and secret.header.lower() == header.lower()


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r} is no number.") from None


def _union(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))


def _saved(environment: NamedEnvironment, rules: NetworkRules) -> NamedEnvironment:
    changed = replace(environment, network=rules)
    save(changed)
    return changed
