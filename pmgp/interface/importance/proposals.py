"""The proposal of importance sampling: t distributions at the maxima of theta's posterior.

For many multivariate normal observations, gradients from solutions of linear systems lead near the maximum, and those
from factorizations give the curvature and the last step there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pymc as pm

from pmgp.core.importance import (
    Maximum,
    SplitMixture,
    SplitStudent,
    all_maxima,
    curvature,
    dispersed,
    peak,
    polished,
    student_at,
)
from pmgp.core.iterative.settings import Iterative
from pmgp.core.iterative.solvers import IndefiniteMatrixError, NotConvergedError
from pmgp.interface.climbing import LARGEST_FACTORIZED, Climbing, density_of
from pmgp.interface.importance.progress import shown
from pmgp.interface.importance.targets import MarginalTarget, Target
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.points import value_point

# Iterations of BFGS along estimated gradients.
MOST_ITERATIONS = 200
# Observations whose posterior's maximum is a starting point, where there are at least four times as many; numbers of
# climbs from such points, and of those from dispersed ones for each hyper-parameter. For 2,500 observations and eleven
# hyper-parameters, with two maxima, half of the former find the second maximum, and a sixth of the latter.
SUBSET, FROM_SUBSETS, DISPERSED_EACH = 250, 8, 2


def proposal_at_maxima(
    model: pm.Model,
    target: Target,
    start: dict[str, Any] | None,
    rng: np.random.Generator,
    climbs: int | None,
    compile_kwargs: dict[str, Any] | None,
    progressbar: bool,
) -> SplitMixture:
    """Return t distributions at the maxima; warn if the search for the first ended before a maximum.

    By default, `climbs` is eight, or twice the number of hyper-parameters, see `importance`.

    Raises ValueError if the density is not finite at the start.
    """
    # Compiled where it is first asked for, once for the first maximum and for those of subsets.
    by_solutions = cache(partial(density_of, model, target.size, Iterative(), compile_kwargs))
    student = _at_first_maximum(model, target, start, by_solutions, progressbar)
    first = Maximum(target.value(student.center), student)
    if climbs == 0:
        return SplitMixture.about([first])
    with shown(target.density, "Looking for other maxima", progressbar) as density:
        starts = _of_subsets(target, student.center, rng, climbs, by_solutions)
        if starts is None:
            starts = iter(dispersed(rng, student, DISPERSED_EACH * student.dimension if climbs is None else climbs))
        return SplitMixture.about(all_maxima(density, [first], starts))


def _of_subsets(
    target: Target,
    theta: np.ndarray,
    rng: np.random.Generator,
    climbs: int | None,
    by_solutions: Callable[[], IterativeDensity],
) -> Iterator[np.ndarray] | None:
    """Return maxima of the posteriors of some of many multivariate normal observations; None for other models.

    They are as far from the maximum for all observations as such posteriors are wide, in all plausible directions.
    """
    if not isinstance(target, MarginalTarget) or target.size < 4 * SUBSET:
        return None
    try:
        density = by_solutions()
        density.of_subset(theta, np.arange(1))
    except (ModelError, MemoryError):
        return None
    number = FROM_SUBSETS if climbs is None else climbs
    subsets = [rng.permutation(target.size)[:SUBSET] for _ in range(number)]
    return (peak(partial(density.of_subset, chosen=chosen), theta).theta for chosen in subsets)


def _at_first_maximum(
    model: pm.Model,
    target: Target,
    start: dict[str, Any] | None,
    by_solutions: Callable[[], IterativeDensity],
    progressbar: bool,
) -> SplitStudent:
    near = None
    if isinstance(target, MarginalTarget) and target.by_numpy and target.size > LARGEST_FACTORIZED:
        near = _near_maximum(model, target, start, by_solutions, progressbar)
    with shown(target.density, "Looking for the maximum", progressbar) as density:
        if near is not None:
            end = polished(density, near)
            if end is not None:
                return student_at(end.theta, end.curvature)
        found = peak(density, target.ravel(value_point(model, start)) if near is None else near)
        student = student_at(found.theta, curvature(density, found.theta))
    if not found.converged:
        warnings.warn(
            f"the search for the maximum of the posterior ended after {found.evaluations} evaluations: "
            f"{found.message}; the weights show whether the proposal is good enough",
            stacklevel=5,
        )
    return student


def _near_maximum(
    model: pm.Model,
    target: MarginalTarget,
    start: dict[str, Any] | None,
    by_solutions: Callable[[], IterativeDensity],
    progressbar: bool,
) -> np.ndarray | None:
    """Return theta near the maximum, or None if solutions of linear systems cannot lead there."""
    try:
        density = by_solutions()
        climbing = Climbing(density, density.log_prior)
        with climbing.shown(progressbar):
            return climbing.climb(
                None if start is None else target.ravel(value_point(model, start)), MOST_ITERATIONS
            ).theta
    except (ModelError, MemoryError, NotConvergedError, IndefiniteMatrixError):
        return None
