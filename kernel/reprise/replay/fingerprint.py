"""Runs inside the language kernel: a digest of each of its variables, changing none of them.

`replay.variables` sends the texts of `glimpse`, `tables` and this file and evaluates `run` there
(imports of Reprise are left out, all run in one namespace). Of what is not in the standard
library only what the kernel has loaded itself is used. No code of the user's runs: no repr, no
`__eq__`, no `__iter__` or property of a class that we do not know.

Equal values have equal digests, whatever interpreter holds them; addresses never count. A value
that holds something that cannot be compared (an open file, a figure) is compared without it,
and `why` says so.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import types
from collections.abc import Callable
from typing import Any

from reprise.replay.glimpse import PREVIEW, preview, shape, weight
from reprise.replay.tables import Put, Tables, TooLarge, class_name, part

#: Hex digits of a digest: 96 bits are plenty against chance, and nobody attacks himself.
DIGITS = 24
#: Names longer than this, and names beyond so many, are only counted.
LONGEST = 200
NAMES = 4000
#: Values nested deeper are not followed.
DEEPEST = 80
#: Elements are hashed so many at a time, the clock being looked at in between.
CHUNK = 4096
#: Bases from here hide nothing of an instance.
TRANSPARENT = {"__main__", "builtins", "abc", "typing", "collections", "sklearn", "scipy"}
#: Instances of these libraries carry their data as plain attributes.
PLAIN_LIBRARIES = ("sklearn", "scipy")


class Walk(Tables):
    """Digests one value. `holes`: types met inside it that cannot be compared."""

    def __init__(self, deadline: float) -> None:
        super().__init__(deadline)
        self.path: list[int] = []
        self.holes: dict[str, None] = {}
        self.steps = 0

    def tick(self) -> None:
        self.steps += 1
        if self.steps & 255 == 0:
            self.clock()

    def digest(self, value: Any) -> bytes:
        out = hashlib.sha256()
        self.walk(value, out.update)
        return out.digest()

    def walk(self, value: Any, put: Put) -> None:
        """Feed one value to `put`, tagged by its type, so that no two values feed the same."""
        self.tick()
        kind = type(value)
        feed = SCALARS.get(kind)
        if feed is not None:
            part(put, kind.__name__, feed(value))
            return
        if id(value) in self.path:
            # How far up the value stands that this one refers back to.
            part(put, "cycle", b"%d" % (len(self.path) - self.path.index(id(value))))
            return
        if len(self.path) >= DEEPEST:
            self.hole(put, f"values nested deeper than {DEEPEST}")
            return
        self.path.append(id(value))
        try:
            self.inside(value, kind, put)
        finally:
            self.path.pop()

    def inside(self, value: Any, kind: type, put: Put) -> None:
        feed = CONTAINERS.get(kind)
        if feed is not None:
            feed(self, value, put)
            return
        top = (kind.__module__ or "").partition(".")[0]
        if top == "numpy" and self.numpy(value, kind, put):
            return
        if top == "pandas" and self.pandas(value, kind, put):
            return
        if top in STANDARD and self.standard(value, kind, put):
            return
        self.instance(value, kind, put)

    def hole(self, put: Put, what: str) -> None:
        self.holes[what] = None
        part(put, "hole", what.encode("utf-8", "replace"))

    # containers ----------------------------------------------------------------------------

    def sequence(self, tag: str, value: Any, put: Put) -> None:
        """A list or tuple whose own methods are known."""
        size = len(value)
        part(put, tag, b"%d" % size)
        for at in range(0, size, CHUNK):
            chunk = value[at : at + CHUNK]
            self.clock()
            if PLAIN.issuperset(map(type, chunk)):
                # Their repr says all there is of them, and is made in C.
                try:
                    text = repr(chunk)
                except ValueError:  # an integer of more digits than Python writes
                    text = ""
                if text:
                    part(put, "plain", text.encode("utf-8", "surrogatepass"))
                    continue
            for each in chunk:
                self.walk(each, put)

    def pairs(self, tag: str, items: Any, size: int, put: Put) -> None:
        part(put, tag, b"%d" % size)
        for key, each in items:
            self.walk(key, put)
            self.walk(each, put)

    def unordered(self, tag: str, value: Any, put: Put) -> None:
        part(put, tag, b"%d" % len(value))
        for each in sorted([self.digest(each) for each in value]):
            put(each)

    # the standard library ------------------------------------------------------------------

    def standard(self, value: Any, kind: type, put: Put) -> bool:
        """Values of modules that are loaded if one of their values exists."""
        exactly = f"{kind.__module__}.{kind.__qualname__}"
        if exactly in BY_TEXT:
            part(put, exactly, str(value).encode("utf-8", "surrogatepass"))
        elif exactly in BY_REPR:
            part(put, exactly, repr(value).encode("utf-8", "surrogatepass"))
        elif exactly == "collections.OrderedDict" or exactly == "collections.Counter":
            self.pairs(exactly, dict.items(value), len(value), put)
        elif exactly == "collections.defaultdict":
            self.walk(value.default_factory, put)
            self.pairs(exactly, dict.items(value), len(value), put)
        elif exactly == "collections.deque":
            self.walk(value.maxlen, put)
            self.sequence(exactly, list(value), put)
        elif exactly == "array.array":
            part(put, "array", value.typecode.encode())
            self.buffer(memoryview(value).cast("B"), put)
        elif exactly == "random.Random":
            self.walk(value.getstate(), put)
        elif exactly == "re.Pattern":
            self.walk([value.pattern, value.flags], put)
        elif exactly == "functools.partial":
            self.walk([value.func, value.args, value.keywords], put)
        elif exactly == "types.SimpleNamespace":
            self.pairs(exactly, value.__dict__.items(), len(value.__dict__), put)
        else:
            return False
        return True

    # code and classes ----------------------------------------------------------------------

    def function(self, value: Any, put: Put) -> None:
        part(put, "function", value.__qualname__.encode("utf-8", "replace"))
        self.code(value.__code__, put)
        self.walk(value.__defaults__, put)
        self.walk(value.__kwdefaults__, put)
        for cell in value.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:  # not assigned yet
                part(put, "empty", b"")
                continue
            self.walk(held, put)

    def code(self, value: types.CodeType, put: Put) -> None:
        """What a function does. Where it was written (file, line) does not count."""
        part(put, "code", value.co_code)
        names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount)
        part(put, "names", repr((names, counts, value.co_flags)).encode("utf-8", "replace"))
        for const in value.co_consts:
            self.walk(const, put)

    def method(self, value: Any, put: Put) -> None:
        part(put, "method", b"")
        self.walk(value.__func__, put)
        self.walk(value.__self__, put)

    def builtin(self, value: Any, put: Put) -> None:
        owner = value.__self__
        if owner is not None and type(owner) is not types.ModuleType:
            self.hole(put, class_name(type(value)))
            return
        part(put, "builtin", f"{value.__module__}.{value.__qualname__}".encode())

    def module(self, value: Any, put: Put) -> None:
        version = types.ModuleType.__getattribute__(value, "__dict__").get("__version__")
        named = version if type(version) is str else ""
        part(put, "module", f"{value.__name__} {named}".encode("utf-8", "replace"))

    def klass(self, value: type, put: Put) -> None:
        part(put, "class", f"{value.__module__}.{value.__qualname__}".encode())
        if value.__module__ != "__main__":
            return
        for name, each in sorted(type.__getattribute__(value, "__dict__").items()):
            inner = each.__func__ if type(each) in (staticmethod, classmethod) else each
            if type(inner) is types.FunctionType:
                part(put, "member", name.encode("utf-8", "replace"))
                self.code(inner.__code__, put)

    def instance(self, value: Any, kind: type, put: Put) -> None:
        """An instance of a class that we know to carry its data as attributes."""
        enum = sys.modules.get("enum")
        if issubclass(kind, type):
            self.klass(value, put)
            return
        if enum is not None and issubclass(type(kind), enum.EnumMeta):
            member = object.__getattribute__(value, "__dict__").get("_name_")
            part(put, "enum", f"{class_name(kind)} {member}".encode("utf-8", "replace"))
            return
        fields = type.__getattribute__(kind, "__dict__").get("__dataclass_fields__")
        top = (kind.__module__ or "").partition(".")[0]
        own = kind.__module__ == "__main__" or top in PLAIN_LIBRARIES
        if issubclass(kind, tuple) and type(getattr(kind, "_fields", None)) is tuple:
            part(put, "named", class_name(kind).encode("utf-8", "replace"))
            self.sequence("fields", tuple(tuple.__iter__(value)), put)
            return
        if issubclass(kind, BaseException):
            part(put, "exception", class_name(kind).encode("utf-8", "replace"))
            self.walk(BaseException.__getattribute__(value, "args"), put)
            return
        if not own and fields is None:
            self.hole(put, class_name(kind))
            return
        part(put, "object", class_name(kind).encode("utf-8", "replace"))
        self.bases(value, kind, put)
        held = _attributes(value, kind)
        self.pairs("attributes", sorted(held.items()), len(held), put)

    def bases(self, value: Any, kind: type, put: Put) -> None:
        """What an instance holds by being a list, a dict, … as well."""
        for base in kind.__mro__:
            own = type.__getattribute__(base, "__dict__")
            if (base.__module__ or "").partition(".")[0] in TRANSPARENT:
                continue
            if "__dataclass_fields__" not in own:
                self.holes[class_name(base)] = None  # it may hold what is no attribute
        for base, feed in BUILT_IN_BASES:
            if issubclass(kind, base):
                feed(self, value, put)
                return


def _attributes(value: Any, kind: type) -> dict[str, Any]:
    """An instance's own attributes and slots; no property runs."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        for name, each in type.__getattribute__(base, "__dict__").items():
            if type(each) is types.MemberDescriptorType and base.__module__ != "builtins":
                try:
                    found[name] = each.__get__(value, kind)
                except AttributeError:  # a slot that was not set
                    continue
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return found
    if type(held) is dict:
        found.update((name, each) for name, each in held.items() if type(name) is str)
    return found


def _integer(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


SCALARS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"",
    bool: lambda value: b"1" if value else b"0",
    int: _integer,
    float: lambda value: repr(value).encode(),
    complex: lambda value: repr(value).encode(),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: lambda value: value,
    range: lambda value: repr(value).encode(),
    type(...): lambda _: b"",
    type(NotImplemented): lambda _: b"",
}

#: Types whose repr, in a list of them alone, is exact.
PLAIN = {int, float, bool, type(None), str}

CONTAINERS: dict[type, Callable[[Walk, Any, Put], None]] = {
    list: lambda walk, value, put: walk.sequence("list", value, put),
    tuple: lambda walk, value, put: walk.sequence("tuple", value, put),
    dict: lambda walk, value, put: walk.pairs("dict", list(value.items()), len(value), put),
    set: lambda walk, value, put: walk.unordered("set", value, put),
    frozenset: lambda walk, value, put: walk.unordered("frozenset", value, put),
    bytearray: lambda walk, value, put: walk.buffer(memoryview(value), put),
    slice: lambda walk, value, put: walk.sequence(
        "slice", (value.start, value.stop, value.step), put
    ),
    types.FunctionType: Walk.function,
    types.MethodType: Walk.method,
    types.BuiltinFunctionType: Walk.builtin,
    types.ModuleType: Walk.module,
    types.CodeType: Walk.code,
    type: Walk.klass,
    types.MappingProxyType: lambda walk, value, put: walk.pairs(
        "proxy", list(value.items()), len(value), put
    ),
}

BUILT_IN_BASES: tuple[Any, ...] = (
    (dict, lambda walk, value, put: walk.pairs("dict", list(dict.items(value)), 0, put)),
    (list, lambda walk, value, put: walk.sequence("list", list(list.__iter__(value)), put)),
    (tuple, lambda walk, value, put: walk.sequence("tuple", tuple(tuple.__iter__(value)), put)),
    (set, lambda walk, value, put: walk.unordered("set", set(set.__iter__(value)), put)),
    (str, lambda walk, value, put: walk.walk(str.__str__(value), put)),
    (int, lambda walk, value, put: walk.walk(int.__int__(value), put)),
    (float, lambda walk, value, put: walk.walk(float.__float__(value), put)),
)

STANDARD = {
    "array", "collections", "datetime", "decimal", "fractions", "functools", "ipaddress",
    "pathlib", "random", "re", "types", "uuid", "zoneinfo",
}  # fmt: skip

BY_TEXT = {
    "decimal.Decimal", "fractions.Fraction", "pathlib.PosixPath", "pathlib.PurePosixPath",
    "pathlib.PureWindowsPath", "pathlib._local.PosixPath", "pathlib._local.PurePosixPath",
    "uuid.UUID", "zoneinfo.ZoneInfo", "ipaddress.IPv4Address", "ipaddress.IPv6Address",
    "ipaddress.IPv4Network", "ipaddress.IPv6Network",
}  # fmt: skip

BY_REPR = {
    "datetime.date", "datetime.time", "datetime.datetime", "datetime.timedelta",
    "datetime.timezone",
}  # fmt: skip


def about(value: Any, deadline: float) -> dict[str, Any]:
    """What is told of one variable."""
    kind = type(value)
    name = class_name(kind)[:PREVIEW]
    told: dict[str, Any] = {"type": name, "digest": None, "shape": None, "preview": "", "why": None}
    try:
        told["shape"] = shape(value, kind)
        told["preview"] = preview(value)[:PREVIEW]
        walk = Walk(deadline)
        digest = walk.digest(value)
        holes = sorted(walk.holes)
        if holes and len(walk.holes) == 1 and holes[0] == class_name(kind):
            told["why"] = "values of this type cannot be compared"
            return told
        told["digest"] = digest.hex()[:DIGITS]
        if holes:
            told["why"] = "without what it holds of " + ", ".join(holes[:3])[:PREVIEW]
    except TooLarge:
        told["why"] = "too large"
    except Exception as error:  # noqa: BLE001  any class of any library
        told["why"] = f"it cannot be looked into ({type(error).__name__[:PREVIEW]})"
    return told


def names_of(shell: Any) -> list[str]:
    """The user's own names: what IPython put there itself is left out."""
    space = shell.user_ns
    hidden = shell.user_ns_hidden
    found = []
    for name in list(space):
        if type(name) is not str or name.startswith("__"):
            continue
        if name in hidden and hidden[name] is space[name]:
            continue
        own = name.strip("_")
        if name.startswith("_") and (own in ("", "i", "ii", "iii", "exit_code") or _numbered(own)):
            continue
        found.append(name)
    return found


def _numbered(own: str) -> bool:
    return own.isdigit() or (own[:1] == "i" and own[1:].isdigit())


def digests(space: dict[str, Any], names: list[str], seconds: float) -> dict[str, Any]:
    """All variables, the light ones first; each gets at most half of what time is left."""
    end = time.perf_counter() + seconds
    kept = [name for name in names if len(name) <= LONGEST]
    kept.sort(key=lambda name: (weight(space[name]), name))
    found: dict[str, Any] = {}
    for name in kept[:NAMES]:
        now = time.perf_counter()
        found[name] = about(space[name], now + max(0.0, end - now) / 2)
    return {
        "python": f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}",
        "omitted": len(names) - len(found),
        "variables": {name: found[name] for name in sorted(found)},
    }


class Told:
    """Carries a text through IPython's formatters, whichever the user has changed."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "variables"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"application/x-reprise-variables": self._text}


def run(seconds: float) -> Told:
    shell = sys.modules["IPython"].get_ipython()
    return Told(json.dumps(digests(shell.user_ns, names_of(shell), seconds)))
