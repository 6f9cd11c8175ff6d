"""Makes the golden histories: runs real kernels in bubblewrap and exports their sessions.

    python -m tests.histories.make [NAME …]

Only names that have no bundle yet are made: what an older Reprise wrote is never written anew.
A history uses the standard library and what Reprise itself needs, nothing else. Run it with the
Python of an environment at a path that may be published (the bundles name it), with Reprise
installed there and not as editable.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reprise.bundle.write import write_bundle
from reprise.log.postgres import Log
from tests.fixtures.kernel import Client, Database, Kernel, Kernels, run_database
from tests.fixtures.postgres import run_server

FOLDER = Path(__file__).parent


class Made:
    """One history on its way: the kernel that lives it, and the next one when it has died."""

    def __init__(self, kernels: Kernels, name: str) -> None:
        self.kernels = kernels
        self.folder = kernels.folder / name
        self.folder.mkdir()
        self.session = uuid.uuid5(uuid.NAMESPACE_URL, f"reprise-history:{name}")
        self.kernel: Kernel | None = None
        self.client: Client | None = None

    def begin(self) -> Client:
        """Start the session's kernel; what lies in the folder comes in before the first cell."""
        self.kernel = self.kernels("bubblewrap", session=self.session, folder=self.folder)
        self.client = self.kernel.client()
        return self.client

    def again(self, *, restart: bool = False) -> Client:
        """End the kernel, and go on with the next one: after a restart by hand, or a crash."""
        assert self.kernel is not None
        if restart:
            self.kernel.shutdown(restart=True)
        else:
            self.kernel.kill("router")
        self.kernel = self.kernels.again(self.kernel)
        self.client = self.kernel.client()
        return self.client

    def end(self) -> None:
        assert self.kernel is not None
        self.kernel.shutdown()


def entry(path: str, data: bytes, mode: int = 0o644) -> list[Any]:
    return [path, "file", mode, len(data), hashlib.sha256(data).hexdigest()]


# the histories -----------------------------------------------------------------------------------


def cells(made: Made) -> None:
    """Text, errors, rich and updated output, silent cells, words of IPython."""
    client = made.begin()
    client.run("%xmode Minimal")
    client.run("import sys\nprint('to stdout')\nprint('to stderr', file=sys.stderr)\nx = 6")
    client.run("x * 7")
    client.run("raise ValueError('as it should')")
    client.run(
        "from IPython.display import HTML, Image, display, update_display\n"
        "class Table:\n"
        "    def _repr_html_(self): return '<table><tr><td>é 中</td></tr></table>'\n"
        "    def __repr__(self): return 'Table()'\n"
        "display(Table())\n"
        "handle = display({'n': 1e300}, display_id='first')\n"
        "display(Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + bytes(30), format='png'))"
    )
    client.run("update_display({'n': 2}, display_id='first')")
    client.run("y = 'silent'", silent=True)
    client.run("from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint(y)")
    client.run("!echo from a shell")
    client.run("%%bash\nprintf '%s\\n' one two")
    client.run("print('x' * 20_000)")
    client.run("import asyncio\nawait asyncio.sleep(0.01)\n'after an await'")
    client.run("", user_expressions={"sum": "x + 1"})
    client.run("with open('made', 'w') as f: f.write('by a cell')")
    made.end()


def restart(made: Made) -> None:
    """A restart by hand: a clean interpreter on the same files; then a crash and a resume."""
    client = made.begin()
    client.run("x = 1\nopen('kept', 'w').write('before the restart')")
    client = made.again(restart=True)
    client.run("'x' in globals()")
    client.run("print(open('kept').read())")
    client = made.again()
    client.run("open('kept').read()")
    made.end()


def interrupted_and_died(made: Made) -> None:
    """Steps that a replay leaves out, and one whose outcome was lost."""
    client = made.begin()
    client.run("import os, time\nseen = ['first']")
    running = client.execute(
        "seen.append('interrupted')\nprint('running', flush=True)\ntime.sleep(600)"
    )
    client.shows(running, "running")
    client.ask("interrupt_request", channel="control")
    client.finish(running)
    client.run("seen.append('died')\nprint('here it ends', flush=True)\nos.kill(os.getpid(), 9)")
    client.run("seen.append('after')\nprint(len(seen))")
    running = client.execute("print('running', flush=True)\ntime.sleep(600)")
    client.shows(running, "running")
    client = made.again()
    client.run("print(seen[0])")
    made.end()


def questions(made: Made) -> None:
    """Answers to input(), which a replay gives again."""
    client = made.begin()
    client.handle_input = lambda _: "Ada"
    client.run("name = input('Who? ')\nprint(f'Hello {name}')")
    client.run("name.upper()")
    made.end()


def comms(made: Made) -> None:
    """Comm messages as steps: before, between and within cells, with buffers."""
    client = made.begin()
    client.run(
        "from comm import create_comm\n"
        "heard = []\n"
        "talk = create_comm(target_name='golden', data={'a': 1}, buffers=[b'\\x00\\xff'])\n"
        "talk.on_msg(lambda message: (heard.append(message['content']['data']),\n"
        "    talk.send({'echo': message['content']['data']})))"
    )
    opened = next(h for h in client.heard if h.type == "comm_open").content["comm_id"]
    for value in (1, 2):
        client.request(
            "comm_msg", {"comm_id": opened, "data": {"value": value}}, buffers=[b"slide"]
        )
        client.wait(
            lambda h, v=value: h.type == "comm_msg" and h.content["data"] == {"echo": {"value": v}}
        )
        client.run("heard[-1]")
    client.run("talk.send({'state': heard})\nlen(heard)")
    made.end()


def late(made: Made) -> None:
    """Output of threads after their step's end, between events and after the last one."""
    client = made.begin()
    client.run(
        "import asyncio\nloop = asyncio.get_running_loop()\n_ = loop.call_later(0.3, print, 'late')"
    )
    client.wait(lambda h: h.type == "stream" and h.content["text"] == "late\n")
    client.run("print('between')")
    client.run("_ = loop.call_later(0.3, print, 'later still')")
    client.wait(lambda h: h.type == "stream" and h.content["text"] == "later still\n")
    made.end()


def uploads(made: Made) -> None:
    """Files of the notebook's folder, changed on the host between cells; uploads by request."""
    (made.folder / "data.csv").write_text("a,b\n1,2\n")
    (made.folder / "run.sh").write_text("#!/bin/sh\necho run\n")
    (made.folder / "run.sh").chmod(0o755)
    (made.folder / "sub").mkdir()
    (made.folder / "sub" / "naïve.txt").write_text("ü")
    (made.folder / "link").symlink_to("data.csv")
    client = made.begin()
    client.run("print(open('data.csv').read(), open('sub/naïve.txt').read())")
    (made.folder / "data.csv").write_text("a,b\n3,4\n")
    (made.folder / "run.sh").unlink()
    client.run("import os\nprint(open('link').read(), os.path.exists('run.sh'))")
    large = bytes(range(256)) * 4100  # above a megabyte: its blob is a file
    data = b"by request"
    client.step(
        "upload",
        {
            "entries": [entry("more/large", large), entry("more/small", data, 0o600)],
            "removed": ["sub"],
        },
        buffers=[large, data],
    )
    client.run("import hashlib\nhashlib.sha256(open('more/large', 'rb').read()).hexdigest()")
    client.run("sorted(os.listdir())")
    made.end()


def commands(made: Made) -> None:
    """Commands of all ends between cells, and a command that was cut."""
    client = made.begin()
    client.run("open('from-cell', 'w').write('cell')")
    client.shell("cat from-cell; echo err >&2; echo command > from-command")
    client.run("open('from-command').read()")
    client.shell("exit 3")
    client.shell("kill -TERM $$")
    program = "import os, sys; print(os.environ['A'], sys.argv[1:], sys.stdin.read())"
    client.step(
        "command",
        {
            "argv": ["python3", "-c", program, "ä b", ""],
            "env": {"A": "é"},
            "stdin": "données",
            "cwd": ".",
        },
    )
    client.step("command", {"shell": "seq 2000", "output_bytes": 200})
    client.step("command", {"shell": "printf '\\377\\000x'"}, key="once")
    client.step("command", {"shell": "printf '\\377\\000x'"}, key="once")
    client.step("cell", {"code": "print('by request')", "cell_id": "c1"})
    made.end()


def mounts(made: Made) -> None:
    """A skill and a folder of data, by their files and by the name of their tree; a restart between."""
    client = made.begin()
    about, script = b"# Golden\n", b"#!/bin/sh\necho skill $1\n"
    entries = [
        entry("SKILL.md", about),
        ["scripts", "dir", 0o755, 0, None],
        entry("scripts/go", script, 0o755),
    ]
    told = client.step(
        "mount", {"target": "/skills/golden", "entries": entries}, buffers=[about, script]
    )
    client.shell("/skills/golden/scripts/go once")
    client = made.again(restart=True)
    client.run("print(open('/skills/golden/SKILL.md').read())")
    client.step("mount", {"target": "/mnt/again", "tree": told.reply["result"]["tree"]})
    client.shell("cat /mnt/again/SKILL.md")
    made.end()


def fork(made: Made) -> None:
    """A session that shares its first steps with another, one of them an upload."""
    (made.folder / "given").write_text("given")
    first = uuid.uuid5(uuid.NAMESPACE_URL, "reprise-history:fork's parent")
    kernel = made.kernels("bubblewrap", session=first, folder=made.folder)
    client = kernel.client()
    client.run("x = [open('given').read()]")
    client.run("x.append('shared')")
    client.run("x.append('only in the parent')")
    kernel.shutdown()

    async def leave() -> uuid.UUID:
        log = await Log.connect(made.kernels.database.dsn, home=made.kernels.database.home)
        try:
            return await log.fork(first, 2)
        finally:
            await log.close()

    made.session = asyncio.run(leave())
    client = made.begin()
    client.run("x.append('only in the fork')")
    client.run("print(x)")
    made.end()


HISTORIES: dict[str, Callable[[Made], None]] = {
    "cells": cells,
    "restart": restart,
    "interrupted-and-died": interrupted_and_died,
    "questions": questions,
    "comms": comms,
    "late": late,
    "uploads": uploads,
    "commands": commands,
    "mounts": mounts,
    "fork": fork,
}


def bundle_of(name: str) -> Path:
    return FOLDER / f"{name}.reprise"


async def export(database: Database, session: uuid.UUID, target: Path) -> None:
    log = await Log.connect(database.dsn, home=database.home)
    try:
        with target.open("wb") as file:
            await write_bundle(await log.reader(session), file)
    finally:
        await log.close()


def main(names: list[str]) -> None:
    wanted = [name for name in names or HISTORIES if not bundle_of(name).exists()]
    with tempfile.TemporaryDirectory() as folder:
        for server in run_server():
            for database in run_database(server, Path(folder) / "home"):
                kernels = Kernels(database, Path(folder))
                try:
                    for name in wanted:
                        made = Made(kernels, name)
                        HISTORIES[name](made)
                        asyncio.run(export(database, made.session, bundle_of(name)))
                        print(f"{bundle_of(name).name}: {bundle_of(name).stat().st_size:,} bytes")  # noqa: T201
                finally:
                    kernels.close()


if __name__ == "__main__":
    main(sys.argv[1:])
