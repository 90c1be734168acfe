"""What some tests need and Windows lacks: processes that are forked, limited, and killed by signals."""

import os

import pytest


def requires_posix() -> None:
    """Skip the test that calls this where there are no such processes."""
    if os.name != "posix":
        pytest.skip("processes are forked and killed as POSIX does")
