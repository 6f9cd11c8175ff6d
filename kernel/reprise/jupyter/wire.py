"""The wire form between clients and the router: identities, signatures, duplicates (pure).

Jupyter messaging protocol 5.4, "The wire protocol": identities, `<IDS|MSG>`, HMAC signature,
header, parent_header, metadata, content, *buffers. We sign and check raw frames ourselves:
`jupyter_client.session.Session` parses and packs every frame, and importing it costs a kernel
start 100 ms, for what the standard library's `hmac` does in one call.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Sequence

from reprise.replay.message import Malformed, Message

DELIMITER = b"<IDS|MSG>"

#: Signatures remembered to refuse a replayed message (as jupyter_client does, 2**16).
HISTORY = 1 << 16

#: Frames before the delimiter: one identity, a few more behind zmq proxies.
MAX_IDENTITIES = 16
MAX_FRAMES = 1 << 12


class Signer:
    """Signs and checks messages with the connection file's key.

    scheme: such as "hmac-sha256"; an empty key means no signatures at all.
    Raises ValueError for a scheme this Python does not know.
    """

    def __init__(self, key: bytes, scheme: str = "hmac-sha256") -> None:
        kind, _, digest = scheme.partition("-")
        if kind != "hmac" or digest not in hashlib.algorithms_available:
            raise ValueError(f"unknown signature scheme {scheme!r}")
        self._key = key
        self._digest = digest
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def sign(self, frames: Sequence[bytes]) -> bytes:
        """Hex signature over header, parent_header, metadata and content."""
        if not self._key:
            return b""
        return hmac.digest(self._key, b"".join(frames[:4]), self._digest).hex().encode("ascii")

    def check(self, signature: bytes, frames: Sequence[bytes]) -> None:
        """Raises Malformed when the signature is wrong or was seen before."""
        if not self._key:
            return
        if not hmac.compare_digest(self.sign(frames), signature):
            raise Malformed("the signature does not match (is the connection file an old one?)")
        if signature in self._seen:
            raise Malformed("the same signed message came before")
        self._seen[signature] = None
        if len(self._seen) > HISTORY:
            self._seen.popitem(last=False)


def split(frames: Sequence[bytes], signer: Signer) -> tuple[list[bytes], Message]:
    """A client's multipart message as (identities, message). Raises Malformed."""
    if len(frames) > MAX_FRAMES:
        raise Malformed(f"{len(frames)} frames are more than {MAX_FRAMES}")
    try:
        at = frames.index(DELIMITER, 0, MAX_IDENTITIES + 1)
    except ValueError:
        raise Malformed("there is no delimiter <IDS|MSG>") from None
    if len(frames) < at + 6:
        raise Malformed("frames are missing after the delimiter")
    signer.check(frames[at + 1], frames[at + 2 :])
    return list(frames[:at]), Message.from_frames(frames[at + 2 :])


def join(prefix: Sequence[bytes], message: Message, signer: Signer) -> list[bytes]:
    """The multipart form for a client: `prefix` is its identities, or an iopub topic."""
    frames = message.frames()
    return [*prefix, DELIMITER, signer.sign(frames), *frames]
