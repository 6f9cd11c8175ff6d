"""What stands where in a bundle: names, order, bounds, and its first member (pure)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from reprise.bundle.bounded import parse_canonical
from reprise.bundle.lines import is_sha256
from reprise.errors import BadBundle, UnavailableError
from reprise.log.model import canonical

FORMAT: Final = "reprise-bundle"
#: Of what a bundle holds since the first version, and the one that also holds recorded answers.
FIRST_VERSION: Final = 1
VERSION: Final = 2

HEAD: Final = "bundle.json"
NOTICES: Final = "notices.jsonl"
STATES: Final = "states.jsonl"
ARTIFACTS: Final = "artifacts.jsonl"
#: Only where there are recorded answers, which is what version 2 says.
RECORDED: Final = "recorded.jsonl"
#: Of a signed bundle, after the manifest: minisign's public key and signature of the manifest.
SIGNER: Final = "signer.pub"
SIGNATURE: Final = "manifest.sha256.minisig"

#: A page of events is closed before the line with which it would be larger.
PAGE_BYTES: Final = 4 << 20
#: Bounds of members that are read into memory.
HEAD_BYTES: Final = 4 << 10
SPEC_BYTES: Final = 32 << 20
TABLE_BYTES: Final = 256 << 20
SIGNATURE_BYTES: Final = 8 << 10

_PAGES: Final = 1_000_000
_NAME: Final = 200


def events_member(number: int) -> str:
    if number >= _PAGES:
        raise BadBundle(f"it has more than {_PAGES:,} pages of events")
    return f"events/{number:06}.jsonl"


def environment_member(digest: str) -> str:
    return f"environments/{digest}.json"


def lock_member(digest: str) -> str:
    return f"locks/{digest}.txt"


def blob_member(sha256: str) -> str:
    return f"blobs/{sha256}"


@dataclass(frozen=True)
class Head:
    """The first member: which session this is and where its history ends.

    recorded: whether there are recorded answers, which readers of version 1 do not know.
    """

    session: uuid.UUID
    kernel: str
    created_at: int
    steps: int
    events: int
    chain: str
    recorded: bool = False

    def to_bytes(self) -> bytes:
        return canonical(
            {
                "format": FORMAT,
                "version": VERSION if self.recorded else FIRST_VERSION,
                "session": str(self.session),
                "kernel": self.kernel,
                "created_at": self.created_at,
                "steps": self.steps,
                "events": self.events,
                "chain": self.chain,
            }
        )


def parse_head(data: bytes) -> Head:
    """Raises BadBundle, and UnavailableError for a bundle of a later version."""
    value = parse_canonical(data, HEAD)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise BadBundle(f"{HEAD} does not say that it is a bundle")
    version = value.get("version")
    if type(version) is int and version > VERSION:
        raise UnavailableError(
            f"This bundle has format {version}; this Reprise reads up to {VERSION}. Nothing was"
            " imported. Upgrade Reprise here."
        )
    try:
        head = Head(
            uuid.UUID(value["session"]),
            _kernel(value["kernel"]),
            value["created_at"],
            value["steps"],
            value["events"],
            value["chain"],
            version == VERSION,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadBundle(f"{HEAD} does not name its session") from error
    numbers = (head.created_at, head.steps, head.events)
    fits = all(type(number) is int and 0 <= number < 1 << 63 for number in numbers) and is_sha256(
        head.chain
    )
    if not fits or head.to_bytes() != data:
        raise BadBundle(f"{HEAD} does not say what it should")
    return head


def _kernel(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _NAME or not value.isprintable():
        raise ValueError("the name of no kernel")
    return value
