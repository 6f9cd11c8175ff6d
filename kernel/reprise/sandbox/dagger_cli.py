"""Finds Dagger's program and library, and says what a person can do where one is missing."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Mapping
from importlib import metadata, util

from reprise.errors import SandboxError

#: The variables by which users of Dagger name its parts; they are Dagger's own.
CLI_BIN = "_EXPERIMENTAL_DAGGER_CLI_BIN"
RUNNER_HOST = "_EXPERIMENTAL_DAGGER_RUNNER_HOST"

#: What the tests ran with; others of these minor versions are expected to work.
TESTED = ("0.20",)
SUPPORTED = ("0.20", "0.21")

#: Seconds in which a listening engine takes a connection.
_CONNECTING = 10.0

#: Neither is anybody told that we use it, nor is anything looked up outside, unless a user says so.
_QUIET = {"DO_NOT_TRACK": "1", "DAGGER_NO_UPDATE_CHECK": "1"}

#: Host variables that Dagger's client needs: where its engine is, how registries are signed in to.
_PASSED = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TMPDIR|XDG_\w+|DOCKER_\w+|CONTAINER_HOST|KUBECONFIG|"
    r"SSH_AUTH_SOCK|SSL_CERT_\w+|(?i:https?_proxy|no_proxy)|_?(?:EXPERIMENTAL_)?DAGGER_\w+|"
    r"REGISTRY_AUTH_FILE|DO_NOT_TRACK|REPRISE_(?:HOME|DAGGER_IDLE)"
)
#: These would attach us to a session that is somebody else's.
_NEVER = ("DAGGER_SESSION_PORT", "DAGGER_SESSION_TOKEN")


def find_cli(environ: Mapping[str, str] = os.environ) -> str:
    """The program `dagger`. Raises SandboxError: the SDK would download one, and nobody asked."""
    named = environ.get(CLI_BIN)
    if named:
        if os.access(named, os.X_OK):
            return named
        raise SandboxError(
            f"{CLI_BIN} names {named}, which is no program that can be run. Nothing was started. "
            "Set it to Dagger's command line program, or unset it to use the one on PATH."
        )
    found = shutil.which("dagger", path=environ.get("PATH"))
    if found is not None:
        return found
    raise SandboxError(
        "Dagger's command line program is not here, and Reprise does not download one by itself. "
        f"Install `dagger` of the engine's version on PATH, or name it with {CLI_BIN}. Nothing "
        "was started."
    )


def sdk_version() -> str:
    """Which dagger-io is installed. Raises SandboxError when none is, or one that is not known."""
    if util.find_spec("dagger") is None:
        raise SandboxError(
            "The dagger backend needs Dagger's Python library, which is not installed. Nothing "
            "was started. Run: pip install 'jupyter-reprise[dagger]'"
        )
    version = metadata.version("dagger-io")
    if minor(version) not in SUPPORTED:
        raise SandboxError(
            f"dagger-io {version} is installed, and Reprise works with {' and '.join(SUPPORTED)}. "
            "Nothing was started. Run: pip install 'jupyter-reprise[dagger]'"
        )
    return version


def minor(version: str) -> str:
    """ "0.20" of "v0.20.1"; "" of what is no version."""
    found = re.match(r"v?(\d+\.\d+)\.", version)
    return found[1] if found else ""


def check_engine(engine: str, sdk: str) -> None:
    """Raises SandboxError when engine and library do not understand each other.

    They must be of one minor version: another one opens a session, runs, and then fails on the
    schema of an answer.
    """
    if minor(engine) == minor(sdk):
        return
    wanted = minor(engine)
    mend = (
        f"Run: pip install 'dagger-io=={wanted}.*'"
        if wanted in SUPPORTED
        else f"Use an engine of version {minor(sdk)}."
    )
    raise SandboxError(
        f"The Dagger engine has version {engine} and the library dagger-io {sdk}: both must be of "
        f"one minor version, and of one that Reprise knows ({', '.join(SUPPORTED)}). Nothing was "
        f"started. {mend}"
    )


def check_reachable(environ: Mapping[str, str] = os.environ) -> None:
    """Raises SandboxError when nobody listens where the engine should be. Blocks, for seconds.

    Dagger's client would try again for minutes, with somebody waiting. Of places that are not
    a socket (image://, kube-pod:// …) it knows more than we do.
    """
    named = environ.get(RUNNER_HOST, "")
    kind, _, place = named.partition("://")
    try:
        if kind == "unix":
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(_CONNECTING)
                sock.connect(place)
        elif kind in ("tcp", "tls"):
            host, _, port = place.partition("/")[0].rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), _CONNECTING).close()
    except (OSError, ValueError) as error:
        raise no_engine(str(error), environ) from error


def no_engine(why: str, environ: Mapping[str, str] = os.environ) -> SandboxError:
    """The error of an engine that cannot be reached."""
    where = environ.get(RUNNER_HOST)
    place = f"at {where}" if where else "that Dagger starts by itself in a container"
    return SandboxError(
        f"There is no Dagger engine to be reached {place}: {why}. Nothing was started. Start one, "
        f"or name another with {RUNNER_HOST}; `dagger core version` tries it alone."
    )


def client_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the broker and Dagger's client get of the host's variables."""
    passed = {
        name: value
        for name, value in environ.items()
        if _PASSED.fullmatch(name) and name not in _NEVER
    }
    return {**_QUIET, **passed}
