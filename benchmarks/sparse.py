"""Processes on inducing inputs: effective draws of each sampler, a gradient beside its linear algebra, the first draw.

Data and priors are those of the sparse MCMC article (section 4) and of its public code, as far as the code has them.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Collection, Iterator
from time import process_time
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pymc as pm
from scipy.linalg.blas import dgemm, dgemv, dtrsm
from scipy.linalg.lapack import dpotrf
from threadpoolctl import threadpool_limits

import pmgp
from benchmarks import first_draw
from benchmarks.samplers import CHAINS, OverTimeError, Run, pilot_seconds, sample
from case_studies.sparse import data
from pmgp import datasets
from pmgp.gp import Sparse, optimize_inducing

__all__ = ["METHODS", "PROBLEMS", "first_draw_rows", "gradient", "measure", "rows"]

METHODS: dict[str, Callable[[], Any] | None] = {
    "SparseGibbs": pmgp.steps.SparseGibbs,
    "SparseHMC": pmgp.steps.SparseHMC,
    "SparseHMC and SparseGibbs": lambda: [pmgp.steps.SparseHMC(), pmgp.steps.SparseGibbs()],
    "NUTS": None,
}
# Iterations of each chain at most, and at least.
MOST, FEWEST = 2000, 60
# Iterations of these for tuning; a third where there are fewer than three times as many.
TUNE = 300
# There are as many tuning iterations.
NUTS_DRAWS = 150
# Processor seconds for all chains, and when NUTS is given up.
LIMIT, PATIENCE = 30.0, 60.0


class Problem(NamedTuple):
    """Data with a model, and the effective draws per second that it should give at least.

    Attributes
    ----------
    X : (n, d) array
    y : (n,) array
    Z : (m, d) array
    priors : tuple of (float, float)
        Shape and rate for the length-scale, and for the variance.
    likelihood : callable
        From latent values to a distribution.
    goal : float
    """

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    priors: tuple[tuple[float, float], tuple[float, float]]
    likelihood: Callable[[Any], Any]
    goal: float

    def model(self) -> tuple[pm.Model, Sparse]:
        """With one length-scale for all features; and its process."""
        with pm.Model() as model:
            lengthscale = pm.Gamma("lengthscale", *self.priors[0])
            variance = pm.Gamma("variance", *self.priors[1])
            cov_func = variance * pm.gp.cov.ExpQuad(self.X.shape[1], ls=lengthscale)
            process = pmgp.gp.Sparse(cov_func=cov_func)
            f = process.prior("f", X=self.X, Xu=self.Z)
            process.observe("y", f, dist=self.likelihood, observed=self.y)
        return model, process


def _poisson(width: float) -> Callable[[Any], Any]:
    return lambda f: pm.Poisson.dist(mu=width * pm.math.exp(f))


def coal() -> Problem:
    """Disasters in a hundred bins, thirty inducing inputs."""
    dates = datasets.load("coal").X[:, 0]
    counts, edges = np.histogram(dates, 100)
    X = (0.5 * (edges[1:] + edges[:-1]) - edges[0])[:, None]
    Z = np.linspace(X.min(), X.max(), 30)[:, None]
    return Problem(X, counts, Z, ((1.1, 0.1), (1.0, 0.3)), _poisson(edges[1] - edges[0]), 100.0)


def banknote() -> Problem:
    """A thousand banknotes, thirty inducing inputs."""
    found = datasets.load("banknote")
    chosen = np.random.default_rng(1).permutation(len(found.y))[:1000]
    X = datasets.Standardizer.fit(found.X[chosen]).transform(found.X[chosen])
    Z = pmgp.gp.select_inducing(X, 30, random_seed=1)
    return Problem(X, found.y[chosen], Z, ((1.1, 1.0), (1.1, 1.0)), pmgp.BernoulliProbit.dist, 20.0)


def pines() -> Problem | None:
    """Pines on a grid of 32 by 32 in a square of side 10, 225 inducing inputs; none where there is no file of them."""
    if not data.available("pines"):
        return None
    found = data.pines(32)
    return Problem(found.X, found.y, data.grid(15), ((1.75, 1.0), (1.2, 1.0)), _poisson(found.width), 10.0)


PROBLEMS: dict[str, Callable[[], Problem | None]] = {"coal": coal, "banknote": banknote, "pines 32 x 32": pines}


def rows(known: Collection[tuple[str, str]] = (), methods: Collection[str] = tuple(METHODS)) -> Iterator[dict]:
    """A row for every problem and method that is not known yet."""
    for name, load in PROBLEMS.items():
        missing = [method for method in methods if (name, method) not in known]
        problem = load() if missing else None
        if problem is not None:
            for method in missing:
                yield measure(name, problem, method)


def measure(name: str, problem: Problem, method: str, limit: float = LIMIT, seed: int = 1) -> dict[str, Any]:
    """Sample four chains on one core; the search for their start and tuning are in the time, compilation is not.

    They start from draws of the Gaussian that maximizes the bound, as those of `pmgp.sample` do.

    Parameters
    ----------
    name : str
    problem : Problem
    method : str
        One of :data:`METHODS`.
    limit : float
        About how many processor seconds the chains may take.
    seed : int

    Returns
    -------
    dict
        ``ESS`` is the smallest bulk effective sample size of all variables, whitened values among them, ``theta ESS``
        of the hyper-parameters; ``goal`` what ``ESS/s`` should be at least. Without figures where NUTS was given up.
    """
    with threadpool_limits(limits=1):
        run, start = _run(problem, method, limit, seed)
        try:
            seconds, idata = sample(run, seed, PATIENCE if run.step is None else np.inf)
        except OverTimeError:
            seconds, idata = PATIENCE, None
    seconds += start
    posterior = None if idata is None else idata["posterior"].to_dataset()
    smallest, theta, rhat = (np.nan,) * 3 if posterior is None else _convergence(posterior)
    return {
        "data": name,
        "n": len(problem.y),
        "M": len(problem.Z),
        "method": method,
        "chains": CHAINS,
        "tune": run.tune,
        "draws": run.draws,
        "seconds": seconds,
        "ESS": smallest,
        "theta ESS": theta,
        "R-hat": rhat,
        "ESS/s": smallest / seconds,
        "goal": problem.goal,
    }


def _run(problem: Problem, method: str, limit: float, seed: int) -> tuple[Run, float]:
    """The step methods, with as many iterations as fit into the time limit; and seconds of the search for a start."""
    model, process = problem.model()
    clock = process_time()
    found = optimize_inducing(process, model=model, inducing=False, max_iterations=100, progressbar=False)
    initvals, start = found.initvals(CHAINS, np.random.default_rng(seed)), process_time() - clock
    steps = METHODS[method]
    if steps is None:
        return Run(model, NUTS_DRAWS, NUTS_DRAWS, None, initvals), start
    with model:
        step = steps()
    iterations = int(np.clip(limit / CHAINS / pilot_seconds(model, step), FEWEST, MOST))
    tune = min(iterations // 3, TUNE)
    return Run(model, tune, iterations - tune, step, initvals), start


def _convergence(posterior: Any) -> tuple[float, float, float]:
    """Smallest ESS of all variables and of the hyper-parameters, largest R-hat."""
    posterior = posterior[[name for name in posterior.data_vars if name in ("lengthscale", "variance", "f_rotated_")]]
    sizes = az.ess(posterior)
    theta = float(sizes[["lengthscale", "variance"]].to_array().min(skipna=False))
    smallest = min(float(values.min(skipna=False)) for values in sizes.data_vars.values())
    rhat = max(float(values.max(skipna=False)) for values in az.rhat(posterior).data_vars.values())
    return smallest, theta, rhat


def gradient(n: int = 20_000, d: int = 8, m: int = 200, repeats: int = 15) -> dict[str, Any]:
    """Time that `SparseHMC` takes for a gradient, beside the LAPACK and BLAS calls that it cannot do without.

    These are, once each: the products of inputs, a factorization, two triangular solves in place, the product of two
    M x N matrices, two products of one with a vector, and of one with the inputs and with the inducing inputs. Both
    take turns.

    Returns
    -------
    dict
        Medians of processor time; ``N x M matrices``, the most memory of the first two evaluations, in these.
    """
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(n, d))
    with pm.Model() as model, threadpool_limits(limits=1):
        lengthscale, variance = pm.Gamma("lengthscale", 2, 2, shape=d), pm.Gamma("variance", 2, 1)
        process = pmgp.gp.Sparse(cov_func=variance * pm.gp.cov.ExpQuad(d, ls=lengthscale))
        f = process.prior("f", X=X, Xu=X[:m])
        process.observe("y", f, dist=_poisson(1.0), observed=rng.poisson(1.0, n))
        step = pmgp.steps.SparseHMC(model=model)
        point, linear_algebra = np.zeros(step.dimension), _LinearAlgebra(X, m)
        peak = _memory(lambda: [step.function(point) for _ in range(2)])
        times = [(_seconds(lambda: step.function(point)), linear_algebra.seconds()) for _ in range(repeats)]
    own, calls = np.median(times, axis=0)
    return {
        "n": n,
        "d": d,
        "M": m,
        "ms": 1e3 * own,
        "BLAS ms": 1e3 * calls,
        "ratio": own / calls,
        "N x M matrices": peak / (8.0 * n * m),
    }


def _seconds(call: Callable[[], Any]) -> float:
    start = process_time()
    call()
    return process_time() - start


def _memory(call: Callable[[], Any]) -> int:
    """Most bytes at a time."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


class _LinearAlgebra:
    """The calls for a gradient, on matrices of its shapes that lie as the routines want them."""

    def __init__(self, X: np.ndarray, m: int) -> None:
        rng, n = np.random.default_rng(1), len(X)
        self._X, self._Z = np.asfortranarray(X), np.asfortranarray(X[:m])
        self._covariance = np.asfortranarray(np.eye(m) + 1.0 / m)
        self._source = np.asfortranarray(rng.standard_normal((n, m)))
        self._slopes = np.empty_like(self._source)
        self._v, self._row = rng.standard_normal(m), rng.standard_normal(n)

    def seconds(self) -> float:
        """Processor time of all of them."""
        self._slopes[...] = self._source
        return _seconds(self._calls)

    def _calls(self) -> None:
        products = dgemm(1.0, self._X, self._Z, trans_b=1)
        factor, _ = dpotrf(self._covariance, lower=1)
        A = dtrsm(1.0, factor, products, side=1, lower=1, trans_a=1, overwrite_b=1)
        dgemv(1.0, A, self._v)
        dgemv(1.0, A, self._row, trans=1)
        dgemm(1.0, self._slopes, A, trans_a=1)
        back = dtrsm(1.0, factor, self._slopes, side=1, lower=1, overwrite_b=1)
        dgemm(1.0, back, self._Z)
        dgemm(1.0, back, self._X, trans_a=1)


def first_draw_rows() -> Iterator[dict[str, Any]]:
    """Seconds to the first draw of coal, by the package's own samplers."""
    for method in ("SparseGibbs", "SparseHMC"):
        yield {"data": "coal", "method": method} | first_draw.cold_and_warm("benchmarks.sparse", method)


if __name__ == "__main__":
    print(*first_draw.wait(coal().model()[0], METHODS[sys.argv[1]] or pmgp.steps.SparseGibbs))
