"""A second seed for the scores of right samplers that come near a bound by chance."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["confirmed"]


def confirmed(score: Callable[[int], float], bound: float, seeds: tuple[int, int] = (1, 2)) -> float:
    """Return the first seed's score if it is within three quarters of the bound, and the second seed's otherwise.

    Of thousands of standardized differences a few exceed four although nothing is wrong, and which ones depends on
    rounding, and so on the machine. That those of two independent runs of one case do is so unlikely that it
    speaks of a mistake: a mistake's score is as large for any seed.

    Parameters
    ----------
    score : callable
        Of a seed: a standardized difference, zero or more.
    bound : float
        Of the score.
    seeds : pair of int
    """
    first, second = seeds
    found = score(first)
    return found if found < 0.75 * bound else score(second)
