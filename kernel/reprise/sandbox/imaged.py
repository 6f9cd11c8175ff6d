"""What is known of an image that an environment stands on: its Python, and the packages of it.

An image is named by its digest, so what was found in it once holds for ever: `environments.image`
looks into it at `reprise env create`, and keeps what it found in REPRISE_HOME/images, one small
file for an image.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from reprise.errors import SandboxError, UnavailableError
from reprise.sandbox.contract import LanguageKernel
from reprise.sandbox.documents import read_json, write_json
from reprise.sandbox.packages import Package, Prefix
from reprise.settings import home

FOLDER = "images"
_ABOUT = ("version", "cache_tag", "platform")


def facts_file(image: str) -> Path:
    """Where what was found in an image is kept."""
    return home() / FOLDER / f"{hashlib.sha256(image.encode()).hexdigest()}.json"


def keep_facts(image: str, python: str, prefix: Prefix) -> None:
    """Keep what was found. python: the path of its interpreter inside. Raises UnavailableError."""
    facts = {
        "image": image,
        "python": python,
        "interpreter": dict(prefix.interpreter),
        "packages": [[p.name, p.version, p.record] for p in prefix.packages],
    }
    write_json(facts_file(image), facts)


def image_kernel(image: str, environment: str) -> LanguageKernel:
    """The ipykernel of an image. Raises UnavailableError when nobody has looked into it here."""
    python = _facts(image, environment)["python"]
    return LanguageKernel(
        "python3", "python", (python, "-m", "ipykernel_launcher", "-f", "{connection_file}"), ()
    )


def image_prefix(image: str, environment: str) -> Prefix:
    """What an image consists of. Raises UnavailableError when nobody has looked into it here."""
    facts = _facts(image, environment)
    packages = (Package(*map(str, each)) for each in facts["packages"])
    return Prefix(image, facts["interpreter"], tuple(packages))


def refuse_image(image: str | None, backend: str) -> None:
    """For backends that only have this machine's own files. Raises SandboxError for an image."""
    if image is not None:
        raise SandboxError(
            f"The environment stands on the image {image}, and the backend {backend} only shows "
            "this machine's own files. Nothing was started. Choose a backend that has images: "
            "REPRISE_BACKEND=oci or dagger."
        )


def _facts(image: str, environment: str) -> dict[str, Any]:
    found = read_json(facts_file(image))
    if (
        isinstance(found, dict)
        and isinstance(found.get("python"), str)
        and isinstance(found.get("packages"), list)
        and isinstance(found.get("interpreter"), dict)
        and all(isinstance(found["interpreter"].get(key), str) for key in _ABOUT)
        and all(isinstance(each, list) and len(each) == 3 for each in found["packages"])
    ):
        return found
    raise UnavailableError(
        f"Nobody has looked yet into the image of the environment {environment!r} ({image}) on "
        f"this machine. Nothing was started. Run: reprise env check {environment}"
    )
