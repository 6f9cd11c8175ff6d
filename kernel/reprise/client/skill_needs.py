"""Sees to what a script needs of Python and its packages, before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reprise.client import requests, results
from reprise.client.asking import Asking
from reprise.client.failures import ProgramMissing
from reprise.client.skill_packages import (
    Installation,
    Lacking,
    Ways,
    conflicts,
    filled,
    fitting_wheels,
    folder_apart,
    interpreter,
    into_folder,
    into_own,
    local_packages,
)
from reprise.client.skill_results import Progress, Tell
from reprise.client.workspace import LiveWorkspace
from reprise.environments.promotion import installed
from reprise.log.model import Actor, Json
from reprise.skills.requirements import (
    compare,
    runs_on,
    session_python,
)
from reprise.skills.script import Script


@dataclass(frozen=True)
class Place:
    """Where a script is to run.

    spec: the environment's.  named: what that is called.  isolated: whether the sandbox has
    programs, /tmp and packages of its own.  shut: why its network is, if it is.
    """

    spec: Mapping[str, Json]
    named: str
    isolated: bool
    shut: str | None

    @property
    def network(self) -> bool:
        if not self.isolated:
            return True
        return self.shut is None and self.spec.get("egress", "none") != "none"

    @property
    def python(self) -> str:
        return interpreter(self.spec, isolated=self.isolated)


@dataclass(frozen=True)
class Prepared:
    """warnings: a sentence each.  folder: of packages that only the script sees, if there is one.
    installed: requirements that were installed now.
    """

    warnings: tuple[str, ...] = ()
    folder: str | None = None
    installed: tuple[str, ...] = ()


class Needing:
    """Asks a session what it has, and installs what is lacking, as steps.

    install: whether it may.  actor: who asks for those steps.
    """

    def __init__(
        self,
        asking: Asking,
        workspace: LiveWorkspace,
        *,
        install: bool,
        actor: Actor | None,
        tell: Tell,
    ) -> None:
        self._asking = asking
        self._workspace = workspace
        self._may_install = install
        self._actor = actor
        self._tell = tell

    async def prepare(self, script: Script, place: Place, *, uv: bool) -> Prepared:
        """Raises DependenciesMissing, ProgramMissing: then the script is not to be run.

        uv: whether that program is there.
        """
        needs = script.needs
        if not script.is_python or not (needs.dependencies or str(needs.python)):
            return Prepared()
        paths = [
            entry.path
            for entry in await self._workspace.manifest(hashes=False)
            if entry.type == "file"
        ]
        own, _ = installed(paths) if place.isolated else ([], [])
        python = session_python(place.spec, [(each.name, each.version) for each in own])
        if python is None:
            raise ProgramMissing(
                f"{script.path} says which Python and which packages it needs, and this session's "
                "kernel is no Python, so it has none to run it on. It was not run. Run it in a "
                "session of the kernel `reprise`."
            )
        if not runs_on(needs, python):
            raise ProgramMissing(
                f"{script.path} runs on Python {needs.python}; this session has {python.version}. "
                "It was not run. An environment may stand on another Python: "
                "`reprise env create NAME --python VERSION --requirements FILE`."
            )
        comparison = compare(needs, python)
        said = tuple(
            f"Whether the extras of {requirement} are installed cannot be told."
            for requirement in comparison.unchecked
        )
        if not comparison.lacking:
            return Prepared(said)
        folder = folder_apart(needs, python)
        if filled(folder, paths, needs, python):
            return Prepared(said, folder)
        ways = Ways(
            python=place.python,
            pip="pip" in python.packages,
            uv=uv,
            network=place.network,
            local=local_packages(place.spec),
            wheels=fitting_wheels(paths, comparison.lacking),
            own=place.isolated,
            shut=place.shut,
        )
        lacking = Lacking(script.path, comparison, ways, place.named)
        if not self._may_install:
            raise lacking.error(comparison.lacking, "nothing was to be installed.")
        lacking.check_ways()
        plans = [into_folder(folder, needs, comparison, ways)]
        if ways.own and not comparison.unfit:
            plans.insert(0, into_own(comparison.missing, python, ways))
        done = await self._installed(plans, lacking)
        return Prepared(said, done.folder, done.what)

    async def _installed(self, plans: Sequence[Installation], lacking: Lacking) -> Installation:
        """The first plan by which versions go together, done as a step."""
        said = ""
        for plan in plans:
            where = "" if plan.folder is None else f" into {plan.folder}, for this script alone"
            self._tell(Progress("install", f"installing {', '.join(plan.what)}{where}"))
            payload, blobs = requests.command_payload(plan.command, stdin=plan.stdin)
            asked = requests.request("command", payload, blobs=blobs, actor=self._actor)
            ended = await self._asking.perform(asked, results.command_result)
            if ended.ok:
                return plan
            said = f"{ended.text}\n{ended.error or ''}"
            if not conflicts(said):
                break
        raise lacking.failed(said)
