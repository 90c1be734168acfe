"""How long a user waits for the first draw, with an empty cache of compiled functions and again with a full one.

Each run is a process of its own. Seconds are from the call of ``pm.sample(step=pmgp.PseudoMarginal())`` to its first
draw; importing PyMC and building the model are not in them. PyMC compiles functions for itself in that time, which are
shown separately: that of the initial point, and that of what it keeps of a draw.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.backends.ndarray import NDArray
from pymc.distributions.transforms import ordered

import pmgp

__all__ = ["LIKELIHOODS", "cold_and_warm", "model", "rows", "wait"]

N = 100
LABELS, COUNTS, REAL, POSITIVE, CATEGORIES, Z = (
    np.random.default_rng(1).integers(0, 2, N),
    np.random.default_rng(2).integers(0, 6, N),
    np.random.default_rng(3).normal(size=N),
    np.random.default_rng(4).gamma(2.0, 1.0, N),
    np.random.default_rng(5).integers(0, 3, N),
    np.random.default_rng(6).normal(size=(N, 3)),
)


def cut_points() -> Any:
    return pm.Normal("cut", [-1.0, 1.0], 1.0, transform=ordered, initval=[-1.0, 1.0])


LIKELIHOODS: dict[str, Callable[[Any], Any]] = {
    "BernoulliProbit": lambda f: pmgp.BernoulliProbit("y", f, observed=LABELS),
    "LogGaussianCox": lambda f: pmgp.likelihoods.LogGaussianCox("y", f, observed=COUNTS),
    "OrdinalProbit": lambda f: pmgp.OrdinalProbit("y", f, cut_points(), 1.0, observed=CATEGORIES),
    "Bernoulli": lambda f: pm.Bernoulli("y", logit_p=f, observed=LABELS),
    "Poisson": lambda f: pm.Poisson("y", pm.math.exp(f), observed=COUNTS),
    "NegativeBinomial": lambda f: pm.NegativeBinomial(
        "y", mu=pm.math.exp(f), alpha=pm.Gamma("alpha", 2, 1), observed=COUNTS
    ),
    "Binomial": lambda f: pm.Binomial("y", n=COUNTS + 2, logit_p=f, observed=COUNTS),
    "StudentT": lambda f: pm.StudentT("y", nu=4, mu=f, sigma=pm.HalfNormal("sigma"), observed=REAL),
    "Gamma": lambda f: pm.Gamma("y", alpha=2.0, beta=pm.math.exp(f), observed=POSITIVE),
    "OrderedLogistic": lambda f: pm.OrderedLogistic("y", eta=f, cutpoints=cut_points(), observed=CATEGORIES),
    # Without the probabilities of the categories in the trace, which PyMC's own function computes.
    "OrderedLogistic, compute_p=False": lambda f: pm.OrderedLogistic(
        "y", eta=f, cutpoints=cut_points(), compute_p=False, observed=CATEGORIES
    ),
    "ZeroInflatedPoisson": lambda f: pm.ZeroInflatedPoisson(
        "y", psi=pm.Beta("psi", 1, 1), mu=pm.math.exp(f), observed=COUNTS
    ),
    "NormalMixture": lambda f: pm.NormalMixture(
        "y", w=pm.Dirichlet("w", np.ones(2)), mu=pt.stack([f, 0.0 * f], axis=-1), sigma=1.0, observed=REAL
    ),
    "fixed effects": lambda f: pm.Bernoulli("y", logit_p=f + Z @ pm.Normal("beta", shape=3), observed=LABELS),
}


def model(name: str) -> pm.Model:
    """A Gaussian process on two inputs with one of the likelihoods."""
    X = np.random.default_rng(0).normal(size=(N, 2))
    with pm.Model() as result:
        lengthscale, variance = pm.Gamma("lengthscale", 2, 2), pm.Gamma("variance", 2, 1)
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(2, ls=lengthscale))
        LIKELIHOODS[name](gp.prior("f", X=X, reparameterize=False))
    return result


class _First(BaseException):
    """Ends sampling at the first draw."""


@contextmanager
def watched(owner: type, name: str, spent: list[float]) -> Iterator[None]:
    """Collect the seconds on the clock of each call of a method."""
    original = getattr(owner, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            spent.append(perf_counter() - start)

    setattr(owner, name, timed)
    try:
        yield
    finally:
        setattr(owner, name, original)


def wait(model: pm.Model, steps: Callable[[], Any] = pmgp.PseudoMarginal) -> tuple[float, float, float]:
    """Seconds until the first draw, on the clock and of the processor, and those on the clock that are PyMC's own."""
    at: list[float] = []
    own: list[float] = []

    def first(trace: Any, draw: Any) -> None:
        at.extend([perf_counter(), process_time()])
        raise _First

    with ExitStack() as stack:
        stack.enter_context(model)
        for owner, method in ((pm.Model, "initial_point"), (NDArray, "__init__"), (NDArray, "record")):
            stack.enter_context(watched(owner, method, own))
        start, processor = perf_counter(), process_time()
        with suppress(_First):
            pm.sample(4, tune=4, chains=1, cores=1, step=steps(), callback=first, progressbar=False)
    return at[0] - start, at[1] - processor, sum(own)


def rows() -> Iterator[dict[str, Any]]:
    """One row for each likelihood."""
    for name in LIKELIHOODS:
        yield {"likelihood": name} | cold_and_warm("benchmarks.first_draw", name)


def cold_and_warm(module: str, name: str) -> dict[str, float]:
    """Return the figures of `wait` that a module prints with an empty cache of compiled functions and a full one."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={cache}", "NUMBA_CACHE_DIR": cache}
        cold, warm = (_seconds([sys.executable, "-m", module, name], environment) for _ in range(2))
    return {
        "cold s": cold[0],
        "cold processor s": cold[1],
        "cold, PyMC's own s": cold[2],
        "warm s": warm[0],
        "warm processor s": warm[1],
        "warm, PyMC's own s": warm[2],
    }


def _seconds(command: list[str], environment: dict[str, str]) -> list[float]:
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return [float(word) for word in output.split()[-3:]]


if __name__ == "__main__":
    print(*wait(model(sys.argv[1])))
