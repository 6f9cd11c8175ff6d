"""The network that a session was recorded with, so that it is replayed with it on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from reprise.egress.package_index import PackageIndex
from reprise.errors import LogCorrupt, UsageError
from reprise.log.model import Json
from reprise.log.store import LogReader
from reprise.sandbox.environment import EnvironmentSpec
from reprise.sandbox.network import NetworkRules, is_recorded, parse_rules

#: In a recorded environment, beside its rules: what `package-index` stood for.
_INDEX = "index"

#: Variables that lead pip and uv to an index; others are none of its business.
_PREFIXES = ("PIP_", "UV_", "SSL_CERT_FILE")


@dataclass(frozen=True)
class RecordedNetwork:
    """The rules of a session whose answers are recorded, and the index of its pip and uv."""

    rules: NetworkRules
    index: PackageIndex


def with_index(spec: EnvironmentSpec, index: PackageIndex) -> EnvironmentSpec:
    """An environment that also says what `package-index` stands for, if that is anything."""
    if not isinstance(spec.egress, Mapping) or not (index.places or index.variables):
        return spec
    said: dict[str, Json] = {
        "places": list(index.places),
        "variables": dict(index.variables),
    }
    return replace(spec, egress={**spec.egress, _INDEX: said})


async def recorded_network(reader: LogReader) -> RecordedNetwork | None:
    """That of the environment in which the session ran last; None where it recorded nothing."""
    digest = (await reader.info()).environment
    if digest is None:
        return None
    try:
        said: Any = (await reader.environment(digest)).get("egress")
    except LogCorrupt:
        return None
    if not is_recorded(said):
        return None
    try:
        rules = parse_rules({name: value for name, value in said.items() if name != _INDEX})
    except UsageError:
        return None  # it came with a bundle, from a later version or a stranger
    return RecordedNetwork(rules, _index(said.get(_INDEX)))


def _index(said: Any) -> PackageIndex:
    if not isinstance(said, Mapping):
        return PackageIndex()
    places, variables = said.get("places"), said.get("variables")
    return PackageIndex(
        places=tuple(each for each in places if isinstance(each, str))
        if isinstance(places, list)
        else (),
        variables={
            name: value
            for name, value in variables.items()
            if name.startswith(_PREFIXES) and isinstance(value, str) and "\0" not in value
        }
        if isinstance(variables, Mapping)
        else {},
    )
