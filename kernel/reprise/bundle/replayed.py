"""What a script of `reprise export --to-script` is built on: its source stands in each of them."""

import builtins as _builtins
import os as _os
import pathlib as _pathlib
import shutil as _shutil
import signal as _signal
import subprocess as _subprocess
import sys as _sys
import tempfile as _tempfile
import traceback as _traceback


class _History:
    """Does what is no plain Python in the steps below."""

    def __init__(self, names: dict[str, object]) -> None:
        self.names = names
        self.kept = {*names, "_history"}
        self.beside = _pathlib.Path(__file__).resolve().parent
        given = _sys.argv[1] if _sys.argv[1:] else _tempfile.mkdtemp(prefix="history-")
        self.workspace = _pathlib.Path(given).resolve()
        self.workspace.mkdir(parents=True, exist_ok=True)
        _os.chdir(self.workspace)
        print(f"working in {self.workspace}", file=_sys.stderr)
        self.background: dict[int, _subprocess.Popen[bytes]] = {}
        self.ask = _builtins.input

    def cell(self, code: str) -> None:
        """Run a cell that only IPython understands."""
        shell = getattr(_builtins, "get_ipython", None)
        if shell is None:
            raise SystemExit("This cell needs IPython: run the script with `ipython`.")
        shell().run_cell(code).raise_error()

    def failing_cell(self, code: str) -> None:
        """Run a cell that failed; it may fail again."""
        ask = getattr(_builtins, "get_ipython", None)
        if ask is not None:
            shell = ask()
            shell.run_cell(code)
            shell.last_execution_succeeded = True  # IPython would end with exit code 1
            return
        try:
            exec(compile(code, "<cell>", "exec"), self.names)
        except Exception:
            _traceback.print_exc()

    def answers(self, given: list[str]) -> None:
        """Give the recorded answers to the next questions."""

        def answer(prompt: object = "", /) -> str:
            if not given:
                return self.ask(prompt)
            print(f"{prompt}{given[0]}")
            return given.pop(0)

        _builtins.input = answer

    def command(
        self,
        shell: str = "",
        argv: list[str] | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        background: int | None = None,
    ) -> None:
        """Run a command as it was asked for."""
        _sys.stdout.flush()  # what was printed before it comes before it
        program = "/bin/bash" if _pathlib.Path("/bin/bash").exists() else "/bin/sh"
        process = _subprocess.Popen(
            argv or [program, "-c", shell],
            cwd=cwd,
            env={**_os.environ, **(env or {})},
            stdin=_subprocess.PIPE,
            start_new_session=True,
        )
        if background is None:
            process.communicate(stdin)
        else:
            self.background[background] = process

    def stop(self, number: int) -> None:
        """End a background command."""
        process = self.background.pop(number, None)
        if process is not None and process.poll() is None:
            _os.killpg(process.pid, _signal.SIGTERM)
            process.wait()

    def upload(self, folder: str, removed: list[str]) -> None:
        """Bring files into the workspace."""
        for path in removed:
            self.remove(self.workspace / path)
        _shutil.copytree(self.beside / folder, self.workspace, symlinks=True, dirs_exist_ok=True)

    def restart(self, emptied: bool = False) -> None:
        """Forget all names, as a new interpreter would; modules stay loaded."""
        for name in [each for each in self.names if each not in self.kept]:
            del self.names[name]
        _os.chdir(self.workspace)
        for path in list(self.workspace.iterdir()) if emptied else []:
            self.remove(path)

    def remove(self, path: _pathlib.Path) -> None:
        """A file, or a folder with all that lies in it; what is gone already is gone."""
        if path.is_dir() and not path.is_symlink():
            _shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


_history = _History(globals())
