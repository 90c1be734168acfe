"""Why parameterizations differ: what theta is free to do when f, nu or surrogate data are held fixed.

Figure 1 of the pseudo-marginal article, computed. The model has one unknown, the logarithm of a length-scale that all
inputs share, so that each density can be evaluated on a grid and normalized.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from case_studies.parameterizations.problems import OBSERVE, Problem, covariance_model, latent_from_prior, uniform
from case_studies.tools import simulation
from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.estimators.importance import WeightedParticles
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import Likelihood
from pmgp.core.numerics.threads import threads_limited
from pmgp.core.theta_updates.densities import AncillaryDensity, JointState, LatentPart, SufficientDensity, ThetaDensity
from pmgp.core.theta_updates.surrogate import SurrogateDensity
from pmgp.interface.model.derivatives import DifferentiableLatentModel

__all__ = ["GRID", "Picture", "conditionals", "logistic_problem", "moments", "shares"]

GRID = np.linspace(-3.0, 0.0, 501)
"""Logarithms of the length-scale."""

Make = Callable[[DifferentiableLatentModel, JointState, np.random.Generator], ThetaDensity]
DENSITIES: dict[str, Make] = {
    "SA": lambda model, current, rng: SufficientDensity(model, current),
    "AA": lambda model, current, rng: AncillaryDensity(model, current),
    "SURR": lambda model, current, rng: SurrogateDensity(model, current, rng.standard_normal(current.latent.f.size)),
}


class Picture(NamedTuple):
    """Densities of theta on a grid of g values, each with integral one.

    Attributes
    ----------
    grid : (g,) array
    marginal : (g,) array
        Given y alone.
    given : dict of str to (draws, g) array
        Given f (SA), nu (AA) or surrogate data (SURR) as well, for draws of theta and f from the posterior.
    theta : (draws,) array
    """

    grid: np.ndarray
    marginal: np.ndarray
    given: dict[str, np.ndarray]
    theta: np.ndarray


class _OnGrid:
    """A model that keeps what it has computed at each theta: all densities are evaluated on the same grid."""

    def __init__(self, model: DifferentiableLatentModel) -> None:
        self.model = model
        self._priors: dict[bytes, DensePrior] = {}

    def log_prior(self, theta: np.ndarray) -> float:
        return self.model.log_prior(theta)

    def prior(self, theta: np.ndarray) -> DensePrior:
        key = theta.tobytes()
        if key not in self._priors:
            factorized = self.model.prior(theta).factorized()
            assert factorized is not None
            self._priors[key] = factorized
        return self._priors[key]

    def likelihood(self, theta: np.ndarray) -> Likelihood:
        return self.model.likelihood(theta)


def logistic_problem(n: int, d: int, log_lengthscale: float, rng: np.random.Generator) -> Problem:
    """Simulated logistic classification with one length-scale, which is to be inferred; the variance is known."""
    X = rng.uniform(size=(n, d))
    K = simulation.covariance(X, np.full(d, log_lengthscale))
    f = DensePrior(np.zeros(n), K).sample(rng, 1)[0]
    observe = OBSERVE["LRG"](simulation.likelihood("LRG", f, rng))
    model = covariance_model(X, observe, simulation.VARIANCE, isotropic=True)
    return Problem(model, uniform, latent_from_prior)


# Threads of BLAS that wait for each other take minutes where another program keeps a core busy.
@threads_limited(1)
def conditionals(
    problem: Problem,
    draws: int,
    rng: np.random.Generator,
    grid: np.ndarray = GRID,
    importance_draws: int = 400,
) -> Picture:
    """Compute the picture.

    Parameters
    ----------
    problem : Problem
        With one hyper-parameter.
    draws : int
        Number of draws of theta and f from the posterior, each of which gives one density of every kind.
    rng : numpy.random.Generator
    grid : (g,) array
        Equally spaced, and wide enough for all of the posterior.
    importance_draws : int
        Behind the marginal density at each point of the grid, from the same normal variables at all of them: the error
        that is left does not make it ragged.
    """
    remembered, points = _OnGrid(problem.model), grid[:, None]
    seed = int(rng.integers(2**32))
    estimates = [_estimate(remembered, point, np.random.default_rng(seed), importance_draws) for point in points]
    log_priors = np.array([problem.model.log_prior(point) for point in points])
    marginal = _normalized(log_priors + [estimate.log_evidence for estimate in estimates], grid)
    chosen = rng.choice(len(grid), size=draws, p=marginal / marginal.sum())
    currents = [_current(remembered, points[index], estimates[index].choose(rng)) for index in chosen]
    given = {
        name: np.stack([_density(make(remembered, current, rng), grid) for current in currents])
        for name, make in DENSITIES.items()
    }
    return Picture(grid, marginal, given, grid[chosen])


def _estimate(model: _OnGrid, theta: np.ndarray, rng: np.random.Generator, draws: int) -> WeightedParticles:
    """An unbiased estimate of p(y|theta), with particles whose weights make them draws of f given theta and y."""
    likelihood, approximation = model.likelihood(theta), Laplace()
    fitted = approximation.refine(approximation.fit(model.prior(theta), likelihood), likelihood)
    return ImportanceSampling(draws).estimate(rng, fitted, likelihood)


def _current(model: _OnGrid, theta: np.ndarray, f: np.ndarray) -> JointState:
    return JointState(theta, LatentPart(model.prior(theta), f))


def _density(density: ThetaDensity, grid: np.ndarray) -> np.ndarray:
    return _normalized(np.array([density.at(point).log_density for point in grid[:, None]]), grid)


def _normalized(log_density: np.ndarray, grid: np.ndarray) -> np.ndarray:
    density = np.exp(log_density - log_density.max())
    return density / np.trapezoid(density, grid)


def moments(density: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of densities (..., g) on a grid."""
    mean = np.trapezoid(density * grid, grid)
    return mean, np.trapezoid(density * np.square(grid - mean[..., None]), grid)


def shares(picture: Picture) -> pd.DataFrame:
    """The best that an update of theta can do in each parameterization.

    With exact draws of theta given the rest and of the rest given theta in turn, theta's lag-one autocorrelation is
    r = Var E(theta|rest) / Var(theta): one minus the share of the variance that is left given the rest. The chain of
    theta is reversible with a positive spectrum, and (1 + x) / (1 - x) is convex, so that one independent draw takes at
    least (1 + r) / (1 - r) = 2 / share - 1 iterations.
    """
    _, total = moments(picture.marginal, picture.grid)
    rows = {}
    for name, densities in picture.given.items():
        _, variances = moments(densities, picture.grid)
        share = float(variances.mean() / total)
        rows[name] = {
            "standard deviation": float(np.sqrt(variances).mean()),
            "share of the variance": share,
            "lag-one autocorrelation": 1.0 - share,
            "iterations per independent draw, at least": 2.0 / share - 1.0,
        }
    rows["marginal"] = {
        "standard deviation": float(np.sqrt(total)),
        "share of the variance": 1.0,
        "lag-one autocorrelation": 0.0,
        "iterations per independent draw, at least": 1.0,
    }
    return pd.DataFrame(rows).T
