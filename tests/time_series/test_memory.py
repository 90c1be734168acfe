"""A series of ten thousand counts needs little memory above PyMC's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.memory import SAMPLING, peaks

LIMIT = 300.0
FEW = SAMPLING.replace("draws=50, tune=100", "draws=5, tune=20")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read as Linux tells it")
def test_the_peak_of_a_run_is_limited():
    """A single matrix of the size that a dense prior has would exceed the limit."""
    before, sampled, with_matrix = peaks(10_000, FEW, "np.ones((10_000, 10_000))", mode="FAST_COMPILE")
    assert sampled - before < LIMIT
    assert with_matrix - sampled > 2.0 * LIMIT
