"""What an operator sets reaches the kernels, and nothing else does."""

from __future__ import annotations

import pytest
from traitlets import TraitError
from traitlets.config import Config

from reprise_server.settings import Reprise


def test_what_is_set_in_the_server_config_reaches_the_kernels_variables() -> None:
    config = Config({"Reprise": {"backend": "process", "dsn": "postgresql:///reprise"}})
    environ = {"REPRISE_BACKEND": "bubblewrap", "REPRISE_HOME": "/srv/reprise"}
    Reprise(config=config).apply(environ)
    assert environ == {
        "REPRISE_BACKEND": "process",
        "REPRISE_DSN": "postgresql:///reprise",
        "REPRISE_HOME": "/srv/reprise",
    }


def test_a_value_of_the_wrong_type_is_refused_by_name() -> None:
    with pytest.raises(TraitError, match="backend"):
        Reprise(config=Config({"Reprise": {"backend": 7}}))
