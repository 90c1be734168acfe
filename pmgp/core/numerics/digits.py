"""Numbers in messages that say that one exceeds another."""

from __future__ import annotations

MOST = 12


def above(value: float, limit: float, digits: int) -> str:
    """Return a number with so many decimals, or with as many as it takes to show that it exceeds a limit."""
    for decimals in range(digits, MOST):
        text = f"{value:.{decimals}f}"
        if not value > limit or float(text) > limit:
            return text
    return repr(float(value))
