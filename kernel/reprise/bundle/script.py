"""A session as a Python script that runs its history again without Reprise."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from reprise.bundle.outputs import clean
from reprise.errors import UnavailableError, UsageError
from reprise.log.reader import Reader
from reprise.log.store import StepRecord
from reprise.workspace.manifest import Entry, Manifest, path_bytes
from reprise.workspace.replaced import replacing

#: Where each part of the script begins; editors take it for the border of a cell.
_BORDER: Final = "# %% "
#: Why a step of such an end is not run again.
_LEFT_OUT: Final = {
    "died": "the sandbox died in it, so the state was rolled back to before it",
    "lost": "the kernel went away in it, so the state was rolled back to before it",
    "interrupted": "it was interrupted, and nothing can cut it again at the same place",
    "timeout": "it ran over its time, and nothing can cut it again at the same place",
}


async def write_script(reader: Reader, target: Path, *, force: bool = False) -> str:
    """Write `target` and, if files came in, a folder beside it; returns what was written.

    Raises UsageError for another language than Python, or when the folder is there already.
    """
    info = await reader.info()
    if info.environment is not None:
        described = (await reader.environment(info.environment)).get("kernel")
        language = described.get("language") if isinstance(described, Mapping) else "python"
        if language != "python":
            raise UsageError(
                f"Session {reader.session} speaks {language}; a script is made of Python only."
                " --to-notebook works for every language."
            )
    folder = target.with_name(f"{target.stem}.files")
    if not force and await asyncio.to_thread(os.path.lexists, folder):
        raise UsageError(f"{folder} is there already. Move it away, or use --force.")
    with _made_beside(folder) as making:
        parts = _Parts(reader, folder.name, making)
        async for record in reader.records(outputs=False):
            await parts.add(record)
        text = _head(reader, parts) + _runtime() + "".join(parts.texts)
        with replacing(target) as file:
            file.write(clean(text).encode("utf-8"))
    files = f", its files in {folder}" if parts.uploads else ""
    left = f", {parts.left_out:,} left out as comments" if parts.left_out else ""
    return f"{parts.steps:,} steps{left}{files}; run it with `{parts.command} {target.name}`"


@contextlib.contextmanager
def _made_beside(folder: Path) -> Iterator[Path]:
    """A place to fill that takes the folder's when the block ends well, and is gone otherwise.

    Raises UnavailableError when something cannot be written; what was there is unchanged then.
    """
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as making:
            files, before = Path(making, "files"), Path(making, "before")
            yield files
            if os.path.lexists(folder):
                folder.rename(before)
            if files.exists():
                files.rename(folder)
    except OSError as error:
        raise UnavailableError(
            f"{folder} could not be written: {error.strerror}. What was there before is unchanged."
        ) from error


def _head(reader: Reader, parts: _Parts) -> str:
    return (
        f'"""The history of session {reader.session}, to be run with `{parts.command}`.\n\n'
        "It works in a folder of its own: the first argument, or a new one beside the temporary"
        ' files.\n"""\n\n'
    )


def _runtime() -> str:
    """The functions that the script uses: the source of `replayed.py`, without its docstring."""
    source = resources.files("reprise.bundle").joinpath("replayed.py").read_text("utf-8")
    return source.partition('"""\n\n')[2]


@dataclass(frozen=True)
class _Source:
    """A cell's code, and how it can stand in a script."""

    code: str
    plain: bool  # it is Python, and means the same in the middle of a file

    @classmethod
    def of(cls, code: str) -> _Source:
        return cls(code, _is_plain(code))


def _is_plain(code: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its style
            tree = ast.parse(code)
            # The parser alone takes an await, or a return, outside of functions.
            compile(tree, "<cell>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # IPython's own words, an await outside of functions, or no Python
    return not any(
        (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        or (isinstance(node, ast.Name) and node.id in ("get_ipython", "exit", "quit", "display"))
        for node in ast.walk(tree)
    )


class _Parts:
    """The parts of a script, one a step."""

    def __init__(self, reader: Reader, name: str, folder: Path) -> None:
        """name: how the script calls the folder that the files are written to."""
        self._reader = reader
        self._name = name
        self._folder = folder
        self.texts: list[str] = []
        self.steps = 0
        self.left_out = 0
        self.uploads = 0
        self._ipython = False

    @property
    def command(self) -> str:
        return "ipython" if self._ipython else "python"

    async def add(self, record: StepRecord) -> None:
        self.steps += 1
        outcome = record.outcome
        status = "lost" if outcome is None else outcome.status
        title = f"{_BORDER}step {record.step.seq}: {record.step.kind}"
        reason = _LEFT_OUT.get(status) or _cannot(record)
        if reason is not None:
            self.left_out += 1
            self._write(f"{title}, left out: {reason}", _commented(_text(record)))
            return
        if record.step.kind == "cell":
            self._cell(record, title, failed=status == "error")
        elif record.step.kind == "command":
            await self._command(record, title)
        elif record.step.kind == "upload":
            await self._upload(record, title)
        else:
            emptied = bool(record.step.payload.get("emptied"))
            self._write(title, f"_history.restart(emptied={emptied})")

    def _write(self, title: str, code: str) -> None:
        self.texts.append(f"\n\n{title}\n{code.rstrip()}\n")

    def _cell(self, record: StepRecord, title: str, *, failed: bool) -> None:
        source = _Source.of(str(record.step.payload["content"]["code"]))
        inputs = () if record.outcome is None else record.outcome.new.inputs
        before = f"_history.answers({list(inputs)!r})\n" if inputs else ""
        if failed:
            self._ipython |= not source.plain
            code = f"_history.failing_cell({_literal(source.code)})"
            self._write(f"{title}, which failed", before + code)
        elif source.plain:
            self._write(title, before + source.code)
        else:
            self._ipython = True
            self._write(title, f"{before}_history.cell({_literal(source.code)})")

    async def _command(self, record: StepRecord, title: str) -> None:
        payload = record.step.payload
        if "stop" in payload:
            self._write(title, f"_history.stop({payload['stop']})")
            return
        stdin = b""
        if payload.get("stdin") is not None:
            stdin = await self._reader.blobs.get(payload["stdin"])
        words = {
            "shell": payload.get("shell"),
            "argv": payload.get("argv"),
            "cwd": payload.get("cwd"),
            "env": payload.get("env") or {},
            "stdin": stdin,
            "background": record.step.seq if payload.get("background") else None,
        }
        given = ", ".join(f"{name}={value!r}" for name, value in words.items() if value)
        self._write(title, f"_history.command({given})")

    async def _upload(self, record: StepRecord, title: str) -> None:
        payload = record.step.payload
        entries = Manifest.of(Entry.from_json(list(value)) for value in payload["entries"])
        place = self._folder / f"step-{record.step.seq:06}"
        await asyncio.to_thread(place.mkdir, parents=True)
        # Links last: nothing is written through one.
        for entry in sorted(entries, key=lambda each: (each.type == "link", path_bytes(each.path))):
            data = b"" if entry.sha256 is None else await self._reader.blobs.get(entry.sha256)
            await asyncio.to_thread(_put, place / os.fsdecode(path_bytes(entry.path)), entry, data)
        self.uploads += 1
        name = f"{self._name}/{place.name}"
        self._write(title, f"_history.upload({name!r}, {list(payload['removed'])!r})")


def _put(path: Path, entry: Entry, data: bytes) -> None:
    """An entry of an upload below a folder of ours; its path was checked as the manifest's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if entry.type == "dir":
        path.mkdir(exist_ok=True)
    elif entry.type == "link" and entry.target is not None:
        path.symlink_to(os.fsdecode(path_bytes(entry.target)))
    else:
        path.write_bytes(data)
        path.chmod(entry.mode | 0o600)


def _cannot(record: StepRecord) -> str | None:
    """Why a script cannot do what a step did, if so."""
    payload, kind = record.step.payload, record.step.kind
    if kind == "comm":
        return "a page's widget sent it"
    if kind == "mount":
        return f"only a sandbox has a place {payload['target']}; see its files with `reprise files`"
    if record.step.new.during is not None:
        return "it ran beside another step"
    inputs = () if record.outcome is None else record.outcome.new.inputs
    if None in inputs:
        return "it asked for a password, which is never stored"
    return None


def _text(record: StepRecord) -> str:
    payload, kind = record.step.payload, record.step.kind
    if kind == "cell":
        return str(payload["content"]["code"])
    if kind == "command":
        return str(payload.get("shell") or payload.get("argv") or f"stop {payload.get('stop')}")
    return ""


def _commented(text: str) -> str:
    # Every line of it: splitlines also knows the borders that Python does not end a comment at.
    return "".join(f"# {line}\n" for line in text.splitlines())


def _literal(code: str) -> str:
    """A Python literal that shows the lines of `code` as they are, where it can."""
    tame = code.isascii() and code.replace("\n", "").isprintable()
    if tame and "\\" not in code and "'''" not in code and not code.endswith("'"):
        return f"'''\\\n{code}'''"
    return repr(code)
