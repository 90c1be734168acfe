"""How far bounds on inducing inputs are from the evidence, and what that does to the posterior of theta.

The evidence and both bounds at each point of a grid of log theta: v integrated out by importance samples from the
Gaussian at its mode, which is exact for Gaussian noise. With an inducing input for each point a bound is the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from scipy.special import logsumexp

import pmgp
from benchmarks.sparse import coal
from pmgp.core.inducing import fitted
from pmgp.interface.sparse.parts import SparseParts

__all__ = ["PROBLEMS", "Problem", "rows"]


class Problem(NamedTuple):
    """Data with a grid of the logarithms of its hyper-parameters, whose priors are normal about the middles.

    Attributes
    ----------
    X : (n, d) array
    y : (n,) array
    cov_func : callable
        From the dimension and a length-scale to a covariance function.
    dist : callable
        From latent values, and a noise where there is one, to a distribution.
    grid : dict of arrays
        Values of the logarithms of "lengthscale", "variance" and maybe "noise".
    inducing : tuple of int
        Numbers of inducing inputs.
    draws : int
        Importance samples.
    """

    X: np.ndarray
    y: np.ndarray
    cov_func: Callable[..., Any]
    dist: Callable[..., Any]
    grid: dict[str, np.ndarray]
    inducing: tuple[int, ...]
    draws: int

    def model(self, Z: np.ndarray, scaled: bool) -> pm.Model:
        """With these inducing inputs."""
        with pm.Model() as model:
            priors = {name: (values.mean(), 1.0) for name, values in self.grid.items()}
            theta = {name: pm.LogNormal(name, *prior) for name, prior in priors.items()}
            cov_func = theta["variance"] * self.cov_func(self.X.shape[1], ls=theta["lengthscale"])
            process = pmgp.gp.Sparse(cov_func=cov_func, scaled_conditional=scaled)
            f = process.prior("f", X=self.X, Xu=Z)
            noise = [theta["noise"]] if "noise" in theta else []
            process.observe("y", f, *noise, dist=self.dist, observed=self.y)
        return model


def noisy(n: int, d: int, cov_func: Any, lengthscale: float, inducing: tuple[int, ...]) -> Problem:
    """Draws of a process of variance 1 with noise of deviation 0.5, at standard normal inputs."""
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d))
    K = cov_func(d, ls=lengthscale)(X).eval() + 1e-8 * np.eye(n)
    y = np.linalg.cholesky(K) @ rng.standard_normal(n) + 0.5 * rng.standard_normal(n)
    grid = {
        "lengthscale": np.log(lengthscale) + np.linspace(-0.6, 1.0, 11),
        "variance": np.linspace(-1.2, 1.2, 7),
        "noise": np.log(0.5) + np.linspace(-0.45, 0.9, 19),
    }
    return Problem(X, y, cov_func, pm.Normal.dist, grid, inducing, 2)


def disasters() -> Problem:
    """Of coal mines, in a hundred bins."""
    found = coal()
    grid = {"lengthscale": np.log(np.geomspace(3.0, 90.0, 19)), "variance": np.log(np.geomspace(0.15, 9.0, 11))}
    return Problem(found.X, found.y, pm.gp.cov.ExpQuad, found.likelihood, grid, (5, 8, 12), 200)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "noise, d = 2": lambda: noisy(200, 2, pm.gp.cov.ExpQuad, 0.7, (25, 50)),
    "noise, d = 4": lambda: noisy(200, 4, pm.gp.cov.Matern52, 2.0, (20, 50)),
    "coal": disasters,
}


def rows() -> Iterator[dict]:
    """Each problem's bounds, by numbers of inducing inputs."""
    for name, make in PROBLEMS.items():
        problem = make()
        exact = evidences(problem, problem.X, False)
        top = exact.argmax()
        for m in problem.inducing:
            Z = pmgp.gp.select_inducing(problem.X, m, random_seed=1)
            for scaled in (False, True):
                found = evidences(problem, Z, scaled)
                row = {"data": name, "inducing": m, "bound": "scaled" if scaled else "default"}
                row["gap"] = float(exact[top] - found[top])
                yield row | {f"shift_{key}": value for key, value in shifts(problem, exact, found).items()}


def shifts(problem: Problem, exact: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """By how many exact standard deviations the posterior mean of each logarithm is off."""
    points = np.stack(np.meshgrid(*problem.grid.values(), indexing="ij"), axis=-1).reshape(-1, len(problem.grid))
    means = [np.exp(logs - logsumexp(logs)) @ points for logs in (exact, found)]
    deviations = np.sqrt(np.exp(exact - logsumexp(exact)) @ np.square(points - means[0]))
    return dict(zip(problem.grid, ((means[1] - means[0]) / deviations).tolist(), strict=True))


def evidences(problem: Problem, Z: np.ndarray, scaled: bool) -> np.ndarray:
    """Log p(theta) and the integral over v, at all points of the grid."""
    model = problem.model(Z, scaled)
    parts = SparseParts(model, model.initial_point())
    order = [name.removesuffix("_log__") for name in parts.theta_names]
    grids = np.meshgrid(*problem.grid.values(), indexing="ij")
    columns = dict(zip(problem.grid, (grid.ravel() for grid in grids), strict=True))
    thetas = np.stack([columns[name] for name in order], axis=-1)
    normal = np.random.default_rng(1).standard_normal((problem.draws // 2, len(Z)))
    return np.array([_integral(parts, theta, np.concatenate([normal, -normal])) for theta in thetas])


def _integral(parts: SparseParts, theta: np.ndarray, normal: np.ndarray) -> float:
    """Over v, by importance samples."""
    log_prior, conditional = parts.at(theta)
    fit = fitted(conditional, np.zeros(parts.shape))
    if fit is None:
        return -np.inf
    logs = []
    for w in normal[:, None]:
        v = fit.mode + fit.deviation(w)
        logs.append(conditional.log_density(v, conditional.latent(v)) + 0.5 * float(np.vdot(w, w)))
    return log_prior + fit.log_jacobian + float(logsumexp(logs)) - np.log(len(logs))
