"""Random sequences of everything a session can meet: state, files and log are what the model says.

REPRISE_LONG=1 runs other sequences each time, many and longer; REPRISE_EXAMPLES says how many.
REPRISE_SHRINK=1 makes a sequence that fails as short as it can be, which takes minutes.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fixtures.kernel import Kernels
from tests.model.machine import sessions

LONG = bool(os.environ.get("REPRISE_LONG"))
EXAMPLES = int(os.environ.get("REPRISE_EXAMPLES", "300" if LONG else "6"))
PHASES = (Phase.generate, *((Phase.shrink,) if os.environ.get("REPRISE_SHRINK") else ()))


@pytest.mark.timeout(0 if LONG else 900)
@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_whatever_happens_the_state_is_what_the_history_says(
    kernels: Kernels, backend: str
) -> None:
    run_state_machine_as_test(
        sessions(kernels, backend),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40 if LONG else 20,
            deadline=None,
            # The same sequences each time; those of a long run are printed when they fail.
            derandomize=not LONG,
            database=None,
            print_blob=True,
            # Every act speaks with a real kernel; none of that is hypothesis' time.
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            phases=PHASES,
            report_multiple_bugs=False,
        ),
    )
