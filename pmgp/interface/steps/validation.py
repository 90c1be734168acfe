"""Checks of a step method's arguments, and the words of its errors and warnings."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import pymc as pm

from pmgp.core.marginal.calibration import LARGE_SPREAD
from pmgp.core.numerics.arrays import is_whole
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError


def check_hyperparameters(vars: Any, model: pm.Model, parts: LatentGaussianModel, method: str) -> list[Any]:
    """Return all free variables except f, after checks that they are continuous, complete and no latent process."""
    if not parts.theta.values:
        raise ModelError(
            f"the model has no hyper-parameters besides {parts.latent_name!r}, which {method} does not move: leave it "
            "out, and sample with pmgp.EllipticalSlice() alone"
        )
    parts.checks.refuse_discrete()
    parts.checks.refuse_other_processes(model)
    if vars is None:
        return list(parts.theta.values)
    given = {model.rvs_to_values.get(v, v) for v in (vars if isinstance(vars, list | tuple) else [vars])}
    missing = [value.name for value in parts.theta.values if value not in given]
    foreign = [value.name for value in given if value not in parts.theta.values]
    if missing or foreign:
        raise ModelError(
            f"{method} updates all hyper-parameters together and not the latent vector; missing: "
            f"{', '.join(missing) or 'none'}, not its own: {', '.join(foreign) or 'none'}; leave vars out"
        )
    return list(parts.theta.values)


def latent_of(vars: Any, latent: Any, method: str) -> Any:
    """Return the variables that are to be f, given as `vars` or as `latent`, or None if neither is given."""
    if vars is None:
        return latent
    given = list(vars) if isinstance(vars, list | tuple) else [vars]
    if given and latent is None:
        return given[0] if len(given) == 1 else given
    names = ", ".join(getattr(variable, "name", str(variable)) for variable in given)
    raise ModelError(f"{method} updates latent vectors, but was given {names} (latent={latent}); leave one of them out")


def check_settings(latent_moves: int, refresh_every: int | None, transitions: int, delayed_acceptance: bool) -> None:
    """Refuse settings that are out of range."""
    if not isinstance(delayed_acceptance, bool | np.bool):
        raise ValueError(f"delayed_acceptance must be True or False, not {delayed_acceptance!r}")
    for name, value in (("latent_moves", latent_moves), ("transitions", transitions)):
        if not is_whole(value):
            raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
    if refresh_every is not None and not is_whole(refresh_every, 0):
        raise ValueError(f"refresh_every must be an integer and not negative, not {refresh_every!r}")


def moved_values(vars: Any, model: pm.Model, parts: LatentGaussianModel) -> list[Any]:
    """Return the value variables of theta that PseudoMarginal moves: the continuous ones in `vars`, by default all.

    Other step methods move the rest, on which f must not depend.
    """
    given = None if vars is None else _given_values(vars, model, parts)
    discrete = parts.theta.discrete
    moved = [v for v in parts.theta.values if v not in discrete and (given is None or v in given)]
    left = [value.name for value in parts.theta.values if value not in moved and value in parts.prior_values]
    if left:
        raise ModelError(
            f"the prior of {parts.latent_name!r} depends on {', '.join(left)}, which PseudoMarginal must move itself: "
            "add it to vars, or leave vars out. Other step methods can move only variables of the likelihood alone"
        )
    if not moved:
        raise ModelError(
            f"PseudoMarginal has no hyper-parameter to move beside {parts.latent_name!r}; use pmgp.EllipticalSlice()"
        )
    return moved


def _given_values(vars: Any, model: pm.Model, parts: LatentGaussianModel) -> set[Any]:
    """Return the value variables of the variables, or names of variables, that the user gives."""
    free = {rv.name: rv for rv in model.free_RVs}
    each = vars if isinstance(vars, list | tuple) else [vars]
    given = {model.rvs_to_values.get(rv, rv) for rv in (free.get(v, v) if isinstance(v, str) else v for v in each)}
    own = {model.rvs_to_values[rv] for rv in model.free_RVs} - set(parts.theta.discrete)
    foreign = [str(getattr(value, "name", value)) for value in given - own]
    if foreign:
        raise ModelError(
            f"PseudoMarginal moves continuous free variables of the model, which {', '.join(sorted(foreign))} is not: "
            "leave it out of vars"
        )
    return given


# Names for an estimator's draws.
DRAWS = {"ImportanceSampling": "importance sample", "SequentialSampling": "particle"}


def large_spread(draws: int, spread: float, estimator: str) -> str:
    """Return a warning that the chosen number of draws is not enough, with advice."""
    noun = DRAWS.get(estimator, "draw") + ("" if draws == 1 else "s")
    if not isfinite(spread):
        return (
            f"at some posterior points, the log of the estimated p(y|theta) with {draws} {noun} is not finite or "
            "varies without bound, so the chain will stick. If the likelihood has a scale, keep that away from zero, "
            "for instance with sigma = 0.01 + pm.math.exp(g); otherwise give more draws"
        )
    return (
        f"with {draws} {noun} the log of the estimated p(y|theta) still has a standard deviation of "
        f"{spread:.1f} (at most {LARGE_SPREAD} is good): the chain is exact but may stick. Give more of them, "
        f"estimator=pmgp.estimators.{estimator}(draws=...), and check R-hat and the trace of log_marginal_likelihood."
    )


def indefinite_proposals(count: int, draws: int) -> str:
    """Return a warning that covariances could not be factorized, with advice."""
    return (
        f"at {count} of {draws} proposals the covariance of f could not be factorized, or the noise was too small for "
        "double precision, and they were rejected; "
        'idata.sample_stats["indefinite"] says when. If they are many, raise the jitter of gp.prior(..., jitter=...), '
        "or give the noise a prior that is zero at zero"
    )


def unconverged_proposals(count: int, draws: int) -> str:
    """Return a warning that no approximation of the kind asked for was found at some proposals, with advice."""
    return (
        f"at {count} of {draws} proposals the approximation did not converge, and another one stood in for it: the "
        'chain is still exact, but may stick; idata.sample_stats["converged"] says when. If they are many, give '
        'approximation=pmgp.approximations.ExpectationPropagation(max_sweeps=200), or "laplace" if the likelihood is '
        "smooth"
    )
