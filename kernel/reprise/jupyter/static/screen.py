"""Stands between what a sandbox says and what clients hear: decides when output is static.

All that came out of a sandbox passes it, live, late or shown again. Where output is not static it
looks at a message's type only.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from reprise.jupyter.static import messages
from reprise.jupyter.static.messages import Wall
from reprise.jupyter.static.policy import By, Policy
from reprise.log.model import Json, Step, canonical
from reprise.replay.comms import Comms
from reprise.replay.message import Message
from reprise.sandbox.named import OutputRule

log = logging.getLogger("reprise")

#: Seconds of sanitising that a session may use up at once, and the share of time it gets back:
#: hostile HTML within its bounds takes seconds, and the kernel does nothing else meanwhile.
BUDGET_S = 4.0
SHARE = 0.1

#: What reading and writing JSON of a stranger's raises: malformed, without end, or too deep.
UNREADABLE = (ValueError, RecursionError)

_COMM = frozenset({"comm_open", "comm_msg", "comm_close"})


class Screen:
    """What clients hear of a session's sandbox.

    rule, environment: what the session's environment says, and its name.
    comms: the comms of the language kernel that is there.
    """

    def __init__(
        self, rule: OutputRule, environment: str, comms: Callable[[], Comms | None]
    ) -> None:
        self._policy = Policy(rule)
        self._environment = environment
        self._comms = comms
        self._changing = False
        self._hint = _hint(environment)
        self._spent_s = 0.0
        self._counted_at = 0.0

    @property
    def static(self) -> bool:
        return self._changing or self._policy.static

    def to_json(self) -> dict[str, Json]:
        """Whether output is static, from which step on, and why, for people."""
        said = self._policy.to_json(self._environment)
        if self.static and not self._policy.static:
            said |= {"static": True, "why": "The kernel is going over to another session."}
        return said

    # what makes it so -------------------------------------------------------------------------

    def opened(self, first_untrusted: int | None, by: By | None = None) -> None:
        """A session is this kernel's now. by: what made that step untrusted, if it is known."""
        self._policy = self._policy.opened(first_untrusted, by)

    def accepted(self, step: Step) -> None:
        """A step was committed; called before it is sent."""
        self._policy = self._policy.accepted(step.seq, step.new)

    def changing(self, changing: bool) -> None:
        """The kernel goes over to another session: what the old sandbox still says is static."""
        self._changing = changing and self._policy.rule != "live"

    # what is heard ----------------------------------------------------------------------------

    def output(self, message: Message) -> Message | None:
        """An iopub message of the sandbox's as clients get it; None when they do not."""
        kind = message.msg_type
        if ours(kind):
            log.warning("A message that only the kernel may send came from the sandbox: %s.", kind)
            return None
        if not self.static:
            return message
        with self._counted() as wall:
            try:
                if kind in _COMM:
                    return messages.static_comm(message, wall)
                return messages.static_output(message, wall)
            except UNREADABLE as error:
                log.warning("An output was held back: %s.", error)
                return None

    def reply(self, message: Message, asked: str) -> tuple[Message, Message | None]:
        """A reply to a request of type `asked`, and what is to be shown before it, if anything."""
        kind = asked.removesuffix("_request") + "_reply"
        if message.msg_type != kind:
            header = {**message.header, "msg_type": kind}
            message = replace(message, header=header, raw_header=canonical(header))
        if not self.static:
            return message, None
        with self._counted() as wall:
            try:
                written, held = messages.static_reply(message, wall)
            except UNREADABLE as error:
                log.warning("A reply was held back: %s.", error)
                return replace(message, raw_content=_NOT_READ, buffers=()), None
            if not held:
                return written, None
            return written, messages.held_back(held, wall, message.raw_parent)

    def question(self, message: Message) -> Message:
        """An input_request."""
        if not self.static:
            return message
        return messages.static_question(message)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[Wall]:
        """The wall for one message; what writing it takes is counted."""
        now = time.monotonic()
        self._spent_s = max(0.0, self._spent_s - SHARE * (now - self._counted_at))
        self._counted_at = now
        began = time.thread_time()  # a loaded machine is no hostile output
        try:
            yield Wall(self._comms() or Comms(), self._hint, rich=self._spent_s < BUDGET_S)
        finally:
            self._spent_s += time.thread_time() - began


def ours(kind: str) -> bool:
    """Whether clients take messages of this type for the kernel's own (docs/messages.md)."""
    return kind.startswith("reprise_") or kind == "step_reply"


def _hint(environment: str) -> str:
    return (
        f"`reprise env output {environment} live` and a restart of the kernel show it; "
        "what an output holds then acts with your rights in this Jupyter"
    )


#: The content of a reply that could not be read.
_NOT_READ = canonical(
    {
        "status": "error",
        "ename": "Malformed",
        "evalue": "The language kernel's reply could not be read, so it was held back.",
        "traceback": [],
    }
)
