"""Trajectories with a metric: derivatives, reversibility, volume, the order of the energy's error, and what G is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.gaussians import BlockPrior, DensePrior
from pmgp.core.latent_updates import RiemannianUpdate
from pmgp.core.latent_updates.metrics import best_constant
from pmgp.core.likelihoods import BernoulliLogit, LogGaussianCox, MultinomialLogit, StochasticVolatility
from pmgp.core.numerics.ledger import counted
from pmgp.core.transitions.riemannian import Moving, Solver, leapfrog
from tests.blocks.problems import classification, dense_matrix, dense_prior, kernel
from tests.finite_differences import central_differences

EXACT = Solver(1e-13, 500)
METRICS = ("identity", "fixed", "local")
every_metric = pytest.mark.parametrize("metric", METRICS)


def of_one(likelihood: Any, n: int = 6) -> tuple[DensePrior, Any]:
    rng = np.random.default_rng(2)
    prior = DensePrior(0.3 * rng.normal(size=n), kernel(rng.normal(size=(n, 2)), 1.5, 1.0))
    return prior, likelihood


PROBLEMS: dict[str, Any] = {
    "softmax": lambda: classification(4, 3, seed=3, means=True),
    "logit": lambda: of_one(BernoulliLogit(np.array([1, 0, 0, 1, 0, 0]))),
    "counts": lambda: of_one(LogGaussianCox(np.array([0, 3, 1, 2, 0, 5]))),
    "volatility": lambda: of_one(StochasticVolatility(np.array([0.1, -2.0, 0.4, 1.0, -0.3, 0.8]))),
}
every_problem = pytest.mark.parametrize("problem", PROBLEMS)


def begun(problem: str, metric: str, seed: int = 1) -> tuple[Any, Moving]:
    """A target, and a point with a momentum drawn there."""
    prior, likelihood = PROBLEMS[problem]()
    operator, rng = RiemannianUpdate(metric), np.random.default_rng(seed)
    target = operator.prepare(prior, likelihood)
    point = operator.init(target, target.prior.sample(rng, 1)[0])
    return target, with_momentum(point, point.metric_factor.momentum(rng))


def with_momentum(point: Any, momentum: np.ndarray) -> Moving:
    return Moving(point, momentum, point.metric_factor.velocity(momentum))


def flow(target: Any, moving: Moving, step_size: float, steps: int, solver: Solver = EXACT) -> Moving:
    for _ in range(steps):
        moving = leapfrog(moving, target, step_size, solver)
    return moving


@every_problem
def test_the_force_is_the_gradient_of_the_energy(problem):
    target, moving = begun(problem, "local")
    p = moving.momentum

    def energy(f: np.ndarray) -> float:
        metric = target.metric_at(f)
        return 0.5 * metric.log_determinant + 0.5 * float(p @ metric.velocity(p))

    found = target.metric_at(moving.point.position).force(moving.velocity)
    assert_allclose(found, central_differences(energy, moving.point.position, 1e-3), atol=1e-8)


def test_gradient_of_the_curvature_of_a_softmax(rng):
    _, labels = classification(4, 3)
    for likelihood in (labels, MultinomialLogit(rng.integers(0, 5, size=(4, 3)))):
        f, weights = rng.normal(size=12), rng.normal(size=(4, 3, 3))
        weights = weights + weights.swapaxes(1, 2)

        def contracted(at: np.ndarray, likelihood: Any = likelihood, weights: np.ndarray = weights) -> float:
            return float(np.sum(weights * likelihood.derivatives(at)[1].blocks))

        assert_allclose(likelihood.curvature_gradient(f, weights), central_differences(contracted, f, 1e-3), atol=1e-10)


@every_problem
@every_metric
def test_the_metric_is_that_of_dense_algebra(problem, metric):
    """Velocities, log-determinants, and the covariance of momenta."""
    target, moving = begun(problem, metric)
    prior, f = target.prior, moving.point.position
    if metric == "identity":
        dense = np.eye(f.size)
    else:
        at = f if metric == "local" else best_constant(prior, target.likelihood)
        w = target.likelihood.derivatives(at)[1] if metric == "local" or isinstance(prior, BlockPrior) else None
        w = target.likelihood.fisher_information(at) if w is None else w
        w = np.diag(w) if isinstance(w, np.ndarray) else dense_matrix(w.blocks)
        whole = dense_prior(prior) if isinstance(prior, BlockPrior) else prior
        dense = np.linalg.inv(np.tril(whole.covariance) + np.tril(whole.covariance, -1).T) + w
    own = moving.point.metric_factor
    assert_allclose(own.velocity(moving.momentum), np.linalg.solve(dense, moving.momentum), rtol=1e-6, atol=1e-9)
    rng = np.random.default_rng(3)
    draws = np.array([own.momentum(rng) for _ in range(4000)])
    whitened = np.linalg.solve(np.linalg.cholesky(dense), draws.T)
    # Elements of a covariance of 4,000 standard normals have standard errors of .016, on the diagonal .022.
    assert_allclose(whitened @ whitened.T / 4000, np.eye(f.size), atol=0.1)
    if metric == "local":
        elsewhere = target.metric_at(f + 0.3)
        other = dense - w + _dense_curvature(target.likelihood, f + 0.3)
        change = np.linalg.slogdet(other)[1] - np.linalg.slogdet(dense)[1]
        assert_allclose(elsewhere.log_determinant - own.log_determinant, change, atol=1e-6)


def _dense_curvature(likelihood: Any, f: np.ndarray) -> np.ndarray:
    w = likelihood.derivatives(f)[1]
    return np.diag(w) if isinstance(w, np.ndarray) else dense_matrix(w.blocks)


@every_problem
@every_metric
def test_trajectories_go_back_where_they_came_from(problem, metric):
    target, moving = begun(problem, metric)
    # The smallest scale of the prior is the identity's largest step.
    step = 0.01 if metric == "identity" else 0.15
    there = flow(target, moving, step, 5)
    assert np.abs(there.point.position - moving.point.position).max() > 2.0 * step
    back = flow(target, with_momentum(there.point, -there.momentum), step, 5)
    assert_allclose(back.point.position, moving.point.position, atol=1e-9)
    assert_allclose(back.momentum, -moving.momentum, atol=1e-8)


def test_a_solver_that_is_stopped_early_does_not_go_back(monkeypatch):
    monkeypatch.setattr(Solver, "settled", lambda self, new, old: True)
    target, moving = begun("softmax", "local")
    there = flow(target, moving, 0.15, 5)
    back = flow(target, with_momentum(there.point, -there.momentum), 0.15, 5)
    assert np.abs(back.point.position - moving.point.position).max() > 1e-4


def volume(problem: str, metric: str) -> float:
    """Determinant of the Jacobian of one step."""
    target, moving = begun(problem, metric)
    operator = RiemannianUpdate(metric)

    def mapped(z: np.ndarray) -> np.ndarray:
        f, momentum = np.split(z, 2)
        moved = flow(target, with_momentum(operator.init(target, f), momentum), 0.2, 1)
        return np.concatenate([moved.point.position, moved.momentum])

    # In units of the metric, as elements of the momentum are up to a hundred times as large as those of f.
    scale = np.concatenate([np.ones(moving.momentum.size), np.abs(moving.momentum)])
    start = np.concatenate([moving.point.position, moving.momentum]) / scale
    jacobian = central_differences(lambda z: mapped(z * scale) / scale, start, 3e-3)
    return float(np.linalg.det(jacobian))


@every_problem
@every_metric
def test_volume_is_preserved(problem, metric):
    assert volume(problem, metric) == pytest.approx(1.0, abs=1e-6)


def test_volume_is_not_preserved_by_implicit_steps_that_are_stopped_early(monkeypatch):
    monkeypatch.setattr(Solver, "settled", lambda self, new, old: True)
    assert abs(volume("softmax", "local") - 1.0) > 1e-5


@every_problem
@every_metric
def test_the_error_of_the_energy_is_quadratic(problem, metric):
    target, moving = begun(problem, metric)
    horizon = 0.08 if metric == "identity" else 0.8
    errors = [abs(flow(target, moving, horizon / n, n).energy - moving.energy) for n in (16, 32)]
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


def test_both_metrics_are_the_same_at_the_frequencies_of_the_classes():
    prior, _ = classification(7, 3)
    likelihood = MultinomialLogit(np.array([0, 0, 0, 0, 1, 1, 2]))
    fixed, local = (RiemannianUpdate(metric).prepare(prior, likelihood) for metric in ("fixed", "local"))
    f = best_constant(prior, likelihood)
    assert_allclose(likelihood.probabilities(f), np.repeat([[4 / 7], [2 / 7], [1 / 7]], 7, axis=1), atol=1e-9)
    p = np.random.default_rng(0).normal(size=f.size)
    assert_allclose(fixed.metric_at(f).velocity(p), local.metric_at(f).velocity(p), rtol=1e-8)
    logs = np.log(np.repeat([4 / 7, 2 / 7, 1 / 7], 7))
    assert_allclose(fixed.metric_at(f).velocity(p), local.metric_at(logs).velocity(p), rtol=1e-8)


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [1, 0, 0, 1]])
def test_the_best_constant_of_classes_without_observations_is_finite(labels):
    prior, _ = classification(4, 3)
    f = best_constant(prior, MultinomialLogit(np.array(labels), 3))
    assert np.isfinite(f).all()
    assert MultinomialLogit(np.array(labels), 3).probabilities(f)[2].max() < 1e-6


def test_the_best_constant_is_where_the_likelihood_is_largest():
    prior, likelihood = PROBLEMS["counts"]()
    f = best_constant(prior, likelihood)
    assert_allclose(f, f[0])
    assert_allclose(likelihood.gradient(f).sum(), 0.0, atol=1e-8)


def test_a_metric_of_classes_takes_one_factorization_more_than_there_are_classes():
    prior, likelihood = classification(5, 4)
    target = RiemannianUpdate("local").prepare(prior.factorized(), likelihood)
    with counted() as counts:
        target.metric_at(np.zeros(20)).velocity(np.ones(20))
    assert counts.total.cubic == (5, 4, 0)


def test_an_indefinite_covariance_and_an_unsettled_step():
    bad = DensePrior(np.zeros(2), np.asfortranarray([[1.0, 3.0], [3.0, 1.0]]))
    assert RiemannianUpdate("fixed").prepare(bad, BernoulliLogit(np.array([0, 1]))) is None
    target, moving = begun("softmax", "local")
    assert leapfrog(moving, target, 0.2, Solver(1e-15, 2)) is None
    with np.errstate(all="ignore"):
        assert leapfrog(moving, target, 1e3, Solver()) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "fisher"}, "metric must be one of identity, fixed, local, not 'fisher'"),
        ({"max_leapfrog": 0}, "max_leapfrog must be an integer of at least 1, not 0"),
    ],
)
def test_settings_out_of_range_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        RiemannianUpdate(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": 0.0}, "tolerance must be positive, not 0.0"),
        ({"max_iterations": 0}, "max_iterations must be a whole number of at least 1, not 0"),
    ],
)
def test_a_solver_that_cannot_solve_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Solver(**settings)
