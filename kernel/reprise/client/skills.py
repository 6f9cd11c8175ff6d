"""Skills in a session: the pinned version is mounted as a step, a script of it runs as a step."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from reprise.client import requests, results
from reprise.client.asking import Asking
from reprise.client.environment import environment_of
from reprise.client.failures import ProgramMissing
from reprise.client.incoming import stored
from reprise.client.reach import Reach
from reprise.client.results import CommandResult, MountResult
from reprise.client.running import Show
from reprise.client.skill_command import script_command, variables
from reprise.client.skill_packages import (
    Installation,
    Ways,
    check_ways,
    conflicts,
    filled,
    fitting_wheels,
    folder_apart,
    interpreter,
    into_folder,
    into_own,
    local_packages,
    missing,
)
from reprise.client.sources import Source
from reprise.client.workspace import LiveWorkspace
from reprise.environments.promotion import installed
from reprise.errors import RepriseError, SkillNotFound, SkillRevoked, UsageError
from reprise.log.model import Actor, Json
from reprise.log.store import LogReader
from reprise.skills.catalog import Catalog
from reprise.skills.compatibility import understood, warnings
from reprise.skills.contract import PERSONAL, Origin, Reference, Skill, SkillTree, Use, Version
from reprise.skills.requirements import (
    Comparison,
    SessionPython,
    compare,
    runs_on,
    session_python,
)
from reprise.skills.script import Script, find_script
from reprise.skills.shipped import find_shipped

#: Where a skill is mounted, by its name.
PLACE: Final = "/skills"
#: How an end of a script counts; of the others it cannot be told whose fault they were.
_USES: Final[Mapping[str, Use]] = {"ok": "run", "error": "failure", "timeout": "failure"}

Tell = Callable[[str], None]


class RunOptions(TypedDict, total=False):
    """What `run_skill` takes beside skill, script and arguments.

    stdin, env, timeout, output_bytes, output_lines, key, actor: as of a command.
    install: whether packages that the script needs may be brought into the session.
    on_progress: called with what is done before the script runs, a phrase each.
    """

    stdin: str | bytes | None
    env: Mapping[str, str] | None
    timeout: float | None
    output_bytes: int | None
    output_lines: int | None
    key: str | None
    actor: Actor | None
    install: bool


@dataclass(frozen=True)
class SkillMounted:
    """A skill as it lies in a session.

    path: where, inside.  step: the mount that was made now; None when the very same content was
    there already.
    """

    version: Version
    skill: Skill
    path: str
    step: MountResult | None


@dataclass(frozen=True)
class SkillResult(CommandResult):
    """How a script of a skill ended.

    version: of the skill.  script: its path within.  mounted: the step that mounted it, None when
    it was there.  installed: requirements that were installed for it now.  warnings: a sentence
    each.
    """

    version: Version
    script: str
    mounted: MountResult | None
    installed: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Place:
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


class SessionSkills:
    """The skills of one client's session. actor: who asks, if not the user."""

    def __init__(
        self, reach: Reach, asking: Asking, workspace: LiveWorkspace, actor: Actor | None
    ) -> None:
        self._reach = reach
        self._asking = asking
        self._workspace = workspace
        self._actor = actor

    # mounting -----------------------------------------------------------------------------------

    async def mount(
        self, ref: Reference | str | Version, *, actor: Actor | None, tell: Tell
    ) -> SkillMounted:
        """Raises SkillNotFound, SkillRevoked, SkillNotTrusted, StepFailed."""
        version, skill = await self._find(ref)
        path, step = await self._mounted(version, skill.tree, actor, tell)
        return SkillMounted(version, skill, path, step)

    async def _find(self, ref: Reference | str | Version) -> tuple[Version, Skill]:
        await self._reach.line()
        catalog = Catalog(await self._reach.log())
        version = ref if isinstance(ref, Version) else await _meant(catalog, ref)
        if version.standing == "revoked":
            raise SkillRevoked(
                f"{version.reference} was revoked, so nothing of it runs any more. Nothing was "
                f"mounted. `reprise skills history {version.name}` says who did it and why."
            )
        return version, await catalog.skill(version)

    async def _mounted(
        self, version: Version, tree: SkillTree, actor: Actor | None, tell: Tell
    ) -> tuple[str, MountResult | None]:
        """Where it lies, and the step that was needed for that."""
        target = f"{PLACE}/{version.name}"
        found = await self._there(target, version)
        if found is not None:
            return found, None
        tell(f"mounting {version.reference} at {target}")
        source = Source(
            tree.manifest,
            {e.path: _reader(tree, e.path) for e in tree.manifest if e.type == "file"},
        )
        blobs = await stored(self._reach, source)
        payload = {
            "target": target,
            "entries": [entry.to_json() for entry in tree.manifest],
            "skill": {
                "name": version.name,
                "scope": str(version.scope),
                "version": str(version.number),
            },
        }
        asked = requests.request("mount", payload, blobs=blobs, actor=actor or self._actor)
        done = await self._asking.perform(asked, results.mount_result)
        done.check()
        if done.tree != version.digest:
            raise RepriseError(
                f"What was mounted at {target} is {done.tree}, not {version.digest} as the catalog "
                "has it. Nothing of it was run."
            )
        return done.path, done

    async def _there(self, target: str, version: Version) -> str | None:
        """Where the very content lies already; None when it has to be mounted."""
        reader = await self._reader()
        mounts = [each for each in await reader.skill_mounts() if each.target == target]
        if not mounts or mounts[-1].tree != version.digest:
            return None
        if mounts[-1].trusted and version.standing != "trusted":
            return None  # it is the kernel that decides whether that may go on
        async for record in reader.records(mounts[-1].seq, mounts[-1].seq + 1):
            if record.outcome is None or record.outcome.status != "ok" or not record.outputs:
                return None
            result = record.outputs[-1].content.get("result")
            path = result.get("path") if isinstance(result, Mapping) else None
            return path if isinstance(path, str) else None
        return None

    async def _reader(self) -> LogReader:
        return await (await self._reach.log()).reader(self._reach.session)

    # running ------------------------------------------------------------------------------------

    async def run(
        self,
        ref: Reference | str | Version,
        script: str,
        arguments: Sequence[str],
        options: RunOptions,
        show: Show | None,
        tell: Tell,
    ) -> SkillResult:
        """Raises SkillNotFound, SkillRevoked, SkillNotTrusted, UsageError, BadSkill,
        DependenciesMissing, ProgramMissing: then the script was not run."""
        if isinstance(arguments, str):
            raise UsageError("The arguments of a script are a list of words, not one text.")
        actor = options.get("actor")
        version, skill = await self._find(ref)
        found = find_script(skill.tree, script)
        asked = understood(skill.compatibility)
        there = await self._workspace.programs([*_programs(found), *asked.names, "uv"])
        program = _program(found, there)
        path, mounted = await self._mounted(version, skill.tree, actor, tell)
        place = await self._place(isolated=path == f"{PLACE}/{version.name}")
        said, folder, added = await self._prepare(found, place, "uv" in there, options, tell)
        python = session_python(place.spec)
        said += warnings(
            asked,
            python=None if python is None else python.version,
            there=there,
            network=place.network,
        )
        text = script_command(
            found,
            arguments,
            name=version.name,
            path=path,
            program=place.python if found.is_python else program,
            packages=folder,
            in_place=not place.isolated,
        )
        payload, blobs = requests.command_payload(
            text,
            env=variables(found, version.name, version.digest, options.get("env")),
            stdin=options.get("stdin"),
            timeout=options.get("timeout"),
            output_bytes=options.get("output_bytes"),
            output_lines=options.get("output_lines"),
        )
        tell(f"running {found.path}")
        step = requests.request(
            "command",
            payload,
            key=options.get("key"),
            blobs=blobs,
            actor=actor or self._actor,
        )
        ended = await self._asking.finish(
            self._asking.running(step, results.command_result), show, check=False
        )
        said += await self._count(version, found.path, ended)
        return SkillResult(
            **vars(ended),
            version=version,
            script=found.path,
            mounted=mounted,
            installed=added,
            warnings=tuple(said),
        )

    async def _place(self, *, isolated: bool) -> _Place:
        digest, shut = await self._workspace.environment()
        reader = await self._reader()
        info = await reader.info()
        named = "default"
        with contextlib.suppress(RepriseError):  # then the sentences name the usual one
            named = (await environment_of(reader, info, self._reach.environ)).name
        return _Place(await reader.environment(digest), named, isolated, shut)

    async def _count(self, version: Version, script: str, ended: CommandResult) -> list[str]:
        use = _USES.get(ended.status)
        if use is None or ended.repeated:
            return []
        try:
            catalog = Catalog(await self._reach.log())
            await catalog.used(
                version.digest,
                use,
                session=self._reach.session,
                seq=ended.seq,
                detail={"script": script},
            )
        except RepriseError as error:
            return [f"That it ran could not be counted: {error}"]
        return []

    # what it needs ------------------------------------------------------------------------------

    async def _prepare(
        self, script: Script, place: _Place, uv: bool, options: RunOptions, tell: Tell
    ) -> tuple[list[str], str | None, tuple[str, ...]]:
        """See to what the script needs of Python and its packages.

        Returns warnings, the folder of packages that only it sees, and what was installed now.
        """
        needs = script.needs
        if not script.is_python or not (needs.dependencies or str(needs.python)):
            return [], None, ()
        entries = [
            entry.path
            for entry in await self._workspace.manifest(hashes=False)
            if entry.type == "file"
        ]
        own, _ = installed(entries) if place.isolated else ([], [])
        python = session_python(place.spec, [(each.name, each.version) for each in own])
        if python is None:
            raise ProgramMissing(
                f"{script.path} says which Python and which packages it needs, and this session's "
                "kernel is no Python, so it has none to run it on. Nothing was run. Run it in a "
                "session of the kernel `reprise`."
            )
        if not runs_on(needs, python):
            raise ProgramMissing(
                f"{script.path} runs on Python {needs.python}; this session has {python.version}. "
                "Nothing was run. An environment may stand on another Python: "
                "`reprise env create NAME --python VERSION --requirements FILE`."
            )
        comparison = compare(needs, python)
        said = [
            f"Whether the extras of {requirement} are installed cannot be told."
            for requirement in comparison.unchecked
        ]
        if not comparison.lacking:
            return said, None, ()
        folder = folder_apart(needs, python)
        if filled(folder, entries, needs, python):
            return said, folder, ()
        ways = Ways(
            python=place.python,
            pip="pip" in python.packages,
            uv=uv,
            network=place.network,
            local=local_packages(place.spec),
            wheels=fitting_wheels(entries, comparison.lacking),
            own=place.isolated,
            shut=place.shut,
        )
        if not options.get("install", True):
            raise missing(script.path, comparison, comparison.lacking, ways, place.named)
        check_ways(script.path, comparison, ways, place.named)
        actor = options.get("actor")
        done = await self._install(script, comparison, python, folder, ways, place, actor, tell)
        return said, done.folder, done.what

    async def _install(
        self,
        script: Script,
        comparison: Comparison,
        python: SessionPython,
        folder: str,
        ways: Ways,
        place: _Place,
        actor: Actor | None,
        tell: Tell,
    ) -> Installation:
        """Install what is lacking, as a step. Raises DependenciesMissing when that fails."""
        apart = into_folder(folder, script.needs, ways)
        plans = [apart]
        if ways.own and not comparison.unfit:
            plans.insert(0, into_own(comparison.missing, python, ways))
        ended: CommandResult | None = None
        for plan in plans:
            where = "" if plan.folder is None else f" into {plan.folder}, for this script alone"
            tell(f"installing {', '.join(plan.what)}{where}")
            payload, blobs = requests.command_payload(plan.command, stdin=plan.stdin)
            asked = requests.request("command", payload, blobs=blobs, actor=actor or self._actor)
            ended = await self._asking.perform(asked, results.command_result)
            if ended.ok:
                return plan
            if not conflicts(ended.text):
                break
        said = "" if ended is None else f"{ended.text}\n{ended.error or ''}"
        raise missing(script.path, comparison, comparison.lacking, ways, place.named, said)


async def _meant(catalog: Catalog, ref: Reference | str) -> Version:
    """The version that a reference means.

    What comes with Reprise is in nobody's scope before it is used: it is added to one's own then,
    and again when an upgrade brought another content. Raises SkillNotFound.
    """
    named = Reference.of(ref) if isinstance(ref, str) else ref
    try:
        version = await catalog.find(named)
    except SkillNotFound:
        version = None
        if named.name is None or named.scope not in (None, PERSONAL) or named.number is not None:
            raise
    pinned = named.name is None or named.number is not None
    if version is not None and (pinned or version.origin.kind != "shipped"):
        return version
    shipped = await asyncio.to_thread(find_shipped, named.name or "")
    if shipped is not None and (version is None or version.digest != shipped.digest):
        return await catalog.add(shipped, Origin("shipped"))
    return version or await catalog.find(named)


def _programs(script: Script) -> list[str]:
    """By which names the program of a script may be there, the first one first."""
    if script.program is None or script.is_python:
        return []
    name = script.program.rpartition("/")[2]
    return list(dict.fromkeys([script.program, name]))


def _program(script: Script, there: frozenset[str]) -> str | None:
    """What runs the script, by its name in the session. Raises ProgramMissing."""
    names = _programs(script)
    for name in names:
        if name in there:
            return name
    if names:
        raise ProgramMissing(
            f"{script.path} is run by {names[0]}, which this session does not have. Nothing was "
            "mounted or run. A sandbox has the programs of this machine, or those of the image "
            "that its environment stands on (`reprise env create NAME --image …`)."
        )
    return None


def _reader(tree: SkillTree, path: str) -> Callable[[], bytes]:
    return lambda: tree.get(path) or b""
