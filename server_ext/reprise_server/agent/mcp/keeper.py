"""Started as a program: runs an MCP server on our stdin and stdout, and ends its whole tree.

    python -I -S keeper.py LIFELINE WORD …

LIFELINE is a descriptor, the reading end of a pipe. When its other end closes (the process that
has it ended, however it ended, or it has done with this server) the server's tree is ended. A
signal at the parent's death would not do: it comes when the parent's *thread* ends (prctl(2)).
Of the standard library only: it starts before every server.
"""

import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
#: Seconds between a polite end and a forced one, and after which what will not die is left.
_GRACE_S = 1.0
_PATIENCE_S = 10.0


def _children() -> list[int]:
    """Our own (proc(5), /proc/PID/task/TID/children); orphans below us come to us."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _signal(number: int) -> None:
    for pid in _children():
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _reaped(pid: int) -> tuple[bool, int | None]:
    """Reap what has ended: whether nothing is left, and the status of `pid` if it was among it."""
    status = None
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == pid:
                status = found[1]
    except ChildProcessError:
        return True, status
    return False, status


def _end(pid: int, grace_s: float) -> None:
    begun = time.monotonic()
    _signal(signal.SIGTERM)
    while (spent := time.monotonic() - begun) < _PATIENCE_S:
        if _reaped(pid)[0]:
            return
        if spent >= grace_s:
            _signal(signal.SIGKILL)
        time.sleep(0.005)


def main(argv: list[str]) -> int:
    lifeline, words = int(argv[1]), argv[2:]
    os.set_inheritable(lifeline, False)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    try:
        pid = os.posix_spawnp(
            words[0],
            words,
            os.environ,
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE),
        )
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\n".encode())
        return 127
    # Else the server's end would not close its stdin and stdout: this process has them too.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    poller = select.poll()
    poller.register(lifeline, select.POLLIN | select.POLLHUP)
    poller.register(woken, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poller.poll()}
        if woken in ready:
            os.read(woken, 512)
            _, status = _reaped(pid)
            if status is not None:
                _end(pid, 0.0)
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        if lifeline in ready:
            _end(pid, _GRACE_S)
            return 0


if __name__ == "__main__":
    os._exit(main(sys.argv))
