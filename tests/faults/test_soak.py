"""The short form of the soak (benchmarks/soak.py): random kills at random moments."""

from __future__ import annotations

import pytest
from benchmarks.soak import BACKENDS, soak


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_promise_is_broken_by_random_kills(backend: str) -> None:
    tally = soak(20, 3, backend, lambda _: None)
    assert tally.violations == []
    assert tally.total >= 20
