"""Tasks as folders: task.yaml, and in files/ what the workspace begins with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reprise.errors import TooLarge, UsageError
from reprise_server.agent.eval.task import MAX_BYTES, BadTask, Task, task_of

BUNDLED: Final = Path(__file__).parent / "tasks"
_FILE: Final = "task.yaml"
#: Of the files that a task gives, all together.
_MOST_BYTES: Final = 32 << 20
_MOST_FILES: Final = 500


@dataclass(frozen=True)
class GivenTask:
    """A task and its files, by path."""

    task: Task
    files: Mapping[str, bytes]

    def lay_out(self, folder: Path) -> None:
        """Write its files into an empty folder."""
        for path, data in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def bundled() -> list[str]:
    """Names of the tasks that come with Reprise."""
    return sorted(each.name for each in BUNDLED.iterdir() if (each / _FILE).is_file())


def given_task(named: str) -> GivenTask:
    """A bundled task by its name, or a folder. Raises UsageError, BadTask, TooLarge."""
    folder = BUNDLED / named if named in bundled() else Path(named).expanduser()
    file = folder / _FILE
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"There is no task {named!r}: neither a bundled one ({', '.join(bundled())}) nor a"
            f" folder with a {_FILE}."
        ) from error
    task = task_of(data, str(file))
    if task.name != folder.resolve().name:
        raise BadTask(f"{file}: its name is {task.name!r}, its folder's {folder.resolve().name!r}")
    return GivenTask(task, _files(folder / "files"))


def _files(folder: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    size = 0
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.is_symlink() or not path.is_file():
            continue
        size += path.stat().st_size
        if size > _MOST_BYTES or len(found) == _MOST_FILES:
            raise TooLarge(
                f"The files of {folder.parent} are over {_MOST_FILES} or {_MOST_BYTES >> 20} MiB."
            )
        found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def copied(name: str, to: Path) -> Path:
    """A bundled task copied into a folder, to be changed there. Raises UsageError."""
    target = to / name
    if name not in bundled():
        raise UsageError(f"There is no bundled task {name!r}: {', '.join(bundled())}.")
    if target.exists():
        raise UsageError(f"{target} is there already. Nothing was copied.")
    shutil.copytree(BUNDLED / name, target)
    return target
