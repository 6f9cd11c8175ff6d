"""The environment that a session is replayed in, or gets a kernel in, when nobody names one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace

from reprise.errors import LogCorrupt, RepriseError
from reprise.log.model import Json
from reprise.log.store import LogReader, SessionInfo
from reprise.sandbox.built import built_folder
from reprise.sandbox.chosen import applied, of_session, with_hosts
from reprise.sandbox.named import NamedEnvironment, environments, load
from reprise.settings import ENVIRONMENT


async def environment_of(
    reader: LogReader, info: SessionInfo, environ: Mapping[str, str] = os.environ
) -> NamedEnvironment:
    """What was chosen for the session; else what REPRISE_ENVIRONMENT names; else the one that the
    session last ran in, as far as it can be told: one that stands on the same and says the same of
    the network.

    A session names what its environment is, never what it is called. Raises UsageError for what
    REPRISE_ENVIRONMENT names.
    """
    choice = of_session(info.id, environ)
    if choice is not None and choice.environment is not None:
        return applied(choice, environ)[0]
    named = await _recorded(reader, info, environ)
    return named if choice is None else with_hosts(named, choice)


async def _recorded(
    reader: LogReader, info: SessionInfo, environ: Mapping[str, str]
) -> NamedEnvironment:
    usual = load(environ=environ)
    if environ.get(ENVIRONMENT) or info.environment is None:
        return usual
    try:
        spec = await reader.environment(info.environment)
    except LogCorrupt:
        return usual
    return _fitting(spec, usual)


def _fitting(spec: Mapping[str, Json], usual: NamedEnvironment) -> NamedEnvironment:
    found = [usual]
    for name in environments():
        with contextlib.suppress(RepriseError):  # a broken one is nobody's here
            found.append(load(name))
    standing = [each for each in found if _stands_on(spec, each)]
    for each in standing:
        if spec.get("egress", "none") == (each.network.to_json() or "none"):
            return each
    if standing:
        return standing[0]
    built = spec.get("built")
    if isinstance(built, str) and built_folder(built).is_dir():
        return replace(usual, packages=built, image=None)  # its name was taken away
    return usual


def _stands_on(spec: Mapping[str, Json], environment: NamedEnvironment) -> bool:
    stands = (environment.packages, environment.image)
    return stands == (spec.get("built"), spec.get("image"))
