"""Skills in a session: the pinned version is mounted as a step, a script of it runs as a step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from reprise.client import requests, results
from reprise.client.asking import Asking
from reprise.client.environment import environment_of
from reprise.client.failures import ProgramMissing
from reprise.client.incoming import stored
from reprise.client.reach import Reach
from reprise.client.results import CommandResult, MountResult
from reprise.client.running import Show
from reprise.client.skill_needs import Needing, Place
from reprise.client.skill_results import Progress, RunOptions, SkillMounted, SkillResult, Tell
from reprise.client.sources import Source
from reprise.client.workspace import LiveWorkspace
from reprise.errors import RepriseError, SkillRevoked, UsageError
from reprise.log.model import SKILLS, Actor, Json
from reprise.log.store import LogReader
from reprise.skills.catalog import Catalog
from reprise.skills.command import script_command, variables
from reprise.skills.compatibility import understood, warnings
from reprise.skills.contract import Reference, Skill, SkillTree, Use, Version
from reprise.skills.meant import meant
from reprise.skills.requirements import session_python
from reprise.skills.script import PYTHON, Script, find_script

#: How an end of a script counts; of the others it cannot be told whose fault they were.
_USES: Final[Mapping[str, Use]] = {"ok": "run", "error": "failure", "timeout": "failure"}


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
        if isinstance(ref, Version):
            now = await catalog.standings([ref.digest])  # it may have been revoked since
            version = replace(ref, standing=now[ref.digest])
        else:
            version = await meant(catalog, ref)
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
        target = f"{SKILLS}{version.name}"
        found = await self._there(target, version)
        if found is not None:
            return found, None
        tell(Progress("mount", f"mounting {version.reference} at {target}"))
        payload: dict[str, Json] = {
            "target": target,
            "skill": {
                "name": version.name,
                "scope": str(version.scope),
                "version": str(version.number),
            },
        }
        blobs: Mapping[str, bytes] = {}
        names = [version.digest, *tree.manifest.blobs()]
        if await (await self._reader()).blobs.missing(names):
            payload["entries"] = [entry.to_json() for entry in tree.manifest]
            read = {e.path: _reader(tree, e.path) for e in tree.manifest if e.type == "file"}
            blobs = await stored(self._reach, Source(tree.manifest, read))
        else:  # another session has brought them
            payload["tree"] = version.digest
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

    async def _check_ran(self, version: Version, seq: int) -> None:
        """Raise RepriseError when step `seq` did not run in this version's folder.

        Another client may have mounted another one there between our mount and our command.
        """
        target = f"{SKILLS}{version.name}"
        mounts = await (await self._reader()).skill_mounts()
        before = [each for each in mounts if each.target == target and each.seq < seq]
        if not before or before[-1].tree != version.digest:
            raise RepriseError(
                f"Step {seq} did not run {version.reference}: somebody mounted another version at "
                f"{target} just before. What ran was of that one; `reprise log` shows it. Ask "
                "again when nobody else uses this skill in the session."
            )

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
        wanted = [*_programs(found), PYTHON, *asked.names, "uv"]
        there = await self._workspace.programs(wanted)
        program = _program(found, there)
        path, mounted = await self._mounted(version, skill.tree, actor, tell)
        place = await self._place(isolated=path == f"{SKILLS}{version.name}")
        if found.is_python and place.python == PYTHON and PYTHON not in there:
            raise _no_program(found.path, PYTHON)
        needing = Needing(
            self._asking,
            self._workspace,
            install=options.get("install", True),
            actor=actor or self._actor,
            tell=tell,
        )
        prepared = await needing.prepare(found, place, uv="uv" in there)
        python = session_python(place.spec)
        said = [*await self._of_version(ref, version), *prepared.warnings]
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
            packages=prepared.folder,
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
        for warning in said:
            tell(Progress("warning", warning))
        tell(Progress("run", f"running {found.path}"))
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
        await self._check_ran(version, ended.seq)
        said += await self._count(version, found.path, ended)
        return SkillResult(
            **vars(ended),
            version=version,
            script=found.path,
            compatibility=skill.compatibility,
            allowed_tools=skill.allowed_tools,
            mounted=mounted,
            installed=prepared.installed,
            warnings=tuple(said),
        )

    async def _of_version(self, ref: Reference | str | Version, version: Version) -> list[str]:
        """What whoever named the skill should know of the version that it led to."""
        said = []
        if version.deprecated:
            said.append(f"{version.reference} is deprecated: `reprise skills history` says why.")
        named = Reference.of(ref) if isinstance(ref, str) else ref
        if isinstance(named, Reference) and named.name is not None and named.scope is None:
            others = await Catalog(await self._reach.log()).clashes(version)
            if others:
                listed = ", ".join(each.reference for each in others)
                said.append(f"{version.reference} was taken; there is {listed} of that name, too.")
        return said

    async def _place(self, *, isolated: bool) -> Place:
        digest, shut = await self._workspace.environment()
        reader = await self._reader()
        info = await reader.info()
        named = "default"
        with contextlib.suppress(RepriseError):  # then the sentences name the usual one
            named = (await environment_of(reader, info, self._reach.environ)).name
        return Place(await reader.environment(digest), named, isolated, shut)

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
        raise _no_program(script.path, names[0])
    return None


def _no_program(path: str, program: str) -> ProgramMissing:
    return ProgramMissing(
        f"{path} is run by {program}, which this session does not have. It was not run. A sandbox "
        "has the programs of this machine, or those of the image that its environment stands on "
        "(`reprise env create NAME --image …`)."
    )


def _reader(tree: SkillTree, path: str) -> Callable[[], bytes]:
    return lambda: tree.get(path) or b""
