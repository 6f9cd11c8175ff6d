"""A home of the demo's own, so that it leaves nothing in anybody's log, catalog and policies."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from reprise.log.embedded import Server
from reprise.settings import DSN, ENVIRONMENT, HOME, SESSION

#: What would lead to a person's own log, environment or model.
_PERSONAL: Final = (
    DSN,
    ENVIRONMENT,
    SESSION,
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_PROFILE",
)
#: A proxy of the network is not asked for what listens on this machine.
_DIRECT: Final = ("NO_PROXY", "no_proxy")


@contextlib.asynccontextmanager
async def own_home(*, keep: bool) -> AsyncIterator[Path]:
    """A folder in which everything of the demo lies while the block runs; kept after it, or not.

    Its database is stopped at the end. The variables of this process are as before then.
    """
    folder = Path(tempfile.mkdtemp(prefix="reprise-demo-"))
    home = folder / "home"
    before = {name: os.environ.get(name) for name in (HOME, *_PERSONAL, *_DIRECT)}
    for name in _PERSONAL:
        os.environ.pop(name, None)
    for name in _DIRECT:
        os.environ[name] = ",".join(filter(None, (before[name], "127.0.0.1")))
    os.environ[HOME] = str(home)
    try:
        yield folder
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        await Server(home).stop()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
