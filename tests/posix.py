"""Tests that fork, limit or kill processes are skipped on Windows, which has no such processes."""

import os

import pytest


def requires_posix() -> None:
    """Skip the test that calls this where there are no such processes."""
    if os.name != "posix":
        pytest.skip("processes are forked and killed as POSIX does")
