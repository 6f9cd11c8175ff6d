#!/usr/bin/python3 -IS
"""An OCI runtime that gives a sandbox of ours its limits, and then becomes the real runtime.

An operator installs this one file in a container engine in place of `runc`, with the real one
beside it (docs/dagger.md). It imports nothing but the standard library, and of that as little as
it can: it runs before every container of the engine. A container without our variables gets the
real runtime with its arguments as they came, and its bundle is not touched.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

#: Where the operator says what may be asked for, and where we keep which runtime has a container.
POLICY = "/etc/reprise-shim.json"
RECORDS = "/run/reprise-shim"
#: The runtime of every container that is not ours: the first of these that is there.
REAL = ("/usr/local/bin/runc.real", "/usr/bin/runc", "/usr/sbin/runc", "/usr/local/sbin/runc")
#: Where the others are looked for when the policy names no path.
PLACES = {
    "runc": REAL,
    "crun": ("/usr/local/bin/crun", "/usr/bin/crun"),
    "runsc": ("/usr/local/bin/runsc", "/usr/bin/runsc"),
}

VERSION = 1
PREFIX = "REPRISE_SHIM"
APPLIED = "REPRISE_SHIM_APPLIED"
#: Bytes of a config.json of ours (an engine writes a few tens of KiB) and of the policy.
MOST_CONFIG = 16 << 20
MOST_POLICY = 64 << 10
#: What the guest's rooted parent needs to hand the workspace and itself to an ordinary user, and to
#: end what that user runs.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
#: name → the least and the most. Less memory or fewer processes than these, and a runtime's own
#: first process does not come up.
RANGES = {"memory": (16 << 20, 1 << 50), "cpus": (0.01, 1024.0), "pids": (16, 1 << 22)}
NETWORKS = ("none", "engine")
#: Microseconds over which the kernel counts processor time.
PERIOD = 100_000

#: Options that take the next argument with them (runc's and crun's, of all verbs).
_VALUED = """
root log log-format criu rootless cgroup-manager bundle b console-socket pid-file pidfd-socket
preserve-fds cwd env e user u additional-gids g process p process-label apparmor cap c cgroup
format resources r interval blkio-weight cpu-period cpu-quota cpu-burst cpu-rt-period cpu-idle
cpu-rt-runtime cpu-share cpuset-cpus cpuset-mems kernel-memory kernel-memory-tcp memory
memory-reservation memory-swap pids-limit l3-cache-schema mem-bw-schema image-path work-path
parent-path status-fd page-server manage-cgroups-mode empty-ns lsm-profile lsm-mount-context
"""
VALUED = frozenset(_VALUED.split())
#: `-f` is `--force` but for these.
VALUED_IN = {"ps": ("f",), "list": ("f",)}
STARTING = ("create", "run", "restore")
#: What gVisor's runtime does not know, before and after the verb.
RUNSC_LACKS = ("debug", "criu", "rootless", "cgroup-manager")
RUNSC_LACKS_STARTING = (
    "no-pivot",
    "no-new-keyring",
    "no-subreaper",
    "preserve-fds",
    "pidfd-socket",
)
#: gVisor uses about five of the machine's tasks for each process inside (its ptrace platform; the
#: others fewer), and some forty of its own; at its limit it ends, no `fork` inside fails.
RUNSC_TASKS = (6, 64)
#: The forwarded socket is the sandbox's one way out: programs may connect to it, and make none.
RUNSC_ARGUMENTS = ("--host-uds=open",)


class Refused(Exception):
    """This container is not started; the text says why, in one sentence."""


class Runtime:
    """An OCI runtime: the name it is asked for by, its program, options that it always gets."""

    def __init__(self, name: str, path: str, arguments: Sequence[str] = ()) -> None:
        self.name = name
        self.path = path
        self.arguments = list(arguments)

    @property
    def is_runsc(self) -> bool:
        return self.name.startswith("runsc")

    def lacks(self, option: str) -> bool:
        """Whether it does not know that option of runc's `create` and `run`."""
        if option == "keep":  # some crun know it; `delete` must do without it anyway
            return not self.name.startswith("runc")
        return self.is_runsc and option in RUNSC_LACKS_STARTING


class Call:
    """One command line of the engine, taken apart: options, verb, its options, id, the rest."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = list(arguments)
        self.verb = self.id = ""
        #: (option, its value, its words) before the verb, and between it and the id.
        self.before, rest = _options(self.arguments, "")
        self.after: list[tuple[str, str, list[str]]] = []
        self.rest: list[str] = []
        if rest:
            self.verb = rest[0]
            self.after, self.rest = _options(rest[1:], self.verb)
            words = self.rest[1:] if self.rest[:1] == ["--"] else self.rest
            self.id = words[0] if words else ""

    def option(self, *names: str) -> str:
        """The value that counts, of an option's last time; "" when it is not there."""
        found = [value for name, value, _ in (*self.before, *self.after) if name in names]
        return found[-1] if found else ""

    @property
    def bundle(self) -> str:
        return os.path.abspath(self.option("bundle", "b") or ".")

    def for_runtime(self, runtime: Runtime) -> list[str]:
        """The same command line as that runtime takes it."""
        words: list[str] = []
        for name, value, said in self.before:
            if name == "root":
                # Two runtimes in one folder would take each other's containers for broken ones.
                words += ["--root", f"{value}-{runtime.name}"]
            elif not (runtime.is_runsc and name in RUNSC_LACKS):
                words += said
        words += [*runtime.arguments, self.verb]
        for name, value, said in self.after:
            if name == "preserve-fds" and value != "0" and runtime.is_runsc:
                raise Refused("gVisor passes no open files on (--preserve-fds)")
            if self.verb not in STARTING or not runtime.lacks(name):
                words += said
        return words + self.rest


def _options(words: Sequence[str], verb: str) -> tuple[list[tuple[str, str, list[str]]], list[str]]:
    """The options that words begin with, and what comes after them."""
    options, at = [], 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        name, equals, value = words[at].lstrip("-").partition("=")
        took = 1
        if not equals and (name in VALUED or name in VALUED_IN.get(verb, ())):
            value, took = words[at + 1] if at + 1 < len(words) else "", 2
        options.append((name, value, list(words[at : at + took])))
        at += took
    return options, list(words[at:])


def real_runtime() -> str:
    """The program that containers which are not ours get; raises Refused."""
    ours = _identity(__file__)
    for path in REAL:
        found = _identity(path)
        if found is not None and found != ours:
            return path
    raise Refused(f"the real runc is not there: it belongs at {REAL[0]}")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# What the operator allows.


class Policy:
    """What containers of ours may ask for, checked; made of the operator's JSON, or of {}."""

    def __init__(self, told: Any) -> None:
        _only(told, ("runtimes", "networks", "defaults", "maxima"), "the policy")
        self.maxima = _numbers(told.get("maxima", {}), (), "maxima")
        defaults = told.get("defaults", {})
        self.defaults = _numbers(defaults, ("network", "runtime"), "defaults")
        for name, value in self.defaults.items():
            if value > self.maxima.get(name, value):
                raise Refused(f"defaults.{name} is above maxima.{name}")
        self.networks = told.get("networks", list(NETWORKS))
        if not isinstance(self.networks, list) or not self.networks:
            raise Refused('networks is a list of "none" and "engine"')
        if any(network not in NETWORKS for network in self.networks):
            raise Refused('networks holds something else than "none" and "engine"')
        self.network = defaults.get("network", "engine" if "engine" in self.networks else "none")
        if self.network not in self.networks:
            raise Refused("defaults.network is not one of networks")
        self.runtimes = _runtimes(told.get("runtimes"))
        runtime = defaults.get("runtime")
        if runtime is None:
            runtime = "runc" if "runc" in self.runtimes else next(iter(self.runtimes))
        elif runtime not in self.runtimes:
            raise Refused("defaults.runtime is not one of runtimes")
        self.runtime: str = runtime

    @classmethod
    def read(cls) -> Policy:
        import json

        try:
            file = os.open(POLICY, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return cls({})
        except OSError as error:
            raise Refused(f"{POLICY} cannot be read: {error.strerror}") from error
        with os.fdopen(file, "rb") as opened:
            status = os.fstat(file)
            if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
                raise Refused(f"{POLICY} can be written by others than root")
            content = opened.read(MOST_POLICY + 1)
        if len(content) > MOST_POLICY:
            raise Refused(f"{POLICY} is longer than {MOST_POLICY} bytes")
        try:
            return cls(json.loads(content))
        except (ValueError, RecursionError) as error:
            raise Refused(f"{POLICY} is no JSON: {error}") from error
        except Refused as error:
            raise Refused(f"{POLICY}: {error}") from error


def _only(told: Any, names: Sequence[str], what: str) -> None:
    if not isinstance(told, dict):
        raise Refused(f"{what} is no object")
    for name in told:
        if name not in names:
            raise Refused(f"{what} has the unknown key {name[:64]!r}")


def _numbers(told: Any, others: Sequence[str], what: str) -> dict[str, float]:
    _only(told, (*RANGES, *others), what)
    return {
        name: _in_range(name, value, f"{what}.{name}")
        for name, value in told.items()
        if name in RANGES
    }


def _in_range(name: str, value: Any, what: str) -> float:
    least, most = RANGES[name]
    kinds = (int, float) if name == "cpus" else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        raise Refused(f"{what} is not a number from {least} to {most}")
    return value


def _runtimes(told: Any) -> dict[str, dict[str, Any]]:
    if told is None:
        return {name: {} for name in PLACES}
    if not isinstance(told, dict) or not told:
        raise Refused("runtimes is an object with at least one name")
    for name, about in told.items():
        if not _is_plain(name):
            raise Refused(f"runtimes has a strange name: {name[:64]!r}")
        _only(about, ("path", "arguments"), f"runtimes.{name}")
        path, arguments = about.get("path"), about.get("arguments", [])
        if path is None and name not in PLACES:
            raise Refused(f"runtimes.{name} needs a path")
        if path is not None and not (isinstance(path, str) and path.startswith("/")):
            raise Refused(f"runtimes.{name}.path is no absolute path")
        if not isinstance(arguments, list) or not all(
            isinstance(word, str) and word.startswith("-") and "\0" not in word
            for word in arguments
        ):
            raise Refused(f"runtimes.{name}.arguments is no list of options (write --name=value)")
    return told


def _is_plain(name: str) -> bool:
    return 0 < len(name) <= 32 and name.isascii() and name.replace("-", "").isalnum()


def found_runtime(name: str, policy: Policy) -> Runtime:
    """The runtime of that name; raises Refused where it is not allowed or not there."""
    about = policy.runtimes.get(name)
    if about is None:
        allowed = ", ".join(policy.runtimes)
        raise Refused(f"the runtime {name[:64]!r} is not allowed here (allowed: {allowed})")
    ours = _identity(__file__)
    for path in (about["path"],) if "path" in about else PLACES[name]:
        if _identity(path) not in (None, ours) and os.access(path, os.X_OK):
            return Runtime(name, path, about.get("arguments", ()))
    raise Refused(f"the runtime {name} is not there: install it, or name its path in {POLICY}")


# What a container asks for.


def settings(config: Any) -> dict[str, str] | None:
    """Our variables in a configuration, without the prefix; None if the container is not ours."""
    process = config.get("process") if isinstance(config, dict) else None
    variables = process.get("env") if isinstance(process, dict) else None
    found: dict[str, str] = {}
    for variable in variables if isinstance(variables, list) else ():
        name, _, value = variable.partition("=") if isinstance(variable, str) else ("", "", "")
        if _is_ours(name) and name != APPLIED:
            if name in found:
                raise Refused(f"{name[:64]} is set twice")
            found[name] = value
    if not found:
        return None
    if found.pop(PREFIX, None) != "1":
        raise Refused(f"{PREFIX}_… is set without {PREFIX}=1")
    return {name[len(PREFIX) + 1 :]: value for name, value in found.items()}


def _is_ours(name: str) -> bool:
    return name == PREFIX or name.startswith(PREFIX + "_")


def wanted(asked: dict[str, str], policy: Policy) -> dict[str, Any]:
    """What a container gets: {shim, runtime, memory, cpus, pids, network}; raises Refused."""
    got: dict[str, Any] = {"shim": VERSION, "runtime": asked.pop("RUNTIME", policy.runtime)}
    for name, (least, most) in RANGES.items():
        text = asked.pop(name.upper(), None)
        if text is None:
            got[name] = policy.defaults.get(name, policy.maxima.get(name))
            continue
        what = f"{PREFIX}_{name.upper()}"
        plain = text.replace(".", "", 1) if name == "cpus" else text
        if not (plain.isascii() and plain.isdigit() and len(text) <= 16):
            raise Refused(f"{what}={text[:64]!r} is not a number from {least} to {most}")
        got[name] = _in_range(name, float(text) if name == "cpus" else int(text), what)
        if got[name] > policy.maxima.get(name, most):
            raise Refused(f"{what}={text} is more than is allowed here ({policy.maxima[name]})")
    got["network"] = asked.pop("NETWORK", policy.network)
    if got["network"] not in NETWORKS:
        raise Refused(f"{PREFIX}_NETWORK={got['network'][:64]!r} is neither none nor engine")
    if got["network"] not in policy.networks:
        raise Refused(f"{PREFIX}_NETWORK={got['network']} is not allowed here")
    for name in sorted(asked):
        raise Refused(f"{PREFIX}_{name[:64]} is no setting of this shim")
    return got


def edited(
    config: Any, asked: dict[str, str], policy: Policy, *, swap: bool = False
) -> dict[str, Any]:
    """Puts the limits into a container's configuration and returns what it got; raises Refused.

    config: a config.json as read, changed in place.  asked: its `settings`.
    swap: the machine swaps, so that memory is limited together with swap.
    """
    import json

    got = wanted(dict(asked), policy)
    process, linux = _part(config, "process"), _part(config, "linux")
    variables = process["env"]
    if not all(isinstance(variable, str) for variable in variables):
        raise Refused("process.env holds something that is no text")
    kept = [variable for variable in variables if not _is_ours(variable.partition("=")[0])]
    process["env"] = [*kept, f"{APPLIED}={json.dumps(got, separators=(',', ':'))}"]
    _harden(process, linux)
    _limit(_part(linux, "resources"), got, swap=swap)
    if got["network"] == "none":
        others = [each for each in linux["namespaces"] if each.get("type") != "network"]
        linux["namespaces"] = [*others, {"type": "network"}]
    if got["runtime"].startswith("crun"):
        # crun before 1.9 takes no later number, and nothing of later versions is in there.
        config["ociVersion"] = "1.0.2"
    return got


def _part(config: Any, name: str) -> dict[str, Any]:
    """The object of that name, made when it is not there."""
    if not isinstance(config, dict):
        raise Refused("config.json holds no object where one belongs")
    if config.get(name) is None:
        config[name] = {}
    part = config[name]
    if not isinstance(part, dict):
        raise Refused(f"{name} of config.json is no object")
    return part


#: What of /proc and /sys tells of the machine, beside what engines mask. /sys/devices/system/cpu
#: stays, by which numeric libraries count cores, and /sys/fs/cgroup, where the parent sees that a
#: process was ended for memory.
MASKED = (
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/pressure",
    "/proc/timer_list",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/firmware",
    "/sys/hypervisor",
    "/sys/kernel",
    "/sys/module",
    "/sys/power",
)


def _harden(process: dict[str, Any], linux: dict[str, Any]) -> None:
    capabilities = _part(process, "capabilities")
    namespaces = linux.get("namespaces")
    if not isinstance(namespaces, list) or not all(isinstance(each, dict) for each in namespaces):
        raise Refused("linux.namespaces is no list of objects")
    own = [each.get("type") for each in namespaces if not each.get("path")]
    for kind in ("pid", "ipc", "mount"):
        if kind not in own:
            raise Refused(f"the container has no {kind} namespace of its own")
    for name, held in capabilities.items():
        if not isinstance(held, list):
            raise Refused(f"process.capabilities.{name} is no list")
        if "CAP_SYS_ADMIN" in held:
            raise Refused("the container asks for the machine's capabilities (insecure root)")
    allowed = [f"CAP_{name}" for name in CAPABILITIES]
    for name in ("bounding", "effective", "permitted"):
        held = capabilities.get(name) or []
        capabilities[name] = [capability for capability in allowed if capability in held]
    # Nothing is handed on to what the parent executes as another user.
    capabilities["inheritable"] = []
    capabilities["ambient"] = []
    process["noNewPrivileges"] = True
    masked = linux.get("maskedPaths") or []
    if not isinstance(masked, list):
        raise Refused("linux.maskedPaths is no list")
    linux["maskedPaths"] = [*masked, *(path for path in MASKED if path not in masked)]


def _limit(resources: dict[str, Any], got: dict[str, Any], *, swap: bool) -> None:
    """Sets the limits; one of the engine's that is tighter stays."""
    if got["memory"] is not None:
        memory = _part(resources, "memory")
        memory["limit"] = _tighter(memory.get("limit"), got["memory"])
        memory.pop("reservation", None)
        memory.pop("disableOOMKiller", None)
        # Where nothing swaps some kernels have no such file, and a runtime would fail.
        memory.pop("swap", None)
        if swap:
            memory["swap"] = memory["limit"]
    if got["pids"] is not None:
        each, own = RUNSC_TASKS if got["runtime"].startswith("runsc") else (1, 0)
        pids = _part(resources, "pids")
        pids["limit"] = _tighter(pids.get("limit"), got["pids"] * each + own)
    if got["cpus"] is not None:
        cpu = _part(resources, "cpu")
        has, period = cpu.get("quota"), cpu.get("period") or PERIOD
        has = has * PERIOD // period if isinstance(has, int) and isinstance(period, int) else None
        cpu["quota"] = _tighter(has, int(got["cpus"] * PERIOD))
        cpu["period"] = PERIOD
        cpu.pop("burst", None)


def _tighter(has: Any, wanted: int) -> int:
    return min(has, wanted) if isinstance(has, int) and has > 0 else wanted


# Which runtime has a container.


class Record:
    """A file that says which runtime has a container that not the real one has."""

    def __init__(self, call: Call) -> None:
        # Both are the engine's words; quoted, they name no other folder and no other container.
        self.name = f"{_quoted(call.option('root'))}@{_quoted(call.id)}"
        self.path = os.path.join(RECORDS, self.name)

    def runtime(self) -> Runtime | None:
        return None if len(self.name) > 255 else _recorded(self.path)[0]

    def write(self, runtime: Runtime, bundle: str) -> None:
        if len(self.name) > 240:
            raise Refused("the container's id is too long")
        try:
            os.mkdir(RECORDS, 0o700)
        except FileExistsError:
            status = os.lstat(RECORDS)
            if status.st_uid != os.geteuid() or status.st_mode & 0o170022 != 0o040000:
                raise Refused(f"{RECORDS} is not a folder that only root writes") from None
        _sweep()
        content = "\0".join((runtime.name, runtime.path, bundle, *runtime.arguments))
        _replaced(self.path, f"{self.path}.{os.getpid()}", os.fsencode(content), 0o600)

    def remove(self) -> None:
        _unlink(self.path)


def _quoted(text: str) -> str:
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
    return "".join(chr(c) if c in plain else f"%{c:02x}" for c in os.fsencode(text))


def _recorded(path: str) -> tuple[Runtime | None, str]:
    """(the runtime, the bundle) that a record names."""
    try:
        with open(path, "rb") as file:
            parts = os.fsdecode(file.read(MOST_POLICY)).split("\0")
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    if len(parts) < 3:
        raise Refused(f"{path} is broken: remove it when that container is gone")
    return Runtime(parts[0], parts[1], parts[3:]), parts[2]


def _sweep() -> None:
    """Forgets a few containers whose engine died before it deleted them."""
    asked = 0
    for name in os.listdir(RECORDS):
        path = os.path.join(RECORDS, name)
        if "." in name:  # is being written
            continue
        root, _, id_ = name.partition("@")
        try:
            runtime, bundle = _recorded(path)
        except Refused:
            continue
        if runtime is None or os.path.lexists(os.path.join(bundle, "config.json")):
            continue
        given = ["--root", _unquoted(root)] if root else []
        if not exists(Call([*given, "state", "--", _unquoted(id_)]), runtime):
            _unlink(path)
        asked += 1
        if asked == 4:
            return


def _unquoted(text: str) -> str:
    head, *rest = text.split("%")
    return head + "".join(os.fsdecode(bytes.fromhex(part[:2])) + part[2:] for part in rest)


def exists(call: Call, runtime: Runtime) -> bool:
    """Whether that runtime still has the container of that call."""
    root = ["--root", call.option("root")] if call.option("root") else []
    asking = Call([*root, "state", "--", call.id])
    return spawned([runtime.path, *asking.for_runtime(runtime)], quiet=True) == 0


def _replaced(path: str, beside: str, content: bytes, mode: int) -> None:
    """Writes a file whole or not at all."""
    _unlink(beside)  # of a shim that died, in an engine that began to count again
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
        os.replace(beside, path)
    except OSError:
        _unlink(beside)
        raise


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


# Doing it.


def start(call: Call) -> NoReturn:
    """Start a container: ours with its limits, another one as it is."""
    config = os.path.join(call.bundle, "config.json")
    content, marked = _content(config)
    real = real_runtime()
    record = Record(call)
    before = record.runtime()
    if before is not None:
        # An engine that died left it, or the id is taken; not knowing would mix up two containers.
        if exists(call, before):
            raise Refused(f"container {call.id[:128]!r} exists")
        record.remove()
    if marked:
        _start_ours(call, config, content, real, record)
    become(real, call.arguments)


def _start_ours(call: Call, config: str, content: bytes, real: str, record: Record) -> None:
    """Become the runtime that was asked for; returns when the container is not ours after all."""
    import json

    try:
        read = json.loads(content)
        asked = settings(read)
        if asked is None:
            return
        policy = Policy.read()
        got = edited(read, asked, policy, swap=_swaps())
        written = json.dumps(read).encode()
    except (ValueError, RecursionError) as error:
        raise Refused(f"{config} is no JSON: {error}") from error
    if call.verb == "restore":
        raise Refused("a sandbox of Reprise is not restored from a checkpoint")
    if not call.id or call.rest[-1] != call.id:
        raise Refused("the container's id is not the last word of the command line")
    runtime = found_runtime(got["runtime"], policy)
    if runtime.is_runsc:
        network = "none" if got["network"] == "none" else "sandbox"
        runtime.arguments = [*RUNSC_ARGUMENTS, f"--network={network}", *runtime.arguments]
    words = call.for_runtime(runtime)
    if runtime.path == real and not runtime.arguments:
        words = call.arguments
    else:
        record.write(runtime, call.bundle)
    _replaced(config, f"{config}.{os.getpid()}", written, os.stat(config).st_mode & 0o777)
    become(runtime.path, words)


def _content(path: str) -> tuple[bytes, bool]:
    """A configuration, and whether one of our variables stands in it."""
    mark = f'"{PREFIX}'.encode()
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_CONFIG + 1)
            if len(content) <= MOST_CONFIG:
                return content, mark in content
            tail = content
            while tail:
                if mark in tail:
                    raise Refused(f"{path} is longer than {MOST_CONFIG} bytes")
                more = file.read(1 << 20)
                tail = tail[-len(mark) :] + more if more else b""
    except OSError:
        pass  # the real runtime says what is wrong with it
    return b"", False


def _swaps() -> bool:
    try:
        with open("/proc/swaps", "rb") as file:
            return file.read(4096).count(b"\n") > 1
    except OSError:
        return True


def go_on(call: Call) -> NoReturn:
    """Any other verb about a container: by the runtime that has it."""
    record = Record(call)
    runtime = record.runtime()
    if runtime is None:
        become(real_runtime(), call.arguments)
    words = call.for_runtime(runtime)
    if call.verb != "delete":
        become(runtime.path, words)
    if not exists(call, runtime):
        # `run` has deleted it at its end, since this runtime knows no `--keep`.
        record.remove()
        sys.exit(0)
    code = spawned([runtime.path, *words])
    if code == 0:
        record.remove()
    sys.exit(code)


def become(program: str, arguments: Sequence[str]) -> NoReturn:
    try:
        os.execv(program, [program, *arguments])
    except OSError as error:
        raise Refused(f"{program} cannot be executed: {error.strerror}") from error


def spawned(command: Sequence[str], *, quiet: bool = False) -> int:
    """Runs a program to its end; its exit code, as a shell counts them."""
    files = []
    if quiet:
        files = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    try:
        pid = os.posix_spawn(command[0], list(command), os.environ, file_actions=files)
    except OSError as error:
        raise Refused(f"{command[0]} cannot be executed: {error.strerror}") from error
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def tell(call: Call, text: str) -> None:
    """Says why nothing was started, where the engine looks for it."""
    import json
    import time

    sentence = f"reprise-shim: {text}"
    print(sentence, file=sys.stderr)
    if call.option("log"):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if call.option("log-format") == "json":
            line = json.dumps({"level": "error", "msg": sentence, "time": now})
        else:
            line = f'time="{now}" level=error msg={json.dumps(sentence)}'
        try:
            with open(call.option("log"), "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            print(f"reprise-shim: the log: {error.strerror}", file=sys.stderr)


def check() -> int:
    """`--reprise-check`: says what an installed shim finds; 0 when it can start containers."""
    code = 0
    print(f"reprise-shim {VERSION}")
    try:
        print(f"real runtime: {real_runtime()}")
        policy = Policy.read()
    except Refused as error:
        print(f"WRONG: {error}")
        return 1
    there = "as it says" if os.path.exists(POLICY) else "not there: everything is allowed"
    print(f"policy {POLICY}: {there}")
    for name in policy.runtimes:
        try:
            print(f"runtime {name}: {found_runtime(name, policy).path}")
        except Refused as error:
            print(f"runtime {name}: {error}")
            code = 1 if name == policy.runtime else code
    return code


def main(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--reprise-check"]:
        return check()
    call = Call(arguments)
    try:
        if call.verb in STARTING:
            start(call)
        if call.id:
            go_on(call)
        become(real_runtime(), call.arguments)
    except Refused as error:
        tell(call, str(error))
    except OSError as error:
        tell(call, f"{error.filename}: {error.strerror}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
