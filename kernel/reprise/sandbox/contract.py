"""The contract between the engine and whatever runs a sandbox.

A backend starts an isolated container, hands over one duplex byte stream to the guest in it,
and kills it. Everything else (the language kernel, files, limits) is asked of the guest over
that stream (`connection.Guest`), so all backends behave alike; tests/conformance holds every
backend to this page.

Channels on the stream (`frames.Channel`), each with its parts:

    SHELL, CONTROL, STDIN   client, header, parent_header, metadata, content, *buffers
                            (no signature: the guest signs with a key of its own)
    IOPUB                   topic, header, parent_header, metadata, content, *buffers
    CALL                    id (4 bytes), JSON {"call", …arguments}, *data (host → guest)
    ANSWER                  id (4 bytes), JSON {"ok": true, …} or {"ok": false, "error", "kind"},
                            *data
    EVENT                   JSON {"event", …} (guest → host)
    COMMAND                 id of the `run` call (4 bytes), b"o" or b"e", data: what a command wrote
                            to stdout or stderr (guest → host), before the call's ANSWER
    TUNNEL                  one connection of a program inside to a host outside: id (4 bytes, given
                            by the guest, counted up from 1), a verb (1 byte), data
                            b"o" open, guest → host: JSON {"host", "port", "via": "connect" | "http"
                                 | "socks"}
                            b"a" accepted, host → guest: b""
                            b"r" refused, host → guest: JSON {"status", "text"}: an HTTP status and
                                 a sentence for the person; ends the tunnel
                            b"d" data, either way, at most 64 KiB
                            b"w" window, either way: u32 bytes the peer may send beyond what it has
                                 sent (each tunnel begins with TUNNEL_WINDOW for both)
                            b"e" the sender sends no more data, either way
                            b"x" the tunnel is over at once, either way; b"r" and b"x" are answered
                                 by b"x", after which nothing comes under that id
                            The guest sends nothing but b"x" before it has heard b"a", and ends with
                            b"x" a tunnel in which both ways have ended.

Calls, arguments → answer:

    ping            {} → {}
    interrupt       {} → {}: SIGINT to the language kernel's group, or an interrupt_request
    restart_kernel  {} → {kernel_info}: ends the interpreter, all commands and all their children;
                    files stay
    put             {entries: [{path, type: file|dir|link, mode, target?, append?}]}, with one
                    data part a file → {}
    remove          {paths} → {}
    get             {path, offset, length} → {size, mode, type, link: bool}, data: of what a link
                    leads to
    tree            {hashes: bool, limit, after?} → {entries: [{path, type, mode, size, mtime_ns,
                    sha256?, target?}], more: bool}
    folder          {path, limit, after?, own} → {entries: [{name, type, mode, size, mtime_ns,
                    target?, leads?: file|dir}], total, more: bool}: of one folder ("" for the
                    root), in the order of the names' bytes; own: false without our own folder there
    usage           {} → {memory, files, processes, workspace}: bytes, bytes in file systems that
                    lie in memory (they count as memory), count, bytes
    install         {stage, removed: [path]} → {}: moves what lies below the folder `stage` of the
                    workspace (put there before) to the same paths below the workspace, after
                    removing `removed`; the stage is gone afterwards. All of it or nothing
    run             {name, argv, shell, cwd, env, timeout_s, output_bytes, output_lines,
                    background}, with stdin as one data part (or none) → at its end {exit_code,
                    signal, timed_out, duration_us, stdout: {bytes, lines, cut, file}, stderr: {…}};
                    for `background` at its start {}
    signal_command  {name, signal} → {}: to the process group of a running command, or with SIGKILL
                    to its whole tree, answered when nothing of it is left
    commands        {} → {commands: [{name, pid, running, exit_code, signal, started_us}]}: of
                    background
    programs        {names} → {found}: those of the names (or absolute paths) that a command would
                    find a program by

Kinds of errors: "not-found", "not-a-file", "denied", "full" (no room), "outside" (the path leads
out of the workspace), "deep", "os" (another error of the operating system), "arguments", "name" (no
such call; a command of that name runs), "half-installed" (`install` failed, and so did undoing it:
throw the sandbox away); of a command "program" and "cwd" (it could not be started there), "many"
(too many run), "ended" (it does not run).

A command's argv is [program, …]; `argv: null, shell: text` runs the text with bash, or sh where
there is none. cwd: absolute, or relative to where the notebook lies ("" or null: there). Its
variables are the language kernel's with `env` on top. Its process tree ends with it, children that
left its session or process group too; a background command's when it is stopped, or with the
interpreter at a restart_kernel. Past `output_bytes` or `output_lines` of a stream nothing more of
that stream is sent (`cut`), the command runs on, and `file` names a file of the workspace that
holds the whole stream, up to a bound of the guest's: `.reprise/commands/NAME/stdout` (null when
there was no room for it). A background command's streams go there from the start. At `timeout_s`
the command gets a SIGTERM, two seconds later its tree a SIGKILL.

What is half uploaded lies in `.reprise/stage-` and 16 hex digits; `tree` leaves that out.

Paths are relative to the workspace, separated by "/", names decoded with surrogateescape.
The guest resolves them beneath the workspace (openat2 RESOLVE_BENEATH where the kernel has it).

Events: {"event": "ready", "kernel_info": content of kernel_info_reply, "protocol": 1} once the
language kernel answers, and again after restart_kernel; {"event": "died", "what": "signal" |
"exit" | "memory", "signal"?, "code"?, "limit"?, "used"?} when the language kernel ended by
itself. After "died" the host throws the sandbox away.

**The host trusts nothing of this.** Lengths, channels, JSON and paths are checked on the host
side; a violation ends the sandbox (ProtocolViolation).
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from reprise.sandbox.network import NetworkRules


@dataclass(frozen=True)
class Limits:
    """What a sandbox may use. Sizes in bytes, times in seconds; 0 means no limit.

    output: recorded and shown output of one step; message: one iopub message; request: one
    request of a client; wall: run time of one step; mounts: all that is mounted with `mount`.
    """

    memory: int = 0
    processes: int = 512
    cpus: float = 0.0
    wall: float = 0.0
    workspace: int = 4 << 30
    tmp: int = 1 << 30
    open_files: int = 4096
    output: int = 16 << 20
    message: int = 8 << 20
    request: int = 32 << 20
    mounts: int = 256 << 20


@dataclass(frozen=True)
class Mount:
    """Host data shown read-only inside the sandbox."""

    source: Path
    target: str


@dataclass(frozen=True)
class LanguageKernel:
    """A stock Jupyter kernel to run inside: its kernelspec, made absolute.

    argv: as in kernel.json, with {connection_file} (and {resource_dir}) still in place;
      argv[0] is an absolute path inside one of `prefixes`.
    prefixes: host directories it needs, shown read-only at the same path.
    """

    name: str
    language: str
    argv: tuple[str, ...]
    prefixes: tuple[Path, ...]
    interrupt_mode: Literal["signal", "message"] = "signal"
    env: Mapping[str, str] = field(default_factory=dict)
    resource_dir: str = ""


#: Bytes that each end of a tunnel may send before the other has given it more.
TUNNEL_WINDOW = 1 << 18


@dataclass(frozen=True)
class GuestNetwork:
    """What the guest needs to offer a proxy on the sandbox's loopback.

    authority: the certificate (PEM) of an authority that this sandbox alone trusts, "" for none:
      the proxy opens TLS then.  index: the variables that lead pip and uv to the package index.
    forwards: (host, port) of the host's loopback that programs find on the sandbox's own: they ask
      no proxy for those (NO_PROXY).
    """

    authority: str = ""
    index: Mapping[str, str] = field(default_factory=dict)
    forwards: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class SandboxSpec:
    """Everything a backend needs to start one sandbox.

    workspace: for the process backend, the host folder that *is* the workspace; isolating
      backends ignore it and give a fresh empty tree at `/workspace`.
    cwd: the notebook's cwd relative to the workspace ("" for its root).
    variables: the only host variables that go in.
    image: the sandbox's root file system: "NAME@sha256:…" in a registry, "oci:/PATH@sha256:…" in an
      OCI layout; None for the host's own prefixes (kernel.prefixes). The kernel's argv is a path
      inside it then, and kernel.prefixes is empty.
    network: None where nothing may go out; then the guest offers no proxy.  rules: the connections
      that the host makes for it (`reprise.egress`; backends need not look).  environment: its name.
    reuse: "never": every step gets an interpreter of its own, on Dagger a container of its own.
    """

    kernel: LanguageKernel
    limits: Limits = Limits()
    mounts: tuple[Mount, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    workspace: Path | None = None
    cwd: str = ""
    image: str | None = None
    network: GuestNetwork | None = None
    reuse: Literal["session", "never"] = "session"
    rules: NetworkRules = field(default_factory=NetworkRules)
    environment: str = "default"


@dataclass(frozen=True)
class DeathCause:
    """Why a sandbox or its language kernel ended.

    what: "memory" (over its limit), "signal", "exit", "violation" (of the frame protocol),
      "killed" (by us: shutdown, timeout), "vanished" (the stream closed, nothing known).
    """

    what: Literal["memory", "signal", "exit", "violation", "killed", "vanished"]
    signal: int | None = None
    code: int | None = None
    limit: int | None = None
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        found = {
            "what": self.what,
            "signal": self.signal,
            "code": self.code,
            "limit": self.limit,
            "detail": self.detail or None,
        }
        return {key: value for key, value in found.items() if value is not None}


#: Where `Container.mount` may show a tree: in a folder of its own below one of these.
MOUNT_PLACES = ("/skills", "/mnt")


class TreeEntry(Protocol):
    """One thing in a tree to mount (`workspace.manifest.Entry` is one)."""

    @property
    def path(self) -> str: ...
    @property
    def type(self) -> Literal["file", "dir", "link"]: ...
    @property
    def mode(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str | None: ...
    @property
    def target(self) -> str | None: ...


@dataclass(frozen=True)
class Tree:
    """A tree of files to mount: its digest (sha256 of its manifest), its entries in path order,
    and how to read a file's bytes by their sha256.

    trusted: whether somebody with the right vouches for a skill's content.
    """

    digest: str
    entries: Sequence[TreeEntry]
    read: Callable[[str], Awaitable[bytes]]
    trusted: bool = False


class Container(Protocol):
    """A started sandbox as its backend sees it.

    stream: our end of the one duplex stream, connected, non-blocking.
    pid: host process id of the outermost process (for `doctor`, tests and demos).
    workspace: where the workspace lies as seen from inside.
    """

    stream: socket.socket
    pid: int
    workspace: str

    async def wait(self) -> DeathCause:
        """Return when the container has ended and all its processes are gone."""

    def memory_exceeded(self) -> int | None:
        """The memory limit in bytes if the container was ever ended for passing it, else None."""

    async def mount(self, target: str, tree: Tree) -> str:
        """Show a tree read-only at `target` from now on, in place of what was mounted there.

        No process of the sandbox can change it; modes are kept, and every time is 1980-01-01, so
        that a replay finds the same. Returns the path where it lies as seen from inside: `target`,
        but where nothing isolates a folder of REPRISE_HOME/mounts, its write bits cleared, which
        code that runs as the same user could change. Whole or not at all: a tree that could not be
        shown, a cancelled mount too, leaves what was there. Raises UsageError for a target outside
        MOUNT_PLACES, or in or above another, and for a tree that is none; TooLarge; SandboxError,
        also for stored bytes that are not those the tree names; SandboxDied; what `read` raises.
        """

    async def kill(self) -> None:
        """End every process of it, now. Idempotent; returns when they are gone."""


#: Hears, in a sentence, what a start that takes long is doing (an image is pulled).
Said = Callable[[str], None]


def silent(_text: str) -> None:
    """A `Said` that nobody hears."""


@runtime_checkable
class Renewable(Protocol):
    """A container whose files can go on in a fresh one (Dagger's layers), for `reuse: never`."""

    async def renew(self, said: Said = silent) -> Container:
        """Start a fresh container on the files of this one, whose guest has said goodbye.

        Raises SandboxError; then the files are gone, and the session is replayed.
        """


class Backend(Protocol):
    """Starts sandboxes of one kind.

    isolation: one sentence for people: what stands between the code and this machine.
    isolated: False for the process backend only.
    """

    name: str
    isolation: str
    isolated: bool

    def check(self) -> list[str]:
        """What prevents this backend from working here, each with its mend; empty when it works."""

    def enforcement(self) -> Mapping[str, str]:
        """How each limit that a backend holds is held on this machine, in words, for `doctor`.

        By field of `Limits`: memory, processes, cpus, workspace, tmp, mounts, open_files (the
        kernel itself holds wall, output, message and request). Where it is not: "not enforced",
        and why.
        """

    async def start(self, spec: SandboxSpec, said: Said = silent) -> Container:
        """Start one. Raises SandboxError when it cannot; leaves nothing behind then."""
