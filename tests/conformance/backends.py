"""The backends that the conformance suite runs on here, as the matrix names them."""

from __future__ import annotations

import pytest

from tests.fixtures.sandbox import AS_ORDINARY_USER, usable

#: As an ordinary user without what shares everything with that user.
ISOLATING = ["bubblewrap", "oci-crun", "oci-runc", "oci-runsc"]
if not AS_ORDINARY_USER:
    ISOLATING.append("dagger")
BACKENDS = ISOLATING if AS_ORDINARY_USER else ["bubblewrap", "process", *ISOLATING[1:]]


def backend_of(request: pytest.FixtureRequest) -> str:
    """The name that `reprise.sandbox.backends.backend` takes for a test's parameter."""
    if request.param == "dagger":
        request.getfixturevalue("dagger")
        return "dagger"
    name = str(request.param).replace("oci-", "oci:")
    if why_not := usable(name):
        pytest.skip(why_not)
    return name
