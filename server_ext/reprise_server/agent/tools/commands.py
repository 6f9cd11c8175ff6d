"""The tool `run_command`: a program, or shell text, as a step of the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reprise.client import CommandResult, StreamEnd
from reprise.errors import RepriseError
from reprise.log.model import Json
from reprise_server.agent.contract import RESULT_CHARACTERS, Act, BadCall, Call, Result, Situation
from reprise_server.agent.tools.large import within
from reprise_server.agent.tools.paths import clean
from reprise_server.agent.tools.place import Place, Ran, Under
from reprise_server.agent.tools.schemas import fields, texts
from reprise_server.agent.tools.shown import blocks, clipped, ended, fitted, harmless, headline
from reprise_server.agent.tools.words import words

#: Characters of a command; longer programs belong into a file.
MOST: Final = 64_000
#: Seconds that a command has when none are given, and at most.
USUAL_S: Final = 600
LONGEST_S: Final = 7_200


class RunCommand:
    """Runs a command in the workspace, in one order with the cells."""

    name = "run_command"
    description = (
        "Run a command in the session's workspace and see its exit code and output. It is a step of"
        " the session's history: it can be seen, replayed and undone. Shell syntax works (pipes,"
        " `&&`); a command that is plain words needs no shell and may be allowed without asking."
        " There is no terminal: nothing can be typed into it. When it ends, all that it started"
        " ends too. To work with variables of the notebook, run a cell instead."
    )
    schema = fields(
        {"command": texts("The command, as for bash.")},
        {
            "cwd": texts("The folder to run it in, relative to the workspace. Default: its root."),
            "timeout_s": {
                "type": "number",
                "description": f"Seconds after which it is ended. Default {USUAL_S},"
                f" at most {LONGEST_S}.",
            },
        },
    )

    def __init__(self, place: Place) -> None:
        self._place = place

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:
        command = checked_command(given["command"])
        argv = words(command)
        surroundings = await self._place.surroundings()
        cwd = given.get("cwd")
        folder = None if cwd is None else clean(cwd, surroundings.workspace)
        checked_timeout(given.get("timeout_s"), USUAL_S, LONGEST_S)
        return Act(
            tool=self.name,
            effect="run",
            input=dict(given),
            title="run a command",
            argv=argv,
            code=command,
            paths=() if not folder else (folder,),
            hosts=situation.network,
            carries_out=carries_out(situation),
        )

    async def run(self, call: Call, act: Act) -> Result:
        surroundings = await self._place.surroundings()
        cwd = call.input.get("cwd")
        folder = None if cwd is None else clean(cwd, surroundings.workspace)
        command = act.code if act.argv is None else list(act.argv)
        if command is None:
            raise BadCall("There is no command.")
        ran = await self._place.command(
            command,
            Under.of(call),
            cwd=f"{surroundings.workspace}/{folder}" if folder else None,
            timeout=checked_timeout(call.input.get("timeout_s"), USUAL_S, LONGEST_S),
            show=lambda text: call.show(harmless(text)),
        )
        return await command_result(self._place, call, ran)


async def command_result(
    place: Place, call: Call, ran: Ran[CommandResult], *, notes: str = "", number: int = 2
) -> Result:
    """What a command came to, for a model. notes: sentences before what it wrote."""
    result = ran.result
    head = headline(result)
    if result.exit_code is not None:
        head += f"exit code {result.exit_code}\n"
    elif result.signal is not None:
        head += f"ended by signal {result.signal}\n"
    elif result.error is not None and result.status == "error":
        head += f"{harmless(str(result.error))[:2_000]}\n"
    steps: tuple[int, ...] = ()
    if result.stdout_end.cut or result.stderr_end.cut:
        text = head + notes + await _cut_body(place, result, len(head + notes))
    else:
        body = _body(result) or "(no output)\n"
        text, steps = await within(place, call, head + notes, body, number=number)
    return Result(
        content=blocks(text),
        status=ended(result),
        steps=(result.seq, *steps),
        taints=ran.taints,
        outside=ran.outside,
    )


def _body(result: CommandResult) -> str:
    """What it wrote in the order it came, stderr marked where both wrote."""
    both = bool(result.stdout and result.stderr)
    parts: list[str] = []
    for output in result.outputs:
        if output.stream is None or not output.text:
            continue
        if both:
            if parts and not parts[-1].endswith("\n"):
                parts.append("\n")
            parts.append(f"[{output.stream}]\n")
        parts.append(harmless(output.text))
    return "".join(parts)


async def _cut_body(place: Place, result: CommandResult, used: int) -> str:
    """Both streams' ends, where more was written than a step keeps: all of it is in a file."""
    parts: list[str] = []
    most = (RESULT_CHARACTERS - used) // 2 - 200
    for name, text, end in (
        ("stdout", result.stdout, result.stdout_end),
        ("stderr", result.stderr, result.stderr_end),
    ):
        if not text:
            continue
        where = f"all of it is in the file {end.file}" if end.file else "the rest was not kept"
        mark = f"[… {end.bytes:,} bytes in {end.lines:,} lines; {where} …]"
        if end.cut:
            tail = await _tail(place, end, most)
            shown = clipped(harmless(text), harmless(tail), most, mark)
        else:
            shown = fitted(harmless(text), most, f"{where}.").text
        parts.append(f"[{name}]\n{shown}\n")
    return "".join(parts)


async def _tail(place: Place, end: StreamEnd, most: int) -> str:
    """The end of a stream, from its file; "" when that is gone already."""
    if end.file is None:
        return ""
    workspace = await place.workspace()
    try:
        size, _ = await workspace.piece(end.file, 0, 0)
        _, data = await workspace.piece(end.file, max(0, size - most), most)
    except RepriseError:
        return ""
    return data.decode("utf-8", "replace")


def checked_command(command: str) -> str:
    """The command as it is run. Raises BadCall."""
    if not command.strip():
        raise BadCall("`command` is empty. Give the command to run, such as `ls -l data`.")
    if "\0" in command:
        raise BadCall("`command` holds a NUL character, which no process can be given.")
    if len(command) > MOST:
        raise BadCall(
            f"`command` has {len(command):,} characters; {MOST:,} are the most. Write a script with"
            " write_file, then run that."
        )
    return command


def checked_timeout(given: Json, usual: float, most: float) -> float:
    """Seconds. Raises BadCall."""
    if given is None:
        return usual
    if not 0 < given <= most:
        raise BadCall(
            f"`timeout_s` is {given!r}; it is a number of seconds from 1 to {most:,}. What takes"
            " longer is done in parts."
        )
    return float(given)


def carries_out(situation: Situation) -> bool:
    """Whether code can carry data out, by the environment alone: its text proves nothing."""
    return bool(situation.network) or not situation.isolated
