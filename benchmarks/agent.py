"""What the agent's loop takes: beside the SDK's bare loop, in the prompt cache, twenty at once.

    python benchmarks/agent.py [--calls N] [--rounds N] [--turns N] [--conversations N] [--json]

The model is scripted and in a process of its own; all else is real: the Messages API's wire, an
embedded Postgres that commits durably, kernels in bubblewrap. The bare loop beside ours sends the
same tools and prompt by Anthropic's SDK, runs the same call on the same kernel and keeps no log.
Exits 1 when a target of docs/benchmarks.md is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import json
import multiprocessing
import os
import pstats
import statistics
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anthropic
from beside import bench, machine

from reprise.client import AsyncKernel, aconnect
from reprise.log.conversations import Conversations
from reprise.log.postgres import Log
from reprise_server.agent.assembled import Assembly
from reprise_server.agent.contract import Entry
from reprise_server.agent.prompt import SYSTEM
from reprise_server.agent.running import Running
from reprise_server.agent.scripted import Asked, ScriptedModel, Step, calls, says
from reprise_server.agent.settings import RepriseAgent
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.toolbox import toolbox
from skills import Measure

#: What each may take, or must come to.
OVERHEAD_MS, CACHED = 30.0, 90.0
#: A file that is read: two to three pages.
FILE, FILE_TEXT = "notes.txt", "A line of notes about the harbour and its boats.\n" * 80
MODEL = "claude-sonnet-5-5"
INPUTS = {"read_file": {"path": FILE}, "run_command": {"command": "true"}}
WORDS = "I have read it, and this is what I make of it: the boats are in the harbour. "


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=20, help="of a turn that is timed")
    parser.add_argument("--rounds", type=int, default=8, help="of each loop")
    parser.add_argument("--turns", type=int, default=20, help="of the conversation")
    parser.add_argument("--conversations", type=int, default=20, help="at once")
    parser.add_argument("--profile", action="store_true", help="of our loop, instead of figures")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with bench("bubblewrap") as made, model() as url:
        os.environ.update({k: v for k, v in made.env.items() if k.startswith("REPRISE_")})
        (made.folder / "notebooks" / FILE).write_text(FILE_TEXT)
        measures = asyncio.run(measured(made.folder / "notebooks", url, options))
        about = machine(made.home)
    if options.json:
        print(json.dumps({**about, "measures": [each.to_json() for each in measures]}, indent=1))
    else:
        for each in measures:
            print(each)
        print(", ".join(f"{key} {value}" for key, value in about.items()))
    return 0 if all(each.met for each in measures) else 1


# -- the model -------------------------------------------------------------------------------------


def answer(asked: Asked) -> Step:
    """A turn is asked for as "TOOL TIMES": so many calls, one in each answer, then some words."""
    at = max(n for n, m in enumerate(asked.messages) if m["role"] == "user" and _words(m))
    tool, times = asked.said.split()[:2]
    done = sum(m["role"] == "assistant" for m in asked.messages[at:])
    if done < int(times):
        return calls(tool, INPUTS[tool], first=WORDS)
    return says(WORDS * 4)


def _words(message: Any) -> bool:
    return any(block["type"] == "text" for block in message["content"])


def serve(said: Connection) -> None:
    with ScriptedModel(answer) as scripted:
        said.send((scripted.url, scripted.key))
        said.recv()


@contextlib.contextmanager
def model() -> Iterator[tuple[str, str]]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("end")
        process.join()


# -- what is measured ------------------------------------------------------------------------------


async def measured(
    folder: Path, url: tuple[str, str], options: argparse.Namespace
) -> list[Measure]:
    settings = RepriseAgent(base_url=url[0], api_key=url[1], turn_requests=1_000)
    log = await Log.connect()
    running = Running(Log.connect, Assembly(settings, scripted=True))
    try:
        kernel = await aconnect(folder=folder)
        try:
            # The folder comes in with the first step.
            await kernel.run("pass", check=True)
            if options.profile:
                await profiled(running, kernel, options.calls)
                return []
            found = await beside(log, running, kernel, url, options)
            found += await long(log, running, kernel, options.turns)
        finally:
            await kernel.close()
        return found + await at_once(log, running, folder, options.conversations)
    finally:
        await running.close()
        await log.close()


async def turn(running: Running, conversation: uuid.UUID, text: str) -> float:
    """Seconds of a turn, from the words to its end."""
    began = time.perf_counter()
    await running.say(conversation, text)
    await running.wait(conversation)
    return time.perf_counter() - began


async def beside(
    log: Log,
    running: Running,
    kernel: AsyncKernel,
    url: tuple[str, str],
    options: argparse.Namespace,
) -> list[Measure]:
    """Milliseconds of each call in our loop, in the bare one, and the difference of the two."""
    found = []
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in toolbox(Place(log))
    ]
    do: dict[str, Callable[[], Awaitable[object]]] = {
        "read_file": lambda: kernel.workspace.read(FILE),
        "run_command": lambda: kernel.command(["true"]),
    }
    async with anthropic.AsyncAnthropic(base_url=url[0], api_key=url[1]) as client:
        for tool, run in do.items():
            text = f"{tool} {options.calls}"
            ours, bare, cpu = [], [], []
            for number in range(options.rounds + 1):
                conversation = await running.begin(kernel.session, title="measured")
                # What a conversation opens is opened once, before: it is no part of a call.
                await turn(running, conversation, f"{tool} 0")
                began = time.process_time()
                took = await turn(running, conversation, text)
                between = time.process_time()
                plain = await loop(client, tools, text, run)
                ended = time.process_time()
                await ended_well(log, conversation)
                if number:  # the first one warms both
                    ours.append(took * 1e3 / options.calls)
                    bare.append(plain * 1e3 / options.calls)
                    spent = (between - began) - (ended - between)
                    cpu.append(spent * 1e3 / options.calls)
            more = [a - b for a, b in zip(ours, bare, strict=True)]
            name = f"{tool}: a call"
            found += [
                Measure(f"{name} in our loop", "ms", ours),
                Measure(f"{name} in the SDK's bare loop", "ms", bare),
                Measure(f"{name}, what ours takes more", "ms", more, OVERHEAD_MS),
                Measure("  of which work of this process", "ms", cpu),
            ]
    return found


async def loop(
    client: anthropic.AsyncAnthropic,
    tools: Sequence[Any],
    text: str,
    run: Callable[[], Awaitable[object]],
) -> float:
    """The manual loop of the SDK's documentation. Seconds."""
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    began = time.perf_counter()
    while True:
        async with client.messages.stream(
            model=MODEL,
            max_tokens=16_000,
            cache_control={"type": "ephemeral"},
            thinking={"type": "adaptive"},
            system=SYSTEM,
            tools=list(tools),
            messages=messages,
        ) as stream:
            answered = await stream.get_final_message()
        messages.append({"role": "assistant", "content": answered.content})
        if answered.stop_reason != "tool_use":
            return time.perf_counter() - began
        results = []
        for block in answered.content:
            if block.type == "tool_use":
                await run()
                content = FILE_TEXT if block.name == "read_file" else "(no output)"
                results.append({"type": "tool_result", "tool_use_id": block.id, "content": content})
        messages.append({"role": "user", "content": results})


async def long(log: Log, running: Running, kernel: AsyncKernel, turns: int) -> list[Measure]:
    """A conversation of many turns, each with two calls: what of its input the cache had."""
    conversation = await running.begin(kernel.session, title="long")
    for _ in range(turns):
        await turn(running, conversation, "read_file 2")
    entries = await ended_well(log, conversation)
    usages = [e.body["usage"] for e in entries if e.kind == "answered" and e.turn > 1]
    shares = [100 * usage["cache_read_input_tokens"] / whole(usage) for usage in usages]
    read = sum(usage["cache_read_input_tokens"] for usage in usages)
    share = 100 * read / sum(map(whole, usages))
    name = f"{turns} turns: input from the cache, after the first"
    return [
        Least(name, "%", [share], CACHED),
        Measure("  of single requests", "%", shares),
        Measure("  tokens of the last one", "tokens", [float(whole(usages[-1]))]),
    ]


class Least(Measure):
    """One whose target is what it must come to."""

    @property
    def met(self) -> bool:
        return self.target is None or self.median >= self.target

    def __str__(self) -> str:
        return super().__str__().replace("at most", "at least")


def whole(usage: Any) -> int:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(int(usage[name]) for name in names)


async def at_once(log: Log, running: Running, folder: Path, count: int) -> list[Measure]:
    """As many conversations, each in a session of its own, on one server; beside one by itself."""
    async with kernels(folder, count) as opened:
        conversations = [await running.begin(kernel.session, title="many") for kernel in opened]
        for conversation in conversations:
            await turn(running, conversation, "read_file 0")
        text = "run_command 5"
        alone = [await turn(running, conversations[0], text) for _ in range(3)]
        began = time.perf_counter()
        took = await asyncio.gather(*(turn(running, each, text) for each in conversations))
        whole_s = time.perf_counter() - began
        for conversation in conversations:
            await ended_well(log, conversation)
    one = statistics.median(alone)
    return [
        Measure("a turn of 5 commands, by itself", "ms", [each * 1e3 for each in alone]),
        Measure(f"the same, {count} at once: each", "ms", [each * 1e3 for each in took]),
        Measure("  all of them, to one after the other", "×", [whole_s / (count * one)]),
    ]


@contextlib.asynccontextmanager
async def kernels(folder: Path, count: int) -> AsyncIterator[list[AsyncKernel]]:
    opened: list[AsyncKernel] = []
    try:
        for number in range(count):
            place = folder / f"notebook-{number}"
            place.mkdir()
            (place / FILE).write_text(FILE_TEXT)
            opened.append(await aconnect(folder=place))
            await opened[-1].run("pass", check=True)
        yield opened
    finally:
        for kernel in opened:
            await kernel.close()


async def ended_well(log: Log, conversation: uuid.UUID) -> list[Entry]:
    """All entries. Ends the benchmark when a turn or a call of it did not end well."""
    entries = await Conversations(log).entries(conversation, most=1_000_000)
    wrong = [e for e in entries if e.kind == "ended" and e.body["status"] != "done"]
    wrong += [e for e in entries if e.kind == "result" and e.body["status"] != "ok"]
    if wrong or [e.seq for e in entries] != list(range(len(entries))):
        raise SystemExit(f"conversation {conversation}: {wrong[:3]}")
    return list(entries)


async def profiled(running: Running, kernel: AsyncKernel, count: int) -> None:
    """What the loop's own thread does in a turn, by what takes most of its time."""
    conversation = await running.begin(kernel.session, title="profiled")
    await turn(running, conversation, "read_file 1")
    profile = cProfile.Profile()
    running._loop.call_soon_threadsafe(profile.enable)
    took = await turn(running, conversation, f"read_file {count}")
    running._loop.call_soon_threadsafe(profile.disable)
    await asyncio.sleep(0.2)
    stats = pstats.Stats(profile, stream=sys.stdout)
    stats.sort_stats("tottime").print_stats(30)
    stats.sort_stats("cumtime").print_stats(70)
    print(f"{took * 1e3 / count:.1f} ms a call")


if __name__ == "__main__":
    sys.exit(main())
