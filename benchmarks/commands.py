"""What commands, uploads and mounts take as steps, beside the same done without Reprise.

    python benchmarks/commands.py [--backend B] [--rounds N] [--long] [--json]

A time is from the request to both its idle and its reply, both durable commits included. `--long`
runs 10,000 commands in one session and tells whether the last are as fast as the first, and what
they left in memory. Exits 1 when a target of docs/benchmarks.md is missed.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beside import BARE, PATIENCE_S, REPRISE, Bench, Ratio, Running, alternating, bench, machine
from memory import Sizes, sizes

BACKENDS = ("bubblewrap", "process")
#: The most that `true` may take end to end, milliseconds (median).
TRUE_MS = 20.0
#: Commands before anything is measured.
WARM = 30
BLOCK = 10
#: How much slower the last commands of a session may be than its first.
FLAT = 1.25
MANY, ENDS_OF_MANY = 10_000, 500

UPLOAD = 1 << 20
SKILL_FILES, SKILL_FILE = 20, 4 << 10
STREAM = 10_000_000
#: Lines of 80 bytes, as a build or a test run writes them.
WRITES = f"yes {'x' * 79} | head -c {STREAM}"


@dataclass
class Found:
    """What one backend took. flat: beside the first commands; memory: by part, before and after."""

    ratios: list[Ratio] = field(default_factory=list)
    true_ms: float = 0.0
    memory: dict[str, Sizes] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        return self.true_ms <= TRUE_MS and all(ratio.met for ratio in self.ratios)

    def to_json(self) -> dict[str, Any]:
        return {
            "true_ms": round(self.true_ms, 3),
            "measures": [ratio.to_json() for ratio in self.ratios],
            "mib": self.memory,
        }

    def __str__(self) -> str:
        lines = [str(ratio) for ratio in self.ratios]
        lines.append(f"`true` end to end: {self.true_ms:.2f} ms (at most {TRUE_MS:.0f})")
        for when, parts in self.memory.items():
            shown = ", ".join(f"{part} {size['pss']:.1f}" for part, size in parts.items())
            lines.append(f"resident MiB (PSS) {when}: {shown}")
        return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS, help="by default both, one after the other")
    parser.add_argument("--rounds", type=int, default=20, help="of each measure, 10 `true` a round")
    parser.add_argument("--long", action="store_true", help="also 10,000 commands in one session")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    told, met = dict[str, Any](), True
    for backend in [options.backend] if options.backend else BACKENDS:
        with bench(backend) as made:
            # The very first start makes the database; benchmarks/start.py measures that.
            made.start(REPRISE).__exit__()
            found = measured(made, options.rounds)
            if options.long:
                many(made, found)
            about = machine(made.home)
        told[backend] = {**found.to_json(), **about}
        met = met and found.met
        if not options.json:
            print(f"{backend}\n{found}")
            print(", ".join(f"{name} {value}" for name, value in about.items()))
    if options.json:
        print(json.dumps(told, indent=1))
    return 0 if met else 1


def measured(made: Bench, rounds: int) -> Found:
    times: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    scratch = made.folder / "beside"
    scratch.mkdir()
    with made.start(REPRISE) as ours:
        row = [command(ours, "true") for _ in range(200)]
    with made.start(BARE) as bare, made.start(REPRISE) as ours:
        for _ in range(WARM):
            command(ours, "true")

        def beside(name: str, ours_ms: Callable[[], float], other_ms: Callable[[], float]) -> None:
            here, there = times[name]
            count = rounds * BLOCK if name == "`true`" else rounds
            alternating(
                count // BLOCK or 1,
                lambda: here.extend(ours_ms() for _ in range(BLOCK)),
                lambda: there.extend(other_ms() for _ in range(BLOCK)),
            )

        beside("`true`", lambda: command(ours, "true"), lambda: plain("true"))
        beside("upload of 1 MiB", lambda: upload(ours), lambda: written_by_a_cell(bare))
        beside("mount of a skill of 20 files", lambda: mount(ours), lambda: copied(scratch))
        beside("command that writes 10 MB", lambda: command(ours, WRITES), lambda: plain(WRITES))
    first, last = row[:20], row[-20:]
    found = Found(true_ms=statistics.median(times["`true`"][0]))
    for name, (here, there) in times.items():
        found.ratios.append(Ratio(name, "ms", here, there, beside=OTHERS[name]))
    found.ratios.append(Ratio("commands 181 to 200", "ms", last, first, FLAT, "1 to 20"))
    return found


#: What each measure stands beside.
OTHERS = {
    "`true`": "bash -c",
    "upload of 1 MiB": "cell on bare ipykernel",
    "mount of a skill of 20 files": "copied folder",
    "command that writes 10 MB": "bash -c",
}


def many(made: Bench, found: Found) -> None:
    """10,000 commands in one session."""
    with made.start(REPRISE) as ours:
        for _ in range(WARM):
            command(ours, "true")
        found.memory["at first"] = sizes(ours)
        row = [command(ours, "true") for _ in range(MANY)]
        found.memory[f"after {MANY:,} commands"] = sizes(ours)
    first, last = row[:ENDS_OF_MANY], row[-ENDS_OF_MANY:]
    name = f"commands {MANY - ENDS_OF_MANY + 1:,} to {MANY:,}"
    found.ratios.append(Ratio(name, "ms", last, first, FLAT, f"1 to {ENDS_OF_MANY}"))


# by Reprise ---------------------------------------------------------------------------------------


def step(
    running: Running, kind: str, payload: Mapping[str, Any], buffers: Sequence[bytes] = ()
) -> float:
    """Milliseconds from a step_request to both its idle and its reply; it has to go well."""
    client = running.client
    message = client.session.msg("step_request", {"kind": kind, "payload": dict(payload)})
    message["buffers"] = list(buffers)
    msg_id = message["header"]["msg_id"]
    began = time.perf_counter()
    client.shell_channel.send(message)
    while True:
        heard = client.get_iopub_msg(timeout=PATIENCE_S)
        if (
            heard["parent_header"].get("msg_id") == msg_id
            and heard["msg_type"] == "status"
            and heard["content"]["execution_state"] == "idle"
        ):
            break
    reply = client.get_shell_msg(timeout=PATIENCE_S)["content"]
    took = (time.perf_counter() - began) * 1e3
    if reply["status"] != "ok":
        raise SystemExit(f"a {kind} step failed: {reply}")
    return took


def command(running: Running, shell: str) -> float:
    # By default a command shows 10,000 lines and 256 KiB, and the rest stays in a file.
    bounds = {"output_bytes": 16 << 20, "output_lines": STREAM} if shell == WRITES else {}
    return step(running, "command", {"shell": shell, **bounds})


def upload(running: Running) -> float:
    data = os.urandom(UPLOAD)
    return step(running, "upload", {"entries": [file_entry("uploaded", data)]}, [data])


def mount(running: Running) -> float:
    """Other bytes each time: nothing of it is there already."""
    contents = skill()
    entries = [file_entry(name, data) for name, data in contents.items()]
    payload = {"target": "/skills/measured", "entries": entries}
    return step(running, "mount", payload, list(contents.values()))


def skill() -> dict[str, bytes]:
    return {f"file-{number}": os.urandom(SKILL_FILE) for number in range(SKILL_FILES)}


def file_entry(path: str, data: bytes) -> list[Any]:
    return [path, "file", 0o644, len(data), hashlib.sha256(data).hexdigest()]


# without it ---------------------------------------------------------------------------------------


def plain(shell: str) -> float:
    began = time.perf_counter()
    subprocess.run(["bash", "-c", shell], capture_output=True, check=True)
    return (time.perf_counter() - began) * 1e3


def written_by_a_cell(running: Running) -> float:
    """How bytes come to a bare kernel that shares no folder with us."""
    text = base64.b64encode(os.urandom(UPLOAD)).decode()
    code = (
        f"import base64\nwith open('uploaded', 'wb') as f: _ = f.write(base64.b64decode('{text}'))"
    )
    return running.run(code)


def copied(scratch: Path) -> float:
    source, target = scratch / "skill", scratch / "copy"
    source.mkdir()
    for name, data in skill().items():
        (source / name).write_bytes(data)
    began = time.perf_counter()
    shutil.copytree(source, target)
    took = (time.perf_counter() - began) * 1e3
    shutil.rmtree(source)
    shutil.rmtree(target)
    return took


if __name__ == "__main__":
    sys.exit(main())
