"""What one conversation sees of the catalog, step by step: a listing, a search, bodies, files.

A skill costs a line while nobody needs it, its body once it is loaded, a file once it is asked for.
A conversation begins with a choice (`choosing.py`) that does not change while it lasts; what it
loads is pinned to the version that it was loaded in. All of it is a value (`state`) that is stored
with the conversation and given back (`Disclosure.of`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from reprise.errors import (
    NotAllowed,
    RepriseError,
    SkillNotFound,
    SkillRevoked,
    UsageError,
)
from reprise.log.model import Json
from reprise.log.postgres import Log
from reprise.log.store import Standing
from reprise.skills.catalog import Catalog
from reprise.skills.choosing import BUDGET, Choice, Offer, choose, listing
from reprise.skills.contract import PERSONAL, Reference, Skill, Usage, Version
from reprise.skills.hints import hints, words
from reprise.skills.invocation import Invocation, Invocations, invocation
from reprise.skills.loaded import ACTIVE_TOKENS, Loaded, active_text, loaded
from reprise.skills.meant import meant, not_yet_added
from reprise.skills.part import MAX_SHOWN, FilePart, part_of
from reprise.skills.rows import nearest

#: Tokens of what a search answers, and how many skills it looks for.
SEARCH_TOKENS = 1_500
SEARCH_MOST = 20
#: Characters of a search that count, as in the catalog.
_SEARCHED = 200

#: Skills whose files are kept in memory for the next question about them.
_KEPT = 4

#: Who asks for a skill: the model, or the person by name.
By = Literal["model", "person"]


@dataclass(frozen=True)
class Found:
    """What a search found. text: for the model.  more: how many it does not name."""

    text: str
    offers: tuple[Offer, ...]
    more: int


class Disclosure:
    """One conversation's view of the catalog.

    untrusted: whether skills that nobody has approved are told of. They may be read then; they do
    not run.  loaded: what was loaded before, the last one last.
    """

    def __init__(
        self, log: Log, choice: Choice, *, untrusted: bool = True, loaded: Iterable[Loaded] = ()
    ) -> None:
        self.choice = choice
        self.untrusted = untrusted
        self._skills = Catalog(log)
        self._invocations = Invocations(log)
        self._pinned = {each.name: each for each in loaded}
        self._read: dict[str, Skill] = {}

    @classmethod
    async def begin(
        cls,
        log: Log,
        notebook: Mapping[str, Any] | None = None,
        *,
        path: str = "",
        task: str = "",
        budget: int = BUDGET,
        untrusted: bool = True,
    ) -> Disclosure:
        """The view with which a conversation begins.

        notebook: as nbformat 4 has it in JSON; its path and the task tell what it is about, too.
        Raises UsageError (the budget), DatabaseUnavailable.
        """
        skills = Catalog(log)
        invocations = Invocations(log)
        called: dict[str, Invocation] = {}
        offers = await offered(skills, untrusted=untrusted, called=called)
        about = await asyncio.to_thread(hints, notebook, path, task)
        # Whether a model may call a skill up stands in its files, which are read of those only
        # that would be told of.
        while True:
            choice = await asyncio.to_thread(choose, offers, about, budget=budget)
            unknown = [one.digest for one in choice.listed if one.digest not in called]
            called |= await invocations.of(unknown)
            hidden = {one.digest for one in choice.listed if not called[one.digest].by_model}
            if not hidden:
                return cls(log, choice, untrusted=untrusted)
            offers = [offer for offer in offers if offer.digest not in hidden]

    @classmethod
    def of(cls, log: Log, state: Any) -> Disclosure:
        """The view that was stored (`state`). Raises RepriseError when it is none."""
        match state:
            case {"choice": choice, "loaded": list(pinned), "untrusted": bool(untrusted)}:
                return cls(
                    log,
                    Choice.from_json(choice),
                    untrusted=untrusted,
                    loaded=map(Loaded.from_json, pinned),
                )
        raise RepriseError(
            "What was stored of a conversation's view of the catalog is none. Begin a new "
            "conversation; nothing of this one's history is lost."
        )

    def state(self) -> dict[str, Json]:
        """What there is to store, for `of`: some 10 kB, and what each loaded skill shows."""
        return {
            "choice": self.choice.to_json(),
            "loaded": [each.to_json() for each in self._pinned.values()],
            "untrusted": self.untrusted,
        }

    # -- what the model sees ----------------------------------------------------------------------

    def catalog(self) -> str:
        """The listing, the same bytes during the whole conversation."""
        return self.choice.text

    async def search(self, text: str, *, most_tokens: int = SEARCH_TOKENS) -> Found:
        """Skills that fit `text`, best first, each in a line, within `most_tokens`."""
        found = await self._skills.search(text, most=SEARCH_MOST)
        versions = nearest([await self._meant(version) for version in found])
        called = await self._invocations.of(version.digest for version in versions)
        offers = [
            offer_of(version)
            for version in versions
            if called[version.digest].by_model and self._told_of(version)
        ]
        offers += await self._shipped_that_fit(text, [offer.name for offer in offers])
        lines, count = listing(offers, most_tokens=most_tokens)
        more = len(offers) - count
        end = f"{more} more fit; search with more words.\n" if more else ""
        none = "" if offers else "No skill fits. Try other words, or fewer.\n"
        return Found(f"<skills-found>\n{lines}{end}{none}</skills-found>\n", tuple(offers), more)

    async def load(self, ref: str, *, by: By = "model", session: uuid.UUID | None = None) -> Loaded:
        """Load a skill: from now on its body counts, and its name means this version.

        ref: its name, or a reference ([SCOPE:]NAME[@NUMBER], sha256:DIGEST). Loading again shows
        the same bytes, as long as what is thought of it is the same. Raises SkillNotFound,
        SkillRevoked, NotAllowed (it is not the model's to load), UsageError (another version of it
        is loaded), BadSkill, LogCorrupt.
        """
        version, before = await self._version(ref)
        skill = await self._skill(version)
        called = invocation(skill.other)
        if by == "model" and not called.by_model:
            raise NotAllowed(
                f"{version.name} is called up by people only (disable-model-invocation). Ask the "
                "person to call it up, or go on without it."
            )
        now = loaded(skill, version.reference, version.standing, deprecated=version.deprecated)
        if before is None:
            await self._skills.used(version.digest, "load", session=session)
        elif before.standing == now.standing:
            # What was shown once is shown again, whatever words a later release finds for it.
            now = replace(now, text=before.text)
        self._pinned.pop(now.name, None)
        self._pinned[now.name] = now
        return now

    async def file(self, ref: str, path: str, *, start: int = 0, most: int = MAX_SHOWN) -> FilePart:
        """A part of a file of a loaded skill; see `part_of`.

        Raises UsageError for a skill that is not loaded, and as `part_of`; SkillRevoked.
        """
        version, before = await self._version(ref)
        if before is None:
            raise UsageError(f"{version.name} is not loaded. Load it first, then read its files.")
        skill = await self._skill(version)
        return part_of(skill, path, start, most)

    async def active(self, *, most_tokens: int = ACTIVE_TOKENS) -> str:
        """What must survive when the conversation is compacted; see `active_text`.

        The same bytes each time, as long as nothing is loaded or taken back.
        """
        pinned = list(self._pinned.values())
        standings = await self._skills.standings(each.digest for each in pinned)
        revoked = {digest for digest, standing in standings.items() if standing == "revoked"}
        return active_text(pinned, revoked, most_tokens=most_tokens)

    def loaded(self) -> tuple[Loaded, ...]:
        """What is loaded, the last one last; `files` of those only that were loaded here."""
        return tuple(self._pinned.values())

    # -- what the person is offered ---------------------------------------------------------------

    async def callable(self, *, most: int = 1_000) -> list[Offer]:
        """The skills that a person may call up by name, in the order of their names."""
        called: dict[str, Invocation] = {}
        offers = await offered(self._skills, untrusted=self.untrusted, called=called)
        told = sorted(offers, key=lambda offer: offer.name)[:most]
        unknown = [offer.digest for offer in told if offer.digest not in called]
        called |= await self._invocations.of(unknown)
        return [offer for offer in told if called[offer.digest].by_person]

    # -- inside -----------------------------------------------------------------------------------

    async def _shipped_that_fit(self, text: str, found: Collection[str]) -> list[Offer]:
        """What comes with Reprise and is in no scope yet: the database knows none of its words."""
        wanted = set(words(text[:_SEARCHED]))
        fitting = []
        for skill in await not_yet_added([]):
            said = {*words(skill.name), *words(skill.description)}
            fits = wanted and all(any(one.startswith(word) for one in said) for word in wanted)
            if not fits or skill.name in found:
                continue
            try:
                await self._skills.find(Reference(skill.name))
            except SkillNotFound:
                fitting.append(skill)
        standings = await self._skills.standings(skill.digest for skill in fitting)
        return [
            offer_of_shipped(skill)
            for skill in fitting
            if standings[skill.digest] != "revoked" and invocation(skill.other).by_model
        ]

    def _told_of(self, version: Version) -> bool:
        return version.standing == "trusted" or (version.standing == "untrusted" and self.untrusted)

    async def _meant(self, version: Version) -> Version:
        """What this version's name leads to, which a nearer scope may have too."""
        if version.scope == PERSONAL:
            return version
        return await self._skills.find(Reference(version.name))

    async def _version(self, ref: str) -> tuple[Version, Loaded | None]:
        """The version that `ref` means in this conversation, and what is loaded of it."""
        asked = Reference.of(ref)
        before = None if asked.name is None else self._pinned.get(asked.name)
        if before is not None and asked == Reference(asked.name):
            asked = Reference.of(before.reference)
        version = await meant(self._skills, asked)
        before = self._pinned.get(version.name)
        if before is not None and before.digest != version.digest:
            raise UsageError(
                f"This conversation has loaded {before.reference}; {version.reference} is other "
                "content. Go on with the loaded one, or begin a new conversation for the other."
            )
        if version.standing == "revoked":
            raise SkillRevoked(
                f"{version.reference} was taken back. It is not read into conversations and not "
                "mounted any more; `reprise skills history` says by whom and why."
            )
        if not self._told_of(version):
            raise SkillNotFound(
                f"No skill that this conversation may use is {ref}: nobody has approved it."
            )
        return version, before

    async def _skill(self, version: Version) -> Skill:
        found = self._read.pop(version.digest, None) or await self._skills.skill(version)
        self._read[version.digest] = found
        while len(self._read) > _KEPT:
            del self._read[next(iter(self._read))]
        return found


async def offered(
    skills: Catalog, *, untrusted: bool = True, called: dict[str, Invocation] | None = None
) -> list[Offer]:
    """All skills that may be told of, with how often they were used.

    called: gets who may call up those that are in no scope yet.
    """
    versions = nearest(await skills.list())
    fresh = await not_yet_added(versions)
    digests = [version.digest for version in versions] + [skill.digest for skill in fresh]
    usage = await skills.usage_of(digests)
    standings = await skills.standings(skill.digest for skill in fresh)
    offers = {
        version.name: offer_of(version, _uses(usage[version.digest]))
        for version in versions
        if version.standing == "trusted" or (untrusted and version.standing == "untrusted")
    }
    for skill in fresh:
        if standings[skill.digest] != "revoked":
            offers[skill.name] = offer_of_shipped(skill, _uses(usage[skill.digest]))
            if called is not None:
                called[skill.digest] = invocation(skill.other)
    return list(offers.values())


def offer_of_shipped(skill: Skill, uses: int = 0) -> Offer:
    """Of a skill that comes with Reprise: its name adds it to one's own scope when it is loaded."""
    return Offer(skill.name, skill.name, skill.digest, skill.description, uses=uses)


def _uses(usage: Usage) -> int:
    return usage.loads + usage.mounts + usage.runs


def offer_of(version: Version, uses: int = 0) -> Offer:
    standing: Standing = version.standing
    return Offer(
        version.name,
        version.reference,
        version.digest,
        version.description,
        standing,
        version.deprecated,
        uses,
    )
