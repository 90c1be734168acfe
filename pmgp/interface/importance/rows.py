"""Maxima of the posterior given many observations, from those given some of them, and then ever more.

The time of a gradient grows with the cube of the number of observations. So all maxima are looked for while there are
few, and followed as observations are added, first with the curvature in proportion to their number. The last climbs are
short, unless all observations show what half of them do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import pairwise

import numpy as np

from pmgp.core.importance import Density, Maximum, SplitStudent, Start, all_maxima, curvature, peak, scale_at
from pmgp.interface.importance.progress import shown
from pmgp.interface.importance.targets import MarginalTarget

# Observations whose maxima are starting points, and by default how many such points there are. For 2,500 observations
# and eleven hyper-parameters, with two maxima, half of such climbs find the second one, and a sixth of those from
# dispersed points.
FEW, CLIMBS = 250, 8
# Most observations given which all maxima are looked for.
SEARCHED = 4_000


class Rows:
    """The posteriors given some observations, in an order at random.

    - `given`: the numbers of some observations -> the log-density of theta given these, with its gradient, which is
      estimated if it is `probed`
    - `log_prior`: the part of these densities that does not depend on observations
    - `target`: the posterior given all of them
    """

    def __init__(
        self,
        given: Callable[..., Density],
        log_prior: Density,
        target: MarginalTarget,
        rng: np.random.Generator,
    ) -> None:
        self._given, self._log_prior, self._target, self._rng = given, log_prior, target, rng
        self._order = rng.permutation(target.size)
        # Other libraries have matrices for all observations only.
        first, *others = sizes(target.size)
        self._sizes = [first, *(others if target.by_numpy else others[-1:])]

    def maxima(self, theta: np.ndarray, climbing: bool, climbs: int | None, progressbar: bool) -> list[Maximum]:
        """Return the maxima given all observations, found from those given few; none if climbs ended elsewhere.

        The first climb begins at the maximum given few observations, or at `theta` itself. `climbs` others look for
        other maxima, eight by default.
        """
        found = self._searched(theta, climbing, climbs, progressbar)
        for before, size in pairwise(self._sizes):
            found = self._followed(found, before, size, progressbar)
        return found

    def _searched(self, theta: np.ndarray, climbing: bool, climbs: int | None, progressbar: bool) -> list[Maximum]:
        """Return all maxima that climbs find given the first of `sizes`."""
        given_few, size = self._given(self._order[:FEW]), self._sizes[0]
        at = peak(given_few, theta).theta if climbing else theta
        start = self._scaled(at, curvature(given_few, at), size / FEW)
        with self._shown(size, progressbar) as density:
            first = all_maxima(density, [], [start], self._value(size))
            others = self._others(first[0].student, climbs) if first else ()
            return all_maxima(density, first, others, self._value(size))

    def _followed(self, found: list[Maximum], before: int, size: int, progressbar: bool) -> list[Maximum]:
        """Return the maxima that climbs from those given fewer observations find, from the highest one first."""
        students = [one.student for one in sorted(found, key=lambda one: -one.value)]
        starts = [self._scaled(one.center, np.linalg.inv(one.scale), size / before) for one in students]
        # Where the curvature given half of the observations is known, BFGS knows enough of that given all.
        differences = size < self._target.size or size > 2 * before + 1
        with self._shown(size, progressbar) as density:
            return all_maxima(density, [], starts, self._value(size), differences)

    def _shown(self, size: int, progressbar: bool) -> AbstractContextManager[Density]:
        return shown(self._density(size), f"Maxima given {size} observations", progressbar)

    def _density(self, size: int) -> Density:
        """Return the posterior given the first observations, for climbs."""
        return self._target.climbed if size == self._target.size else self._given(self._order[:size], probed=True)

    def _value(self, size: int) -> Callable[[np.ndarray], float] | None:
        """Return the density without its gradient, if it is given all observations."""
        return self._target.value if size == self._target.size else None

    def _scaled(self, theta: np.ndarray, curved: np.ndarray, ratio: float) -> Start:
        """Return a start given `ratio` times as many observations, with which the likelihood's curvature grows."""
        of_prior = curvature(self._log_prior, theta)
        return Start(theta, scale_at(of_prior + ratio * (curved - of_prior)))

    def _others(self, first: SplitStudent, climbs: int | None) -> Iterator[Start]:
        """Return maxima given few observations, other ones each time.

        They are as far from the maximum given all as such posteriors are wide, in all plausible directions.
        """
        for _ in range(CLIMBS if climbs is None else climbs):
            chosen = self._rng.permutation(self._target.size)[:FEW]
            yield Start(peak(self._given(chosen), first.center).theta, first.scale)


def sizes(size: int) -> list[int]:
    """Return numbers of observations in ascending order, each half of the next."""
    return [*sizes(size // 2), size] if size > SEARCHED else [size]
