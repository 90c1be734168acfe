"""Figures 2 and 3 of the article: the error on held-out rows over the time for which hyper-parameters are optimized.

All methods maximize log p(y|theta), or Laplace's approximation of it for labels, without a prior, from the article's
start. Theta is recorded on the way with processor seconds. Scores come afterwards, and cost the methods nothing: exact
predictions, and for labels those by Laplace's method, for all that approximate neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

import pmgp
from case_studies.tools.data import Data
from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import SMALLEST_PRECISION
from pmgp.core.iterative.gaussian import IterativeEvidence
from pmgp.core.iterative.laplace import IterativeLaplace
from pmgp.core.iterative.solvers import NotConvergedError
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.importance.targets import MarginalTarget
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.interface.iterative_laplace import LaplaceDensity
from pmgp.interface.maximum import Objective
from pmgp.interface.model.taking_apart import take_apart

__all__ = ["FOR_NUMBERS", "OPTIMIZERS", "Clock", "Path", "Problem", "climbed", "scored", "start_of", "thinned"]

NOISE = 0.1
"""The variance of the noise at the start, where the others are one."""
PROBES = 4
CHANGE = 1e-6
"""The mean squared change of f at which Newton's method ends, as in the authors' code."""
SMALLEST = 1e-12
QUICKLY = {"mode": INTERPRETED}
"""How PyTensor compiles, without a compiler of C."""

Path = list[tuple[float, np.ndarray]]
"""Processor seconds, and logs of length-scales, of the variance and, for numbers, of the variance of the noise."""


class Problem(NamedTuple):
    """A split of a data set, whether y are labels, and processor seconds for the optimization."""

    data: Data
    labels: bool
    budget: float

    def model(self) -> pm.Model:
        """Return the PyMC model, of which only the likelihood is used."""
        X, d = self.data.X, self.data.X.shape[1]
        with pm.Model() as model:
            lengthscale, variance = pm.LogNormal("lengthscale", shape=d), pm.LogNormal("variance")
            cov = variance * pm.gp.cov.ExpQuad(d, ls=lengthscale)
            if self.labels:
                f = pm.gp.Latent(cov_func=cov).prior("f", X=pm.Data("X", X), reparameterize=False)
                pmgp.BernoulliProbit("y", f, observed=self.data.y.astype(int))
            else:
                noise = pm.math.sqrt(pm.LogNormal("noise"))
                pm.gp.Marginal(cov_func=cov).marginal_likelihood("y", X=pm.Data("X", X), y=self.data.y, sigma=noise)
        return model


def start_of(problem: Problem) -> np.ndarray:
    """Return the start that all methods have in common: zeros, and the log of the noise for numbers."""
    zeros = np.zeros(problem.data.X.shape[1] + 1)
    return zeros if problem.labels else np.append(zeros, np.log(NOISE))


class _Elements(NamedTuple):
    """Places of length-scales, variance and noise in the vectors of a model, whose order is its own."""

    order: np.ndarray

    @classmethod
    def of(cls, theta: Any, problem: Problem) -> _Elements:
        """Find the places, by numbers that say where they are."""
        d = problem.data.X.shape[1]
        known = {"lengthscale_log__": np.arange(float(d)), "variance_log__": float(d), "noise_log__": d + 1.0}
        named = {value.name: np.asarray(known[value.name]) for value in theta.values}
        return cls(np.argsort(theta.ravel(named)))

    def own(self, theta: np.ndarray) -> np.ndarray:
        """Return a vector in the model's order."""
        found = np.empty_like(theta)
        found[self.order] = theta
        return found

    def common(self, own: np.ndarray) -> np.ndarray:
        """Return a vector in the order of a path."""
        return own[self.order]


class Clock:
    """Processor seconds, and the path until they are used up."""

    def __init__(self, budget: float, start: np.ndarray) -> None:
        self._first, self._budget = time.process_time(), budget
        self.path: Path = [(0.0, start)]

    def passed(self, theta: np.ndarray) -> bool:
        """Add theta to the path; return whether the budget is used up."""
        seconds = time.process_time() - self._first
        self.path.append((seconds, theta.copy()))
        return seconds >= self._budget


def by_factorization(problem: Problem, seed: int) -> Path:
    """Climb with L-BFGS, each value and gradient from a factorization."""
    model = problem.model()
    function: Callable[[np.ndarray], tuple[float, np.ndarray]]
    if problem.labels:
        parts = take_apart(model, compile_kwargs=QUICKLY)
        parts.compile_theta_gradient()
        theta, function = parts.theta, Objective(model, parts, Laplace(tolerance=1e-8), prior=False)
    else:
        target = MarginalTarget(model, model["y"])
        theta, function = target.theta, target.evidence
    places = _Elements.of(theta, problem)
    start = places.own(start_of(problem))
    # The first call compiles.
    function(start)
    clock = Clock(problem.budget, start_of(problem))

    def negative(at: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = function(at)
        return -value, -gradient

    def callback(intermediate_result: Any) -> None:
        if clock.passed(places.common(intermediate_result.x)):
            raise StopIteration

    minimize(negative, start, jac=True, method="L-BFGS-B", callback=callback)
    return clock.path


def by_solutions(problem: Problem, seed: int, rank: int) -> Path:
    """Climb with AdaGrad along gradients with fresh probes, at the article's step of one.

    The preconditioner has fresh points for each theta. The path ends where a system is not solved.
    """
    n = len(problem.data.y)
    density: Any
    if problem.labels:
        density = LaplaceDensity(problem.model(), rank, IterativeLaplace(CHANGE, PROBES, cap=n), None, QUICKLY)
    else:
        density = IterativeDensity(problem.model(), rank, IterativeEvidence(probes=PROBES, cap=n))
    places, rng = _Elements.of(density.theta, problem), np.random.default_rng(seed)
    theta, squares = places.own(start_of(problem)), np.zeros(len(start_of(problem)))
    # The first call compiles.
    density.gradient(theta, density.estimate(rng, theta))
    clock, done = Clock(problem.budget, start_of(problem)), False
    while not done:
        try:
            gradient = density.gradient(theta, density.estimate(rng, theta))
        except NotConvergedError:
            break
        squares += gradient**2
        theta = theta + gradient / np.sqrt(np.maximum(squares, SMALLEST))
        done = clock.passed(places.common(theta))
    return clock.path


def by_find_map(problem: Problem, seed: int) -> Path:
    """Return the maximum that `pmgp.find_map` finds by solutions, without a budget, and with all that it compiles."""
    start = start_of(problem)
    clock = Clock(problem.budget, start)
    point = {"lengthscale": 1.0, "variance": 1.0, "noise": NOISE}
    found = pmgp.find_map(problem.model(), prior=False, solver="iterative", start=point).point
    clock.passed(np.log(np.concatenate([np.atleast_1d(found[name]) for name in point])))
    return clock.path


def by_gpytorch(problem: Problem, seed: int) -> Path:
    """Climb with Adam along GPyTorch's gradients from conjugate gradients, with its defaults and a step of .1."""
    import gpytorch
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    X, y = (torch.as_tensor(given, dtype=torch.float64) for given in (problem.data.X, problem.data.y))
    d, likelihood = X.shape[1], gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = NOISE

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        """A process with mean zero, and the other methods' covariance."""

        def __init__(self) -> None:
            super().__init__(X, y, likelihood)
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=d))
            self.kernel.outputscale, self.kernel.base_kernel.lengthscale = 1.0, 1.0

        def forward(self, x: Any) -> Any:
            """Return the prior of f."""
            return gpytorch.distributions.MultivariateNormal(x.new_zeros(len(x)), self.kernel(x))

    process = Process().double().train()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood.double().train(), process)
    adam, clock = torch.optim.Adam(process.parameters(), lr=0.1), Clock(problem.budget, start_of(problem))
    done = False
    # Up to 800 points it would factorize.
    with gpytorch.settings.max_cholesky_size(0):
        while not done:
            adam.zero_grad()
            (-evidence(process(X), y)).backward()
            adam.step()
            parts = process.kernel.base_kernel.lengthscale[0], process.kernel.outputscale, likelihood.noise[0]
            done = clock.passed(torch.hstack(parts).log().detach().numpy())
    return clock.path


def _preconditioned(problem: Problem, seed: int) -> Path:
    return by_solutions(problem, seed, int(4 * np.sqrt(len(problem.data.y))))


OPTIMIZERS: dict[str, Callable[[Problem, int], Path]] = {
    "CHOL": by_factorization,
    "PCG": _preconditioned,
    "CG": lambda problem, seed: by_solutions(problem, seed, 1),
    "find_map": by_find_map,
    "GPyTorch": by_gpytorch,
}
FOR_NUMBERS = ("find_map", "GPyTorch")
"""Optimizers that are run for numbers only."""


def climbed(problem: Problem, method: str, seed: int) -> Path:
    """Return the path of one of :data:`OPTIMIZERS`."""
    return OPTIMIZERS[method](problem, seed)


def thinned(path: Path, most: int) -> list[int]:
    """Return the places of `most` points or fewer, about evenly spaced in the log of the seconds; both ends stay."""
    if len(path) <= most:
        return list(range(len(path)))
    seconds = np.array([second for second, _ in path[1:]])
    wanted = np.geomspace(seconds[0], seconds[-1], most - 1)
    return sorted({0, len(path) - 1} | {1 + int(np.argmin(np.abs(seconds - one))) for one in wanted})


# ---- scores


def scored(problem: Problem, theta: np.ndarray) -> dict[str, float]:
    """Return the error and the mean negative log density of held-out rows, at one theta."""
    y_new = problem.data.y_new
    if problem.labels:
        mean, variance = _conditional(problem, theta, *_working(problem, theta))
        return of_labels(mean / np.sqrt(1.0 + variance), y_new)
    noise = np.full(len(problem.data.y), np.exp(theta[-1]))
    mean, variance = _conditional(problem, theta, problem.data.y, noise)
    return of_numbers(mean, variance + noise[0], y_new)


def of_numbers(mean: np.ndarray, variance: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Score normal predictions."""
    density = -0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)
    return {"error": float(np.sqrt(np.mean((y - mean) ** 2))), "nll": -float(density.mean())}


def of_labels(margin: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Score probabilities of ones, Phi(margin)."""
    error = np.mean((ndtr(margin) > 0.5) != (y == 1))
    return {"error": float(error), "nll": -float(log_ndtr(np.where(y == 1, margin, -margin)).mean())}


def covariance(theta: np.ndarray, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return the squared exponential covariance between two sets of inputs."""
    d = X.shape[1]
    scale = np.exp(-theta[:d])
    return np.exp(theta[d] - 0.5 * cdist(X * scale, Z * scale, "sqeuclidean"))


def _conditional(
    problem: Problem, theta: np.ndarray, target: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the variance of f at held-out rows, given observations of f with normal noise."""
    C = covariance(theta, problem.data.X, problem.data.X)
    np.einsum("ii->i", C)[:] += noise
    factor = cho_factor(C, lower=True, overwrite_a=True, check_finite=False)
    between = covariance(theta, problem.data.X, problem.data.X_new)
    explained = np.einsum("ij,ij->j", between, cho_solve(factor, between))
    prior = np.exp(theta[problem.data.X.shape[1]])
    return between.T @ cho_solve(factor, target), np.maximum(prior - explained, SMALLEST * prior)


def _working(problem: Problem, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return observations of f with normal noise of their own, whose posterior is Laplace's approximation."""
    K, signs = covariance(theta, problem.data.X, problem.data.X), 2.0 * problem.data.y - 1.0
    f, change = np.zeros(len(signs)), np.inf
    while change > 0.01 * CHANGE:
        margin = signs * f
        ratio = np.exp(norm.logpdf(margin) - log_ndtr(margin))
        noise = 1.0 / np.maximum(ratio * (ratio + margin), SMALLEST_PRECISION)
        target = f + signs * ratio * noise
        reached = K @ cho_solve(cho_factor(K + np.diag(noise), lower=True, check_finite=False), target)
        change, f = float(np.mean((reached - f) ** 2)), reached
    return target, noise
