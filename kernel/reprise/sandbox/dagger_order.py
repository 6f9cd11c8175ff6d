"""What a kernel asks of the Dagger broker, and what it hears: lines of JSON on a unix socket.

    kernel → broker   {"protocol": 1, "ask": "sandbox", …Order}, the first line
                      {"protocol": 1, "ask": "status"}, or that
                      {"ask": "renew", "variables", "socket"} after `ended`
    broker → kernel   {"said": text} any number of times: what takes long
                      {"engine": version, "pid": of Dagger's client} once the exec was asked for;
                      of `status` all of its answer
                      {"ended": detail, "kept": bool} at the container's end
                      {"failed": text} instead of any of these; the connection is over then

Closing the connection ends the sandbox. Both ends belong to one user: this is no wall.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: Raised when either end changes what it says; a broker of another one is not spoken to.
PROTOCOL = 1

#: A line holds the variables of an environment and not much more.
MAX_LINE = 8 << 20

#: How an image is named: in a registry by digest; an OCI layout (PATH@sha256:…); the host's own
#: prefix, made into an image by the broker.
ImageKind = Literal["registry", "layout", "prefix"]


@dataclass(frozen=True)
class Order:
    """One sandbox. All paths in `argv`, `temporary` and the targets of `data` are inside.

    image: what it stands on.  kernel: of a prefix image, {argv, prefixes, name, language}.
    variables: the container's environment.  temporary: folder → bytes that it may hold.
    data: (host folder, target), copied into the engine.  socket: the host's socket that the
    guest dials at `dagger_exec.SOCKET`.  registry: where a prefix's image is published, "" for
    nowhere.  renewable: its files are asked for again.
    """

    image_kind: ImageKind
    image: str
    argv: tuple[str, ...]
    variables: Mapping[str, str]
    temporary: Mapping[str, int]
    socket: str
    data: tuple[tuple[str, str], ...] = ()
    kernel: Mapping[str, Any] = field(default_factory=dict)
    registry: str = ""
    renewable: bool = False

    def line(self) -> bytes:
        return encode({"protocol": PROTOCOL, "ask": "sandbox", "order": asdict(self)})

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Order:
        return cls(
            **{
                **value,
                "argv": tuple(value["argv"]),
                "data": tuple((source, target) for source, target in value["data"]),
            }
        )


def encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Raises ValueError for what is no JSON object."""
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    return value
