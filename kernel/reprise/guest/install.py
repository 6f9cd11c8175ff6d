"""Moves a staged tree into its place in the workspace: all of it, or nothing.

What is there already changes places with what comes, so that it can come back: each move is
noted, and a failure undoes them, the last one first. After the first move there are only
renames and changes of mode, which need no room on the disk.

Programs of the sandbox may change the same folders meanwhile. Every name is used in a folder
that was opened beneath the workspace, and no link in last place is followed: whatever they do,
nothing outside is touched.
"""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence

from reprise.guest.beneath import components, open_beneath
from reprise.guest.folder import FOLDER, discard, lstat, open_for_work

#: Set on folders of a stage that were made only because something lies in them: what they are
#: merged into keeps its mode. It means nothing in a tree of ours.
ON_THE_WAY = stat.S_ISVTX

#: Other programs may make and remove what is in the way while we look; so often only on purpose.
_TRIES = 100

_RENAME_EXCHANGE = 2

_libc = ctypes.CDLL(None, use_errno=True)


class HalfInstalled(Exception):
    """An installation failed, and so did undoing it: the workspace is in between."""


class Installation:
    """One `install`: the moves it made, and how each is undone. Paths are beneath the root."""

    def __init__(self, root: int, stage: str) -> None:
        parts = components(stage)
        if not parts:
            raise OSError(errno.EINVAL, "the workspace itself is no stage", stage)
        self._root = root
        self._stage = "/".join(parts)
        #: Where in the stage goes what `removed` names.
        self._aside = f"{self._stage}/.reprise-{os.urandom(8).hex()}"
        self._undo: list[Callable[[], None]] = []

    def run(self, removed: Sequence[str]) -> None:
        """Do it. Raises OSError when nothing has changed, HalfInstalled when something has."""
        above, _, name = self._stage.rpartition("/")
        with self._opened(above) as parent, self._opened(self._stage) as stage:
            try:
                self._move_all(stage, removed)
            except BaseException as error:
                self._go_back(error)
                raise
            finally:
                # What made way lies in the stage by now. If some of it cannot be removed it
                # takes room and no more: it is part of nothing.
                with contextlib.suppress(OSError, RecursionError):
                    discard(parent, name)

    def _move_all(self, stage: int, removed: Sequence[str]) -> None:
        names = os.listdir(stage)
        os.mkdir(self._aside.rpartition("/")[2], 0o700, dir_fd=stage)
        for path in removed:
            self._remove(path)
        with self._opened("") as root:
            for name in names:
                self._place(stage, root, name)

    def _go_back(self, error: BaseException) -> None:
        for undo in reversed(self._undo):
            try:
                undo()
            except OSError as second:
                raise HalfInstalled(
                    f"{error}; what had been moved could not be moved back: {second}"
                ) from error

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """A folder that we may change while it is open here; its mode is as before afterwards."""
        folder = open_beneath(self._root, path, FOLDER)
        try:
            mode = stat.S_IMODE(os.fstat(folder).st_mode)
            if mode & 0o700 == 0o700:
                yield folder
            else:
                os.fchmod(folder, mode | 0o700)
                try:
                    yield folder
                finally:
                    os.fchmod(folder, mode)
        finally:
            os.close(folder)

    def _remove(self, path: str) -> None:
        parts = components(path)
        if not parts:
            raise OSError(errno.EINVAL, "the workspace itself cannot be removed", path)
        try:
            with self._opened("/".join(parts[:-1])) as parent:
                self._set_aside(parent, "/".join(parts))
        except (FileNotFoundError, NotADirectoryError):
            return  # it is not there

    def _place(self, staged: int, target: int, path: str) -> None:
        """Bring what a staged folder holds at `path` to the same path of the workspace.

        staged, target: the open folders it lies in and goes to.
        """
        name = path.rpartition("/")[2]
        coming = lstat(staged, name)
        if coming is None:
            raise FileNotFoundError(errno.ENOENT, "a program changed the stage", path)
        if stat.S_ISDIR(coming.st_mode):
            on_the_way = bool(coming.st_mode & ON_THE_WAY)
            if self._is_folder(target, path, on_the_way):
                mode = None if on_the_way else stat.S_IMODE(coming.st_mode)
                self._merge(staged, path, mode)
                return
            _clear_marks(staged, name)
        for _ in range(_TRIES):
            try:
                if lstat(target, name) is None:
                    self._bring(staged, target, path)
                elif not self._exchange(staged, target, path):
                    self._set_aside(target, path)
                    self._bring(staged, target, path)
            except FileNotFoundError:
                if lstat(staged, name) is None:
                    raise
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                pass
            else:
                return
            # What is in the way has come or gone since we looked.
        raise OSError(errno.EBUSY, "a program keeps changing what is in the way", path)

    def _is_folder(self, target: int, path: str, on_the_way: bool) -> bool:
        """Whether a staged folder is merged into one that is there.

        What merely lies on the way may be a link to a folder, as for every program.
        """
        found = lstat(target, path.rpartition("/")[2])
        if found is None or not (stat.S_ISLNK(found.st_mode) and on_the_way):
            return found is not None and stat.S_ISDIR(found.st_mode)
        try:
            os.close(open_beneath(self._root, path, os.O_PATH | os.O_DIRECTORY))
        except OSError:
            return False
        return True

    def _merge(self, staged: int, path: str, mode: int | None) -> None:
        """Place all that a staged folder holds; then the one that is there gets its mode."""
        coming, _ = open_for_work(staged, path.rpartition("/")[2])
        try:
            with self._opened(path) as there:
                for child in os.listdir(coming):
                    self._place(coming, there, f"{path}/{child}")
        finally:
            os.close(coming)
        if mode is not None:
            self._undo.append(self._change_mode(path, mode))

    def _change_mode(self, path: str, mode: int) -> Callable[[], None]:
        folder = open_beneath(self._root, path, FOLDER)
        try:
            before = stat.S_IMODE(os.fstat(folder).st_mode)
            if before == mode:
                return lambda: None
            os.fchmod(folder, mode)
        finally:
            os.close(folder)

        def undo() -> None:
            self._change_mode(path, before)

        return undo

    # The moves. Each is noted as soon as it is made.

    def _bring(self, staged: int, target: int, path: str) -> None:
        name = path.rpartition("/")[2]
        _rename(staged, name, target, name)
        self._undo.append(lambda: self._move_back(path, f"{self._stage}/{path}"))

    def _set_aside(self, target: int, path: str) -> None:
        name = path.rpartition("/")[2]
        aside = f"{self._aside}/{len(self._undo)}"
        try:
            with self._opened(self._aside) as folder:
                _rename(target, name, folder, aside.rpartition("/")[2])
        except OSError as error:
            found = lstat(target, name)
            if error.errno != errno.EXDEV or found is None or not stat.S_ISDIR(found.st_mode):
                raise
            self._set_aside_piecewise(target, path)
        else:
            self._undo.append(lambda: self._move_back(aside, path))

    def _set_aside_piecewise(self, target: int, path: str) -> None:
        """As `_set_aside` for a folder that cannot be renamed: one of an image's lower layers
        (overlayfs, "redirect_dir") must be emptied instead."""
        above, _, name = path.rpartition("/")
        folder, mode = open_for_work(target, name)
        try:
            for child in os.listdir(folder):
                self._set_aside(folder, f"{path}/{child}")
        finally:
            os.fchmod(folder, mode)
            os.close(folder)
        os.rmdir(name, dir_fd=target)

        def undo() -> None:
            with self._opened(above) as parent:
                os.mkdir(name, 0o700, dir_fd=parent)
            self._change_mode(path, mode)

        self._undo.append(undo)

    def _move_back(self, there: str, here: str) -> None:
        source, _, name = there.rpartition("/")
        target, _, to = here.rpartition("/")
        with self._opened(source) as source_folder, self._opened(target) as target_folder:
            _rename(source_folder, name, target_folder, to)

    def _exchange(self, staged: int, target: int, path: str) -> bool:
        """Change places in one system call; False where the file system has none for it."""
        name = path.rpartition("/")[2]
        if not _exchange_names(staged, target, name):
            return False

        def undo() -> None:
            above = path.rpartition("/")[0]
            stage = f"{self._stage}/{above}" if above else self._stage
            with self._opened(stage) as back, self._opened(above) as there:
                _exchange_names(back, there, name)

        self._undo.append(undo)
        return True


def _clear_marks(parent: int, name: str) -> None:
    """Take the mark from a staged folder that goes in as it is, and from all within."""
    folder, mode = open_for_work(parent, name)
    try:
        for child in os.listdir(folder):
            found = lstat(folder, child)
            if found is not None and stat.S_ISDIR(found.st_mode):
                _clear_marks(folder, child)
        os.fchmod(folder, mode & 0o777)
    finally:
        os.close(folder)


def _rename(source: int, name: str, target: int, to: str) -> None:
    with _movable((source, name)):
        os.rename(name, to, src_dir_fd=source, dst_dir_fd=target)


def _exchange_names(one: int, other: int, name: str) -> bool:
    if not hasattr(_libc, "renameat2"):
        return False
    encoded = os.fsencode(name)
    with _movable((one, name), (other, name)):
        if _libc.renameat2(one, encoded, other, encoded, _RENAME_EXCHANGE) == 0:
            return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EXDEV):
        return False
    raise OSError(number, os.strerror(number), name)


@contextlib.contextmanager
def _movable(*names: tuple[int, str]) -> Iterator[None]:
    """A folder can be moved to another one only by who may write in it (its ".." changes)."""
    opened: list[tuple[int, int]] = []
    try:
        for parent, name in names:
            found = lstat(parent, name)
            if found is not None and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o200:
                opened.append(open_for_work(parent, name))
        yield
    finally:
        for folder, mode in opened:
            os.fchmod(folder, mode)
            os.close(folder)
