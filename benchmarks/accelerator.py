"""Times on a device of JAX, beside NumPy: evidences, sweeps, exact chains, inducing inputs, products, and depth.

Without an accelerator the device is the CPU, and the rows say so. There JAX has one thread, and times are processor
times; elsewhere they are wall-clock times, and data sets go up to 20,000 points.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pymc as pm
from threadpoolctl import threadpool_limits

import pmgp
from benchmarks import tiles
from benchmarks.iteration import lapack_seconds
from benchmarks.problems import synthetic
from pmgp.interface.model.observed_normal import ObservedNormal, observed_normal
from pmgp.interface.steps.matrices import JaxMatrices, NumpyMatrices

__all__ = [
    "chain_row",
    "chains_row",
    "classes_row",
    "deep_row",
    "evidence_rows",
    "posterior_row",
    "product_row",
    "rows",
    "sweep_row",
]

ON_CPU, ELSEWHERE = (400, 1000), (400, 2000, 5000, 20_000)
# Observations of which an evidence, and its gradient, is computed.
OBSERVED_ON_CPU, OBSERVED_ELSEWHERE = (2000,), (2000, 5000, 20_000, 50_000)
# Observations given which theta is drawn.
WEIGHED_ON_CPU, WEIGHED_ELSEWHERE = (1000,), (10_000,)
# Points and inducing inputs for ten classes; elsewhere those of MNIST.
CLASSES_ON_CPU, CLASSES_ELSEWHERE = (2000, 100), (60_000, 500)
COLUMNS, CLASSES = 784, 10
# NumPy is not asked for more points than this, nor its chain for more than that.
COMPARED, COMPARED_CHAIN = 5000, 2000
REPETITIONS = 20
# Iterations of a chain, and of one with more than a thousand points.
TUNE, DRAWS = 200, 90
FEW_TUNE, FEW_DRAWS = 10, 12
Clock = Callable[[], float]


def rows() -> Iterator[dict[str, Any]]:
    """Seconds on the device, seconds of what it is compared with on the CPU, and the ratio."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    import jax

    device = jax.devices()[0]
    on_cpu = device.platform == "cpu"
    sizes, clock = (ON_CPU, process_time) if on_cpu else (ELSEWHERE, perf_counter)
    name = "CPU: JAX finds no accelerator" if on_cpu else device.device_kind
    with threadpool_limits(1):
        for n in OBSERVED_ON_CPU if on_cpu else OBSERVED_ELSEWHERE:
            for row in evidence_rows(n, clock):
                yield _with_device(row, name)
        for n in WEIGHED_ON_CPU if on_cpu else WEIGHED_ELSEWHERE:
            yield _with_device(posterior_row(n, clock), name)
        for n in sizes:
            yield _with_device(sweep_row(n, clock), name)
        # The chain with a thousand points takes minutes on a CPU.
        for n in sizes[:1] if on_cpu else sizes:
            yield _with_device(chain_row(n, clock), name)
        yield _with_device(chains_row(clock), name)
        classes = classes_row(*(CLASSES_ON_CPU if on_cpu else CLASSES_ELSEWHERE), clock)
        for row in (classes, product_row(clock), deep_row(clock)):
            yield _with_device(row, name)


def _with_device(row: dict[str, Any], device: str) -> dict[str, Any]:
    return row | {"device": device, "load": os.getloadavg()[0]}


def _row(what: str, n: int, seconds: float, beside: str = "", theirs: float = np.nan) -> dict[str, Any]:
    ratio = seconds / theirs
    return {"what": what, "n": n, "seconds": seconds, "beside": beside, "its seconds": theirs, "ratio": ratio}


def evidence_rows(n: int, clock: Clock) -> Iterator[dict[str, Any]]:
    """A value of log p(y|theta) for normal observations, as a weight takes it, and one with its gradient."""
    model = observations(n)
    parts = observed_normal(model, model["y"])
    try:
        found = JaxMatrices().evidence("y", parts)
    except MemoryError as refusal:
        yield _row(f"evidence: {refusal}", n, np.nan)
        return
    numpy = NumpyMatrices().evidence("y", parts) if n <= COMPARED else None
    whats = {"value": "evidence", "with_gradient": "evidence and gradient"}
    for method, what in whats.items():
        theirs = np.nan if numpy is None else _of_evidence(getattr(numpy, method), parts, clock)
        yield _row(what, n, _of_evidence(getattr(found, method), parts, clock), "NumPy's, one core", theirs)


def posterior_row(n: int, clock: Clock, draws: int = 200) -> dict[str, Any]:
    """All of `pmgp.importance`: compilation, the search for maxima, and draws of theta's posterior."""
    start = clock()
    found = pmgp.importance(observations(n), draws=draws, backend="jax", random_seed=1, progressbar=False).attrs
    worth = f"worth {found['effective_size']:.0f}, k {found['pareto_k']:.2f}"
    return _row(f"{draws} draws of theta, {worth}, compilation and search included", n, clock() - start)


def observations(n: int) -> pm.Model:
    """Return a model of n normal observations with six hyper-parameters."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    with pm.Model() as model:
        kernel = pm.LogNormal("variance") * pm.gp.cov.ExpQuad(4, ls=pm.LogNormal("lengthscale", shape=4))
        gp = pm.gp.Marginal(cov_func=kernel)
        gp.marginal_likelihood("y", X, y, sigma=pm.LogNormal("sigma"))
    return model


def _of_evidence(function: Callable[[np.ndarray], Any], parts: ObservedNormal, clock: Clock) -> float:
    """Return the least seconds at a few theta, after one that compiles."""
    times = []
    for shift in (0.0, 0.01, 0.02, 0.03):
        start = clock()
        found = function(parts.theta.initial + shift)
        assert np.isfinite(found if isinstance(found, float) else found[0])
        times.append(clock() - start)
    return min(times[1:])


def sweep_row(n: int, clock: Clock) -> dict[str, Any]:
    """A factorization of B and the diagonal of its inverse, beside LAPACK's dpotrf and dtrtri."""
    import jax

    from pmgp.core.dense_jax.gaussians import JaxPrior

    X = np.random.default_rng(0).normal(size=(n, 2))
    squares = np.square(X).sum(axis=1)
    K = np.exp(-0.5 * np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0)) + np.eye(n)
    with jax.enable_x64(True):
        conditioned = JaxPrior(np.zeros(n), jax.numpy.asarray(K)).conditioning()
    times = []
    for _ in range(REPETITIONS):
        start = clock()
        conditioned.on(np.zeros(n), np.ones(n))
        assert len(conditioned.inverse_diagonal) == n
        times.append(clock() - start)
    calls = sum(lapack_seconds(n)) if n <= COMPARED else np.nan
    return _row("sweep", n, float(np.median(times[1:])), "dpotrf and dtrtri, one core", calls)


def chain_row(n: int, clock: Clock) -> dict[str, Any]:
    """An iteration of the exact chain for labels, after tuning, beside NumPy's with the same draws."""
    seconds = _iteration("jax", n, clock)
    numpy = _iteration("numpy", n, clock) if n <= COMPARED_CHAIN else np.nan
    return _row("iteration of the chain", n, seconds, "NumPy's, one core", numpy)


def chains_row(clock: Clock, n: int = 100, number: int = 64) -> dict[str, Any]:
    """An iteration of many exact chains in one program, beside as many iterations of NumPy's chain."""
    from pmgp.interface.dense_jax.chains import Settings, VectorizedChains
    from pmgp.interface.model.taking_apart import take_apart

    model = synthetic(n).model()
    settings = Settings(pmgp.approximations.ExpectationPropagation(), 64, 1, 1, 0.25, None, None)
    chains, rng = VectorizedChains(model, take_apart(model), number, settings), np.random.default_rng(1)
    made, times, start = chains.iterations(rng, chains.started(rng), TUNE, REPETITIONS), [], clock()
    for _ in made:
        times.append(clock() - start)
        start = clock()
    seconds = float(np.median(times[TUNE + 1 :]))
    return _row(
        f"iteration of {number} chains", n, seconds, "NumPy's, one core", number * _iteration("numpy", n, clock)
    )


def _iteration(backend: str, n: int, clock: Clock) -> float:
    tune, draws = (TUNE, DRAWS) if n <= 1000 else (FEW_TUNE, FEW_DRAWS)
    with synthetic(n).model() as model:
        step = pmgp.PseudoMarginal(estimator="importance", backend=backend)
        step.setup_chain(np.random.default_rng(1), tune, draws)
    point, times = model.initial_point(), []
    for number in range(tune + draws):
        if number == tune:
            step.stop_tuning()
        start = clock()
        point, _ = step.step(point)
        times.append(clock() - start)
    # The first iterations compile the programs that only sampling needs.
    return float(np.mean(times[tune + draws // 3 :]))


def classes_row(n: int, inducing: int, clock: Clock) -> dict[str, Any]:
    """A gradient of `SparseHMC` for ten classes by robust-max with MNIST's columns, beside NumPy's."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, COLUMNS))
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 3.0, 3.0 / np.sqrt(COLUMNS), shape=COLUMNS)
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(COLUMNS, ls=lengthscale))
        f = process.prior("f", X=X, Xu=rng.normal(size=(inducing, COLUMNS)), n_outputs=CLASSES)
        process.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=rng.integers(0, CLASSES, n))
        jax, numpy = (pmgp.steps.SparseHMC(backend=backend) for backend in ("jax", "numpy"))
    point = jax._vector(model.initial_point())
    theirs = _gradient(numpy.function, point, clock) if n <= COMPARED else np.nan
    what = f"gradient, {inducing} inducing inputs, {CLASSES} classes"
    return _row(what, n, _gradient(jax.function, point, clock), "NumPy's, one core", theirs)


def _gradient(function: Any, point: np.ndarray, clock: Clock) -> float:
    """Return the median seconds of a log-density with its gradient."""
    times = []
    for _ in range(REPETITIONS):
        start = clock()
        assert np.isfinite(function(point)[1]).all()
        times.append(clock() - start)
    return float(np.median(times[1:]))


def product_row(clock: Clock) -> dict[str, Any]:
    """A product of K in tiles with eight vectors, beside NumPy's."""
    functions = tiles.products(tiles.KERNELS["Matern 5/2"])[:2]
    vectors = np.random.default_rng(1).normal(size=(tiles.POINTS, 8))
    numpy, found = tiles.seconds_of(functions, vectors, clock)
    return _row("product with K, 8 vectors, float64", tiles.POINTS, found, "NumPy's, one core", numpy)


def deep_row(clock: Clock, n: int = 5000, steps: int = 1000) -> dict[str, Any]:
    """A step of training of a deep process with two layers, whose programs an earlier fit has compiled."""
    X = np.random.default_rng(0).normal(size=(n, 4))
    for _ in range(2):
        process = pmgp.deep.RandomFeatureGP(steps=steps, random_state=1)
        start = clock()
        process.fit(X, np.sin(X[:, 0]), progressbar=False)
        seconds = clock() - start
    return _row("step of deep training", n, seconds / steps)
