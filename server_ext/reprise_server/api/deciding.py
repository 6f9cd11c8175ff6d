"""Decisions that wait for a person's press: what is asked, each button's nonce, how it ended.

A nonce is handed out within a decision frame alone, for one button of one showing of it, and works
once. Whoever has it has pressed, or has the page's whole power already (docs/agent-api.md).
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from reprise.errors import RepriseError
from reprise_server.api.matter import ACCEPT, Matter, Parts
from reprise_server.api.people import Person
from reprise_server.api.refusals import Refused

#: Seconds that a frame is in view before a press counts; a nonce does not work sooner either.
VIEW_S: Final = 0.6
#: Showings of one decision whose nonces work: a page that is loaded anew, a second page.
_SHOWINGS: Final = 16
#: Decisions of one person that wait at the same time.
_WAITING: Final = 32
#: Seconds after which one that has ended is forgotten; until then it says how.
_KEPT_S: Final = 600.0
#: Seconds within which the act that was allowed has to be asked for again.
_TAKEN_S: Final = 60.0
_REASON: Final = 2_000

How = Literal["pressed", "elsewhere", "timeout"]


@dataclass(frozen=True)
class Ended:
    """option: None where nobody pressed. told: for people, such as "Allowed once"."""

    how: How
    told: str
    option: str | None = None
    reason: str | None = None


class NotNeeded(RepriseError):
    """What was pressed for does not wait any more: it was decided in another way."""


@dataclass(frozen=True)
class Pressed:
    """What a person decided. rejected: the parts that are left out of it, each with its reason."""

    option: str
    reason: str | None = None
    rejected: Mapping[str, str | None] = field(default_factory=dict)


#: Called with what was pressed, before the press is answered.
OnPress = Callable[[Pressed], Awaitable[None]]


@dataclass(frozen=True)
class Handed:
    """What a nonce presses, and when it was handed out. part: None for the whole."""

    option: str
    at: float
    part: str | None = None


@dataclass(frozen=True)
class PartEnded:
    """How a part was decided."""

    accepted: bool
    reason: str | None = None


@dataclass
class Decision:
    """One decision of one person. left_s: until nobody's answer is an answer.

    parts: what can be decided by itself.  answers: those of it that were. Nothing is done before
    all have one, or the whole is pressed.
    """

    id: uuid.UUID
    person: Person
    matter: Matter
    key: str
    until: float
    on_press: OnPress | None = None
    parts: Parts | None = None
    answers: dict[str, PartEnded] = field(default_factory=dict)
    ended: Ended | None = None
    ended_at: float = 0.0
    taken: bool = False
    nonces: dict[str, Handed] = field(default_factory=dict, repr=False)

    @property
    def rejected(self) -> dict[str, str | None]:
        """The parts that were rejected, and why."""
        return {part: each.reason for part, each in self.answers.items() if not each.accepted}

    def part(self, name: str) -> Matter:
        """Raises Refused (404)."""
        found = None if self.parts is None else self.parts.each.get(name)
        if found is None:
            raise Refused(404, "part-not-found", "That decision has no such part.")
        return found


class Decisions:
    """All decisions of one server. They live in its memory: a question that outlives the server is
    asked again. clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: dict[uuid.UUID, Decision] = {}
        self._by_key: dict[str, uuid.UUID] = {}

    def open(
        self,
        matter: Matter,
        person: Person,
        key: str,
        seconds: float,
        on_press: OnPress | None = None,
        parts: Parts | None = None,
    ) -> tuple[Decision, bool]:
        """The decision under this key, and whether it is a new one. One that waits stays the same.

        Raises Refused (429).
        """
        self._forget()
        known = self._by_key.get(key)
        if known is not None and self._all[known].ended is None:
            return self._all[known], False
        # Acts and questions apart: a script that asks for acts keeps nobody from an answer.
        waiting = sum(
            (each.on_press is None) is (on_press is None) for each in self.waiting(person)
        )
        if waiting >= _WAITING:
            raise Refused(
                429,
                "too-many-decisions",
                f"{waiting} decisions wait for you, and more may not at once. Decide some first.",
                retry_after_s=5,
            )
        until = self._clock() + seconds
        made = Decision(uuid.uuid4(), person, matter, key, until, on_press, parts)
        self._all[made.id] = made
        self._by_key[key] = made.id
        return made, True

    def find(self, identity: uuid.UUID) -> Decision:
        """Raises Refused (404)."""
        self._forget()
        try:
            return self._all[identity]
        except KeyError:
            raise Refused(
                404,
                "decision-not-found",
                "There is no such decision here. One that has ended is kept for a while only, and"
                " none outlives its server.",
            ) from None

    def under(self, key: str) -> Decision | None:
        """The newest one under a key."""
        self._forget()
        known = self._by_key.get(key)
        return None if known is None else self._all[known]

    def waiting(self, person: Person) -> list[Decision]:
        """This person's, the oldest first."""
        self._forget()
        return [each for each in self._all.values() if each.ended is None and each.person == person]

    def left_s(self, decision: Decision) -> float:
        """Seconds until it ends by itself."""
        return max(0.0, decision.until - self._clock())

    def show(self, decision: Decision, part: str | None = None) -> dict[str, str]:
        """Option → nonce, for one more showing of the whole or of a part. Those of its oldest
        showings stop working. Raises Refused (404)."""
        matter = decision.matter if part is None else decision.part(part)
        now = self._clock()
        made = {each.option: secrets.token_urlsafe(32) for each in matter.choices}
        decision.nonces |= {nonce: Handed(option, now, part) for option, nonce in made.items()}
        of_it = [nonce for nonce, each in decision.nonces.items() if each.part == part]
        for nonce in of_it[: max(0, len(of_it) - _SHOWINGS * len(made))]:
            del decision.nonces[nonce]
        return made

    async def press(
        self, identity: uuid.UUID, nonce: str, reason: str | None, person: Person
    ) -> Decision:
        """A button was pressed. Raises Refused (403, 404, 409, 425), and what `on_press` raises;
        then it still waits, to be pressed in a new showing."""
        decision = self.find(identity)
        if decision.person != person:
            raise Refused(
                403, "not-yours", f"This waits for {decision.person}, and nobody else decides it."
            )
        if decision.ended is not None:
            raise Refused(
                409, "decided", f"This was decided before: {decision.ended.told} Nothing changed."
            )
        handed = decision.nonces.get(nonce)
        if handed is None:
            raise Refused(
                403,
                "no-such-press",
                "This is no press of a button of that decision, or it was used. Nothing was"
                " decided. Load the frame anew.",
            )
        if self._clock() - handed.at < VIEW_S:
            raise Refused(
                425,
                "too-soon",
                "The frame was not in view long enough to be read. Nothing was decided.",
                retry_after_s=1,
            )
        matter = decision.matter if handed.part is None else decision.part(handed.part)
        choice = next(each for each in matter.choices if each.option == handed.option)
        said = reason[:_REASON] if reason and choice.reason else None
        if handed.part is None:
            rejected = {} if choice.look == "reject" else decision.rejected
            pressed = Pressed(handed.option, said, rejected)
            await self._pressed(decision, nonce, pressed, f"{choice.label}.")
        else:
            accepted = choice.option == ACCEPT
            await self._part(decision, nonce, handed.part, accepted=accepted, reason=said)
        return decision

    async def reject(
        self, decision: Decision, rejected: Mapping[str, str | None], person: Person
    ) -> None:
        """Reject parts without a press, since that widens nothing; with the last part that waits
        the whole is decided. Raises Refused (403, 404, 409), and what `on_press` raises."""
        if decision.person != person:
            raise Refused(403, "not-yours", f"This waits for {decision.person}.")
        for part in rejected:
            decision.part(part)
            if decision.ended is not None or part in decision.answers:
                raise Refused(409, "decided", "This was decided before. Nothing changed.")
        for part, reason in rejected.items():
            await self._part(decision, None, part, accepted=False, reason=reason)

    async def _part(
        self,
        decision: Decision,
        nonce: str | None,
        part: str,
        *,
        accepted: bool,
        reason: str | None,
    ) -> None:
        """A part was decided; with the last one the whole is."""
        parts = decision.parts
        assert parts is not None  # noqa: S101  a part of it was shown
        decision.answers[part] = PartEnded(accepted, reason)
        rejected = decision.rejected
        if len(decision.answers) < len(parts.each):
            decision.matter = parts.rest(rejected)
            # Where the whole was shown with what is rejected now, it is not pressed any more.
            over = (part,) if accepted else (part, None)
            decision.nonces = {
                key: each for key, each in decision.nonces.items() if each.part not in over
            }
            return
        if len(rejected) == len(parts.each):
            said = "; ".join(dict.fromkeys(each for each in rejected.values() if each))
            pressed, told = Pressed("deny", said[:_REASON] or None), "Rejected."
        else:
            left = "" if not rejected else f", but for {len(rejected)} of {len(parts.each)}"
            pressed, told = Pressed("once", None, rejected), f"Accepted{left}."
        try:
            await self._pressed(decision, nonce, pressed, told)
        except BaseException:
            del decision.answers[part]
            raise

    async def _pressed(
        self, decision: Decision, nonce: str | None, pressed: Pressed, told: str
    ) -> None:
        nonces, decision.nonces = decision.nonces, {}
        self._end(decision, Ended("pressed", told, pressed.option, pressed.reason))
        if decision.on_press is None:
            return
        try:
            await decision.on_press(pressed)
        except NotNeeded as error:
            decision.ended = Ended("elsewhere", str(error))
            raise Refused(409, "decided", f"{error} Nothing changed.") from error
        except BaseException:
            # Whoever is to be told could not be. The nonce is used up all the same.
            decision.ended = None
            decision.nonces = {key: each for key, each in nonces.items() if key != nonce}
            raise

    def end(self, decision: Decision, told: str, how: How = "elsewhere") -> None:
        """It was decided in another way, or nobody waits for it any more."""
        if decision.ended is None:
            self._end(decision, Ended(how, told))

    def end_under(self, key: str, told: str, *, again: bool = False) -> None:
        """All that wait under keys that begin with this one were decided in another way.

        again: what is asked under such a key later is asked anew.
        """
        for decision in self._all.values():
            if decision.key.startswith(key):
                self.end(decision, told)
                if again and self._by_key.get(decision.key) == decision.id:
                    del self._by_key[decision.key]

    def take(self, identity: uuid.UUID, key: str, person: Person, option: str) -> bool:
        """Whether this very act was allowed by a press just now; it is, once."""
        decision = self._all.get(identity)
        if (
            decision is None
            or decision.taken
            or decision.key != key
            or decision.person != person
            or decision.ended is None
            or decision.ended.how != "pressed"
            or decision.ended.option != option
            or self._clock() - decision.ended_at > _TAKEN_S
        ):
            return False
        decision.taken = True
        return True

    def _end(self, decision: Decision, ended: Ended) -> None:
        decision.ended = ended
        decision.ended_at = self._clock()
        decision.nonces = {}

    def _forget(self) -> None:
        now = self._clock()
        for decision in list(self._all.values()):
            if decision.ended is None and now >= decision.until:
                self._end(decision, Ended("timeout", decision.matter.ending))
            if decision.ended is not None and now - decision.ended_at > _KEPT_S:
                del self._all[decision.id]
                if self._by_key.get(decision.key) == decision.id:
                    del self._by_key[decision.key]
