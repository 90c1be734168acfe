"""The proposal of importance sampling: t distributions at the maxima of theta's posterior.

For many multivariate normal observations, these are followed from the maxima for some of them.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pymc as pm

from pmgp.core.importance import Maximum, SplitMixture, all_maxima, curvature, dispersed, peak, student_at
from pmgp.interface.importance.progress import shown
from pmgp.interface.importance.rows import Rows
from pmgp.interface.importance.targets import MANY, MarginalTarget, Target
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.points import value_point

# Climbs from dispersed points for each hyper-parameter, by default.
DISPERSED_EACH = 2


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

    By default, `climbs` is eight, or twice the number of hyper-parameters; see `importance`.

    Raises ValueError if the density is not finite at the start.
    """
    theta, found = target.ravel(value_point(model, start)), list[Maximum]()
    rows = _rows(model, target, rng, compile_kwargs)
    if rows is not None:
        # What some of the observations cannot tell, all of them may.
        with suppress(ValueError):
            found = rows.maxima(theta, start is None, climbs, progressbar)
    return SplitMixture.about(found or _maxima(target, theta, rng, climbs, progressbar))


def _rows(
    model: pm.Model, target: Target, rng: np.random.Generator, compile_kwargs: dict[str, Any] | None
) -> Rows | None:
    """Return the posteriors of some of many multivariate normal observations; None for other models."""
    if not isinstance(target, MarginalTarget) or target.size < MANY:
        return None
    try:
        density = IterativeDensity(model, compile_kwargs=compile_kwargs)
    except ModelError:
        return None
    return Rows(density.of_rows, density.log_prior, target, rng)


def _maxima(
    target: Target, theta: np.ndarray, rng: np.random.Generator, climbs: int | None, progressbar: bool
) -> list[Maximum]:
    """Return the maximum that a climb finds, and others that climbs from dispersed points do."""
    with shown(target.density, "Looking for the maximum", progressbar) as density:
        found = peak(density, theta)
        student = student_at(found.theta, curvature(density, found.theta))
    if not found.converged:
        warnings.warn(
            f"the search for the maximum of the posterior ended after {found.evaluations} evaluations: "
            f"{found.message}; the weights show whether the proposal is good enough",
            stacklevel=5,
        )
    first = [Maximum(target.value(student.center), student)]
    with shown(target.density, "Looking for other maxima", progressbar) as density:
        starts = dispersed(rng, student, DISPERSED_EACH * student.dimension if climbs is None else climbs)
        return all_maxima(density, first, starts, target.value)
