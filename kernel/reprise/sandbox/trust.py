"""Which code may run where nothing isolates it: the code of skills only when somebody said so."""

from __future__ import annotations

import os
from collections.abc import Mapping

from reprise.errors import UntrustedCode
from reprise.log.model import SKILLS
from reprise.settings import RUN_UNTRUSTED


def check_trust(target: str, *, trusted: bool, environ: Mapping[str, str] = os.environ) -> None:
    """For use where no wall is: raises UntrustedCode for a skill that nobody vouches for."""
    if not target.startswith(SKILLS) or trusted or environ.get(RUN_UNTRUSTED) == "yes":
        return
    raise UntrustedCode(
        f"{target!a} was not mounted: it brings code that nobody here has vouched for, and the "
        "backend `process` has no wall: that code would run as you, with your files, your network "
        "and your keys. What was mounted before stays. Run this session in a sandbox: unset "
        "REPRISE_BACKEND (`reprise doctor` says what this machine can do and what it lacks). Or "
        "look at it and vouch for exactly this content: `reprise skills trust`. "
        f"To run it here all the same, set {RUN_UNTRUSTED}=yes where the kernel starts."
    )
