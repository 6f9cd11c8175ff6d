"""How two recorded environments differ, in phrases for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reprise.log.model import Json
from reprise.quantities import amount, seconds
from reprise.sandbox.built import SHOWN

_SIZE_LIMITS = frozenset({"memory", "workspace", "tmp", "output", "message", "request", "mounts"})
#: Phrases of `difference`; more packages than these are counted.
NAMED_PACKAGES = 30


def difference(old: Mapping[str, Json], new: Mapping[str, Json]) -> list[str]:
    """How two recorded environments differ, in short phrases: "pandas 2.2.3 → 3.0.1"."""
    return [
        *_base(old, new),
        *_interpreter(_mapping(old, "interpreter"), _mapping(new, "interpreter")),
        *_kernel(_mapping(old, "kernel"), _mapping(new, "kernel")),
        *_packages(_packages_of(old), _packages_of(new)),
        *_limits(_mapping(old, "limits"), _mapping(new, "limits")),
        *_network(_rules(old), _rules(new)),
        *_variables(_mapping(old, "variables"), _mapping(new, "variables")),
        *_mounts(_mounts_of(old), _mounts_of(new)),
        *_words("reuse", old, new, {"session": _ONE_SANDBOX, "never": _FRESH}),
        *_words("output", old, new, {"auto": _AUTO, "static": _STATIC, "live": _LIVE}),
        *_pair("team", old.get("team") or "(none)", new.get("team") or "(none)"),
        *_pair("skills", _skills(old), _skills(new)),
    ]


def _mapping(spec: Mapping[str, Json], name: str) -> Mapping[str, Any]:
    value = spec.get(name)
    return value if isinstance(value, Mapping) else {}


def _pair(what: str, old: object, new: object) -> list[str]:
    return [] if old == new else [f"{what} {old} → {new}"]


_ONE_SANDBOX = "steps share one interpreter"
_FRESH = "every step gets an interpreter of its own"
_AUTO = "scripts in outputs are held back once something untrusted ran"
_STATIC = "scripts in outputs never run"
_LIVE = "scripts in outputs always run"


def _words(
    field: str, old: Mapping[str, Json], new: Mapping[str, Json], words: Mapping[str, str]
) -> list[str]:
    """A field whose first word is the usual one, which specs leave out."""
    usual = next(iter(words))
    before, after = str(old.get(field, usual)), str(new.get(field, usual))
    return [] if before == after else [words.get(after, f"{field} {before} → {after}")]


def _skills(spec: Mapping[str, Json]) -> str:
    patterns = spec.get("skills")
    if not isinstance(patterns, list):
        return "any"
    return ", ".join(map(str, patterns)) or "none"


def _base(old: Mapping[str, Json], new: Mapping[str, Json]) -> list[str]:
    """What it stands on. A digest that changed is said where the packages tell no difference."""
    before, after = _standing(old), _standing(new)
    if before == after:
        return []
    both_built = old.get("built") and new.get("built")
    if both_built and _packages_of(old) != _packages_of(new):
        return []
    return [f"{before} → {after}"]


def _standing(spec: Mapping[str, Json]) -> str:
    if built := spec.get("built"):
        return f"built environment {str(built)[:SHOWN]}"
    if image := spec.get("image"):
        name, _, digest = str(image).partition("@sha256:")
        return f"image {name}@{digest[:SHOWN]}"
    return f"environment prefix {spec.get('base')}"


def _rules(spec: Mapping[str, Json]) -> Mapping[str, Any]:
    """What an environment says of the network; nothing for "none"."""
    return _mapping(spec, "egress")


def _network(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    said: list[str] = []
    for field, name in (("allow", "{}"), ("private", "{} (a private address)")):
        before, after = (set(map(str, each.get(field, ()))) for each in (old, new))
        said += [f"network: {name.format(place)} allowed" for place in sorted(after - before)]
        said += [f"network: {name.format(place)} not allowed" for place in sorted(before - after)]
    if bool(old.get("record")) != bool(new.get("record")):
        said.append(f"network: responses {'' if new.get('record') else 'no longer '}recorded")
    if "package-index" in old.get("allow", ()) and "package-index" in new.get("allow", ()):
        said += [] if old.get("index") == new.get("index") else ["network: another package index"]
    was, now = (
        {
            (str(each.get("host")), str(each.get("header"))): each
            for each in rules.get("secrets", ())
        }
        for rules in (old, new)
    )
    for key in sorted(was.keys() | now.keys()):
        if was.get(key) != now.get(key):
            what = "no longer given" if key not in now else "changed" if key in was else "given"
            said.append(f"network: the credential {key[1]} for {key[0]} {what}")
    for field, name in (("connections", "connections"), ("rate", "connections a minute")):
        said += _network_limit(name, old.get(field), new.get(field))
    return said + _network_limit("bytes of a step", old.get("bytes"), new.get("bytes"))


def _network_limit(name: str, old: Any, new: Any) -> list[str]:
    if old == new:
        return []
    before, after = ("the usual" if each is None else f"{each:,}" for each in (old, new))
    return [f"network: {name} {before} → {after}"]


def _interpreter(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    if old == new:
        return []
    before, after = (str(each.get("version", "")).partition(" ")[0] for each in (old, new))
    if before != after:
        return [f"Python {before or '(none)'} → {after or '(none)'}"]
    return ["the interpreter was built anew" if before else "the language kernel's program changed"]


def _kernel(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    if old.get("name") != new.get("name"):
        return _pair("language kernel", old.get("name"), new.get("name"))
    return [] if old == new else [f"the command of the language kernel {new.get('name')} changed"]


def _packages_of(spec: Mapping[str, Json]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for name, version, digest in spec.get("packages", ()):
        found.setdefault(str(name), []).append((str(version), str(digest)))
    return found


def _packages(
    old: Mapping[str, Sequence[tuple[str, str]]], new: Mapping[str, Sequence[tuple[str, str]]]
) -> list[str]:
    said: list[str] = []
    for name in sorted(set(old) | set(new)):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        was, now = (", ".join(version for version, _ in each or ()) for each in (before, after))
        if before is None:
            said.append(f"{name} {now} added")
        elif after is None:
            said.append(f"{name} {was} removed")
        elif was == now:
            said.append(f"{name} {now} reinstalled with other files")
        else:
            said.append(f"{name} {was} → {now}")
    if len(said) > NAMED_PACKAGES:
        more = len(said) - NAMED_PACKAGES
        said = [*said[:NAMED_PACKAGES], f"and {more:,} more packages"]
    return said


def _limits(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        f"limit {name} {_limit(name, old.get(name))} → {_limit(name, new.get(name))}"
        for name in sorted(set(old) | set(new))
        if old.get(name) != new.get(name)
    ]


def _limit(name: str, value: Any) -> str:
    if not value:
        return "none"
    if name in _SIZE_LIMITS:
        return amount(int(value))
    return seconds(float(value)) if name == "wall" else f"{value:g}"


def _variables(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    said: list[str] = []
    for name in sorted(set(old) | set(new)):
        if old.get(name) == new.get(name):
            continue
        before, after = (repr(each[name]) if name in each else "unset" for each in (old, new))
        said.append(f"variable {name} {before} → {after}")
    return said


def _mounts_of(spec: Mapping[str, Json]) -> dict[str, Mapping[str, Any]]:
    return {str(mount["target"]): mount for mount in spec.get("mounts", ())}


def _mounts(
    old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    said: list[str] = []
    for target in sorted(set(old) | set(new)):
        before, after = old.get(target), new.get(target)
        if before == after:
            continue
        if after is None:
            said.append(f"data at {target} no longer mounted")
        elif before is None:
            said.append(f"data at {target} mounted from {after['source']}")
        elif after["source"] != before["source"]:
            said.append(f"data at {target} from {before['source']} → {after['source']}")
        elif after["manifest"] is None:
            said.append(f"data at {target} is gone ({after['source']} is not there)")
        else:
            said.append(f"data at {target} has changed")
    return said
