"""The language kernel as a process: started with its limits, signalled, and ended with its tree.

Imports little: it runs before anything slow is loaded, so that the language kernel's own start,
which takes longest, begins first.
"""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time

from reprise.guest import venv
from reprise.guest.child import leave_guest
from reprise.guest.settings import Settings
from reprise.guest.tree import descendants, others_in_namespace

#: Port numbers of an ipc connection are only suffixes of socket file names.
PORTS = {
    "shell_port": 1,
    "iopub_port": 2,
    "stdin_port": 3,
    "control_port": 4,
    "hb_port": 5,
}


class LanguageKernel:
    """One language kernel at a time; `start` again after `end` gives a clean one.

    folder: private, holds the connection file and sockets of the present run.
    output: read end of the pipe its own stdout and stderr go to.
    env, cwd: its variables and where it starts; commands have the same.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        #: The backend's private folder for us; not the language kernel's business.
        self._runtime = os.environ.pop("REPRISE_RUNTIME")
        self.pid = 0
        self.folder = ""
        self.key = ""
        self.output = -1
        self.stopped = False
        self.env: dict[str, str] = {}
        self.cwd = os.path.join(settings.workspace, settings.cwd)

    def endpoint(self, port: str) -> str:
        return f"ipc://{self.folder}/k-{PORTS[port]}"

    def start(self) -> None:
        """Start it. Raises OSError when even a process cannot be made."""
        settings = self._settings
        self.folder = f"{self._runtime}/k{os.urandom(4).hex()}"
        os.mkdir(self.folder, 0o700)
        self.key = os.urandom(32).hex()
        file = f"{self.folder}/kernel.json"
        connection = {
            "transport": "ipc",
            "ip": f"{self.folder}/k",
            **PORTS,
            "key": self.key,
            "signature_scheme": "hmac-sha256",
            "kernel_name": settings.name,
        }
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as out:
            json.dump(connection, out)
        with contextlib.suppress(FileExistsError):
            os.makedirs(self.cwd)
        argv = list(settings.argv)
        env = dict(os.environ)
        if settings.isolated and settings.language == "python":
            argv[0] = venv.make(argv[0], settings.workspace, env)
        names = {"connection_file": file, "resource_dir": settings.resource_dir}
        argv = [re.sub(r"\{([A-Za-z0-9_]+)\}", lambda m: names.get(m[1], m[0]), a) for a in argv]
        for name, value in settings.env.items():
            env[name] = re.sub(r"\$\{(\w+)\}", lambda m: env.get(m[1], m[0]), value)
        self.env = env
        self.stopped = False
        read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read, False)
        self.output = read
        guest = os.getpid()
        # Not subprocess: importing it takes longer than the whole of this.
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._become(argv, env, self.cwd, write, guest)
            except BaseException as error:  # noqa: BLE001  nothing may return from the child
                os.write(2, f"reprise: {argv[0]} could not be started: {error}\n".encode())
            finally:
                os._exit(127)
        os.close(write)

    def _become(
        self, argv: list[str], env: dict[str, str], cwd: str, output: int, guest: int
    ) -> None:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        leave_guest(self._settings, guest)
        os.chdir(cwd)
        os.execve(argv[0], argv, env)  # noqa: S606

    def finds(self, program: str) -> bool:
        """Whether a command would find a program of that name, or at that absolute path."""
        paths = [program]
        if "/" not in program:
            folders = self.env.get("PATH", os.defpath).split(":")
            paths = [os.path.join(folder, program) for folder in folders]
        return any(
            path.startswith("/") and os.path.isfile(path) and os.access(path, os.X_OK)
            for path in paths
        )

    def interrupt(self) -> None:
        """SIGINT to its process group, as jupyter_client does."""
        self._signal(signal.SIGINT)

    def pause(self) -> None:
        if not self.stopped:
            self.stopped = True
            self._signal(signal.SIGSTOP)

    def unpause(self) -> None:
        if self.stopped:
            self.stopped = False
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """SIGKILL to the language kernel only; its end is then told like any other."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """End it and everything it started, and wait until they are gone."""
        end_tree(self._settings.isolated)
        self.pid = 0
        if self.output >= 0:
            os.close(self.output)
            self.output = -1
        self.forget()

    def forget(self) -> None:
        """Remove the private folder of the present run."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder):
                os.unlink(f"{self.folder}/{name}")
            os.rmdir(self.folder)


def end_tree(isolated: bool) -> None:
    """SIGKILL to every process but init and the guest (isolated), or to all descendants.

    Returns when they are gone, zombies of ours reaped; gives up after ten seconds (a process
    in uninterruptible sleep), the container's end takes what is left.
    """
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if isolated:
            with contextlib.suppress(ProcessLookupError):
                # One system call for all: a fork bomb cannot outrun it (kill(2)).
                os.kill(-1, signal.SIGKILL)
        else:
            found = descendants(os.getpid())
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGSTOP)
            for pid in found + [p for p in descendants(os.getpid()) if p not in found]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        reap_all()
        if not (others_in_namespace() if isolated else descendants(os.getpid())):
            return
        time.sleep(0.001)


def reap_all(options: int = 0) -> list[tuple[int, int]]:
    """Reap every ended child: (pid, wait status). With WUNTRACED also which were stopped."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | options)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))
