"""What untrusted content is in the context, and when a path, a skill or a tool brings it (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from reprise_server.agent.contract import SkillNamed, Taint, TaintKind
from reprise_server.agent.policy.patterns import clean, path_matches

#: Of one conversation; what comes after it counts as its kind from anywhere.
MAX_TAINTS: Final = 200
#: Of a source as it is kept and shown.
MAX_SOURCE: Final = 200
ANYWHERE: Final = "anywhere"

Found = tuple[TaintKind, str]


def of_path(path: str, untrusted: Sequence[str]) -> tuple[Found, ...]:
    """What a file's content brings that lies at `path` of the workspace."""
    if not untrusted:
        return ()
    parts = path.split("/")
    above = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    # A path that cannot be judged may be one of them; a folder's name stands for all below it.
    if not clean(path) or any(
        path_matches(p.rstrip("/"), each) for p in untrusted for each in above
    ):
        return (("named", path),)
    return ()


def of_skill(skill: SkillNamed) -> tuple[Found, ...]:
    """What a skill's text or the output of its scripts brings."""
    if skill.standing == "trusted":
        return ()
    return (("skill", f"{skill.scope}:{skill.name}"),)


def of_hosts(hosts: Iterable[str]) -> tuple[Found, ...]:
    """What was fetched from hosts brings."""
    return tuple(("network", host) for host in sorted(set(hosts)))


def of_tool(tool: str) -> tuple[Found, ...]:
    """What a tool's result brings by itself: that of an MCP server is nobody's word."""
    return (("mcp", tool.removeprefix("mcp/")),) if tool.startswith("mcp/") else ()


def merged(taints: Sequence[Taint], found: Iterable[Found], seq: int) -> tuple[Taint, ...]:
    """The taints with what entry `seq` brought; each kind and source once, as it first came."""
    known = {(taint.kind, taint.source) for taint in taints}
    all_of = list(taints)
    for kind, source in found:
        kept = source[:MAX_SOURCE] if len(all_of) < MAX_TAINTS else ANYWHERE
        if (kind, kept) not in known:
            known.add((kind, kept))
            all_of.append(Taint(kind, kept, seq))
    return tuple(all_of)


def names(taints: Iterable[Taint]) -> frozenset[str]:
    """Taints as a grant keeps them: "network a.example"."""
    return frozenset(f"{taint.kind} {taint.source}" for taint in taints)


def shown(taints: Sequence[Taint], most: int = 3) -> str:
    """Taints for a person to read, the newest first."""
    newest = [f"{taint.kind} {taint.source}" for taint in reversed(taints[-most:])]
    more = len(taints) - len(newest)
    return ", ".join(newest) + (f" and {more} more" if more else "")
