"""Jupyter's wire format towards the language kernel: signing and splitting messages.

The key is drawn in here and never leaves the sandbox; the client's key never enters it.
https://jupyter-client.readthedocs.io/en/stable/messaging.html#the-wire-protocol
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Sequence

DELIMITER = b"<IDS|MSG>"


class Signer:
    """Signs messages with the key of one run of the language kernel."""

    def __init__(self, key: str) -> None:
        self._hmac = hmac.new(key.encode(), digestmod="sha256")
        #: Session id of requests of our own.
        self.session = os.urandom(16).hex()

    def sign(self, parts: Sequence[bytes]) -> list[bytes]:
        """The frames to send for header, parent, metadata, content, *buffers."""
        mac = self._hmac.copy()
        for part in parts[:4]:
            mac.update(part)
        return [DELIMITER, mac.hexdigest().encode(), *parts]

    def request(self, msg_type: str) -> list[bytes]:
        """Frames of a request of our own with empty content."""
        header = {
            "msg_id": os.urandom(16).hex(),
            "msg_type": msg_type,
            "session": self.session,
            "username": "reprise",
            "date": "1970-01-01T00:00:00.000000Z",
            "version": "5.4",
        }
        return self.sign([json.dumps(header).encode(), b"{}", b"{}", b"{}"])


def split(frames: Sequence[bytes]) -> tuple[list[bytes], list[bytes]] | None:
    """Routing prefix, and header, parent, metadata, content, *buffers; None if it is no message.

    The signature is not checked: whoever could forge it inside the sandbox can also read the key.
    """
    try:
        at = frames.index(DELIMITER)
    except ValueError:
        return None
    if len(frames) < at + 6:
        return None
    return list(frames[:at]), list(frames[at + 2 :])
