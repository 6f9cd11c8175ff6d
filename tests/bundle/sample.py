"""A history with something of everything that a log can hold, written as a kernel would."""

from __future__ import annotations

import uuid
from dataclasses import replace

from reprise.log.model import (
    SYSTEM,
    Actor,
    During,
    NewOutcome,
    NewStep,
    OutputEntry,
    canonical,
    outputs_hash,
    sha256_hex,
)
from reprise.log.postgres import Log
from reprise.log.store import Notice, RecordedResponse, StateRecord
from reprise.log.writer import Writer
from reprise.workspace.manifest import Entry, Manifest

BEGAN = 1_750_000_000_000_000

SPEC = {
    "base": "/usr",
    "kernel": {"name": "python3", "language": "python", "argv": ["/usr/bin/python3"]},
    "interpreter": {"version": "3.11.2 (main)"},
    "packages": [["numpy", "2.1.0", "r1"], ["ipykernel", "7.4.0", "r2"]],
    "limits": {"memory": 0, "processes": 512},
    "egress": "none",
    "variables": {"PYTHONHASHSEED": "0"},
    "mounts": [],
}
ENVIRONMENT = sha256_hex(canonical(SPEC))

#: What JSON and UTF-8 disagree on.
ODD = "nul \x00, lone \ud800 surrogate, \U0001f600, ﷽, \x7f"
#: Kept in a file of its own.
LARGE = bytes(range(256)) * 5000


def cell(code: str, **changes: object) -> NewStep:
    payload = {
        "header": {"msg_id": f"m-{code[:20]}", "msg_type": "execute_request"},
        "metadata": {},
        "content": {"code": code, "silent": False, "store_history": True},
    }
    return step("cell", payload, **changes)


def step(kind: str, payload: dict[str, object], **changes: object) -> NewStep:
    values: dict[str, object] = {"at": BEGAN, "environment": ENVIRONMENT, **changes}
    return NewStep(kind, payload, **values)  # type: ignore[arg-type]


def text(*pieces: str, name: str = "stdout") -> list[OutputEntry]:
    return [OutputEntry("stream", {"name": name, "text": piece}) for piece in pieces]


def ended(entries: list[OutputEntry], status: str = "ok", **changes: object) -> NewOutcome:
    values: dict[str, object] = {"at": BEGAN + 1, "duration_us": 7, **changes}
    return NewOutcome(status, outputs_hash(entries), **values)  # type: ignore[arg-type]


async def run(
    writer: Writer,
    new: NewStep,
    entries: list[OutputEntry] = [],  # noqa: B006
    **changes: object,
) -> int:
    """A step from its beginning to its end."""
    accepted = await writer.append_step(new)
    await writer.record_outcome(accepted.seq, ended(entries, **changes), entries)
    return accepted.seq


async def begin(log: Log, session: uuid.UUID | None = None) -> Writer:
    """A new session, held for writing."""
    writer = await log.acquire(
        await log.begin(session=session, kernel="python3"), {"name": "sample"}
    )
    await writer.record_environment(ENVIRONMENT, SPEC)
    return writer


async def write_sample(log: Log, session: uuid.UUID | None = None) -> uuid.UUID:
    writer = await begin(log, session)
    try:
        await _fill(log, writer)
    finally:
        await writer.close()
    return writer.session


async def _fill(log: Log, writer: Writer) -> None:
    blobs = writer.blobs
    await run(writer, cell("print(1)"), text("1", "\n", "2\n"), execution_count=1)
    picture = OutputEntry("display_data", {"data": {"image/png": "aGk="}, "n": 1e300, "k": 2**70})
    buffered = OutputEntry("comm_msg", {"comm_id": "c"}, {}, (await blobs.put(b"buffer"),))
    await run(writer, cell(ODD, key="once"), [*text(ODD), picture, buffered], execution_count=2)
    large = await blobs.put(LARGE)
    small = await blobs.put(b"small")
    entries = [
        Entry("data", "dir", 0o755).to_json(),
        Entry("data/large", "file", 0o644, len(LARGE), large).to_json(),
        Entry("small", "file", 0o755, 5, small).to_json(),
    ]
    upload = {"root": "", "entries": entries, "removed": ["gone"]}
    await run(writer, step("upload", upload, blobs=(large, small), actor=SYSTEM))
    await _beside(writer)
    # Late output, closed over by the next event.
    await writer.append_outputs(0, text("late ", "more"), late=True)
    inner = await blobs.put(b"kept by the restart only")
    tree = Manifest.of([Entry("kept", "file", 0o644, 24, inner)])
    restart = {"tree": await blobs.put(tree.to_bytes())}
    await run(writer, step("restart", restart))
    agent = Actor("agent", "talk", 3)
    failed = OutputEntry("error", {"ename": "E", "evalue": "x", "traceback": []})
    died = {"what": "signal", "signal": 9}
    await run(writer, cell("1/0", actor=agent), [failed], status="error", execution_count=1)
    await run(writer, cell("kill"), status="died", cause=died, inputs=("a", None))
    stdin = await blobs.put(b"words\n")
    command = {
        "shell": "cat",
        "argv": None,
        "cwd": None,
        "env": {},
        "stdin": stdin,
        "timeout_s": 2.5,
        "output_bytes": 1000,
        "output_lines": 10,
        "background": False,
    }
    reply = OutputEntry("step_reply", {"status": "ok", "result": {"exit_code": 0}})
    await run(writer, step("command", command, blobs=(stdin,)), [*text("words\n"), reply])
    skill = Manifest.of([Entry("SKILL.md", "file", 0o644, 5, small)])
    mounted = await blobs.put(skill.to_bytes())
    await run(writer, step("mount", {"target": "/skills/x", "tree": mounted}, blobs=(mounted,)))
    files = await blobs.put(Manifest().to_bytes())
    await writer.record_state(
        StateRecord(writer.next_seq - 1, BEGAN, files, {"x": {"type": "int"}})
    )
    await writer.note(Notice(2, BEGAN, "rolled-back", "In /home/someone: \x00", {"n": 1}))
    await log.add_artifact(
        writer.session, 3, "plots/fit.png", await blobs.put(b"png"), 3, 0o644, agent
    )
    for each in answers((await blobs.put(b"the first piece"), await blobs.put(LARGE))):
        await writer.record_response(each)
    # The last words of a thread, after the last event: the chain does not close over them yet.
    await writer.append_outputs(0, text("the very last"), late=True)


def answers(pieces: tuple[str, ...]) -> list[RecordedResponse]:
    """What hosts answered: between steps, whole, in part and not at all."""
    one = RecordedResponse(
        seq=-1,
        idle=True,
        key=sha256_hex(b"one"),
        nth=0,
        at=BEGAN,
        state="whole",
        why="",
        method="GET",
        url="https://example.org/?token=not-recorded",
        status=200,
        reason="",
        headers=(("Content-Type", "text/plain; n=\xe9"), ("Set-Cookie", "a=not-recorded")),
        trailers=(("X-Sum", "5"),),
        pieces=pieces,
        size=15 + len(LARGE),
    )
    return [
        one,
        replace(one, seq=1, idle=False),
        replace(one, seq=1, idle=False, nth=1, state="part", why="it broke off", pieces=pieces[:1]),
        replace(one, seq=2, idle=False, state="absent", why="no", pieces=(), status=0, headers=()),
    ]


async def _beside(writer: Writer) -> None:
    """A cell in which a comm message is handled; their outputs interleave."""
    outer = await writer.append_step(cell("await answer"))
    shown = text("before\n")
    await writer.append_outputs(outer.seq, shown)
    message = {
        "header": {"msg_id": "m-comm", "msg_type": "comm_msg"},
        "metadata": {},
        "content": {"comm_id": "c", "data": {}},
    }
    inner = await writer.append_step(step("comm", message, during=During(outer.seq, 1)))
    await writer.append_outputs(inner.seq, text("inner\n"))
    after = [*text("after\n"), *text("x" * 40_000)]
    await writer.append_outputs(outer.seq, after)
    await writer.record_outcome(inner.seq, ended(text("inner\n")))
    await writer.record_outcome(outer.seq, ended([*shown, *after], execution_count=3))
