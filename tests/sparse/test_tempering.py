"""The study's parallel tempering on inducing inputs: the right distribution, a kernel and its version in Python."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pymc as pm
import pytest

import pmgp
from case_studies.sparse import replicas
from case_studies.sparse.coordinates import coordinate_slices
from case_studies.sparse.replicas import At, exchanged, exchanges, respaced
from case_studies.sparse.tempering import SparseTempering
from pmgp.interface.sampling.plain import from_bytes, to_bytes
from tests.confirmation import confirmed
from tests.sparse.problems import COUNTS, X, hyperparameters, poisson, sparse
from tests.sparse.test_gibbs import chain
from tests.theta_updates import agreement

Z = X[::3]
CLASSES = np.digitize(COUNTS, [1, 3])


def classes(inputs=X, inducing=Z, labels=CLASSES, epsilon=0.05, jitter=1e-10):
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=inputs, Xu=inducing, n_outputs=3, jitter=jitter)
        process.observe("y", f, dist=lambda f: pmgp.likelihoods.RobustMax.dist(f, epsilon), observed=labels)
    return model


@cache
def classes_step(copy: int = 0) -> SparseTempering:
    """A step for three classes, which several tests use: every chain must forget the one before."""
    return SparseTempering(model=classes(), temperatures=3)


@cache
def own_covariances() -> SparseTempering:
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 0.5, shape=3)
        process = pmgp.gp.Sparse(cov_func=[(1.0 + k) * pm.gp.cov.Matern52(1, ls=scale[k]) for k in range(3)])
        f = process.prior("f", X=X, Xu=Z, n_outputs=3)
        process.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=CLASSES)
    return SparseTempering(model=model)


# The sweep by a kernel


class FromUniform:
    """A generator whose exponential numbers are made of uniform ones, as kernels make them."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self.random, self.permutation = self._rng.random, self._rng.permutation
        self.standard_normal, self.bit_generator = self._rng.standard_normal, self._rng.bit_generator

    def standard_exponential(self):
        return -np.log(1.0 - self.random())


@pytest.mark.parametrize("build", [classes_step, own_covariances], ids=["one", "each"])
@pytest.mark.parametrize("power", [1.0, 0.1])
def test_a_sweep_by_the_kernel_is_the_one_in_python(build, power, rng):
    step = build()
    at = step.function.known_at(np.zeros(step.dimension - 3 * len(Z)))
    v = rng.standard_normal((3, len(Z)))
    for seed in range(5):
        found, evaluations = coordinate_slices(FromUniform(seed), at.conditional, v, power, at.sweep)
        expected, others = coordinate_slices(FromUniform(seed), at.conditional, v, power)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert evaluations == others
        assert np.all(found != v)


def test_labels_and_inputs_change_together():
    with pm.Model() as model:
        inputs, labels = pm.Data("X", X), pm.Data("labels", CLASSES)
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=inputs, Xu=Z, n_outputs=3, jitter=1e-10)
        process.observe("y", f, dist=lambda f: pmgp.likelihoods.RobustMax.dist(f, 0.05), observed=labels)
        step = SparseTempering(model=model)
        pm.set_data({"X": X[:4], "labels": CLASSES[4:8]})
    step.setup_chain(np.random.default_rng(0), 0, 1)
    other = SparseTempering(model=classes(X[:4], labels=CLASSES[4:8]))
    v = np.full((3, len(Z)), 0.4) * np.arange(3)[:, None]
    values = [
        replicas.Replica.of(np.full(2, 0.3), v, one.function.known_at(np.full(2, 0.3))).log_density(1.0)
        for one in (step, other)
    ]
    np.testing.assert_allclose(values[0], values[1])
    with model:
        pm.set_data({"X": X[:3]})
    step.setup_chain(np.random.default_rng(0), 0, 1)
    with pytest.raises(ValueError, match=r"there are 4 labels, and latent values of shape \(3, 3\)"):
        step.step(step._named(np.zeros(step.dimension)))
    with model:
        pm.set_data({"X": X[:4], "labels": [0, 1, 2, 3]})
    with pytest.raises(ValueError, match="class labels must be whole numbers from 0 to 2"):
        step.setup_chain(np.random.default_rng(0), 0, 1)


# The target; its parts are compared with the whole in `test_gibbs.py`


@cache
def on_all_points(temperatures: int) -> tuple[pm.Model, SparseTempering]:
    model, _ = sparse(X, jitter=1e-8)
    return model, SparseTempering(model=model, temperatures=temperatures)


def moments(temperatures, draws):
    model, step = on_all_points(temperatures)
    return agreement.moments(agreement.sample(model, step=step, tune=250, draws=draws, random_seed=6))


def test_with_all_points_as_inducing_inputs_it_has_the_exact_posterior(posterior):
    found = moments(3, draws=600)
    assert min(m.ess for m in found.values()) > 200
    assert agreement.distance(found, posterior) < 4.0


BOUND = 4.0
COPIES = 0.1
"""A variance of noisy copies between the two that moves take in turns, at which theta moves far."""


def largest_change(held: float, replicates: int, seed: int = 1) -> float:
    """Return the largest mean change of a statistic of independent draws, in standard errors (Gandy and Scott 2020).

    At power zero the target is the prior, of which there are draws: every move must keep it, and the Jacobian of what
    is held, and the density of the copies, are all that decide.
    """
    rng, function = np.random.default_rng(seed), on_all_points(3)[1].function
    rows = np.empty((replicates, 8))
    for row in rows:
        theta, v = 0.5 * rng.standard_normal(2), rng.standard_normal(function.shape)
        replica = first = replicas.Replica.of(theta, v, function.known_at(theta))
        for element in (0, 1, 0, 1):
            replica, _ = replicas.moved(rng, replica, 0.0, function.known_at, (held, element, 0.7))
        row[:] = statistics(replica) - statistics(first)
    return float(np.max(np.abs(rows.mean(axis=0)) / np.maximum(rows.std(axis=0) / np.sqrt(replicates), 1e-12)))


def statistics(replica: replicas.Replica) -> np.ndarray:
    """Return moments of theta, and of v that tie it to theta: (8,)."""
    theta, size = replica.theta, float(np.vdot(replica.v, replica.v))
    return np.array([*theta, *theta**2, theta[0] * theta[1], size, *(theta * size)])


@pytest.mark.parametrize("held", [*replicas.HELD, COPIES])
def test_every_move_keeps_the_prior_at_power_zero(held):
    assert confirmed(lambda seed: largest_change(held, 600, seed), BOUND) < BOUND


def test_without_the_jacobian_it_does_not(monkeypatch):
    monkeypatch.setattr(At, "log_determinant", lambda self, outputs: 0.0)
    assert largest_change(replicas.INDUCING, 300) > 2.0 * BOUND


def test_without_the_density_of_the_copies_it_does_not(monkeypatch):
    """V is then accepted as if the copies did not depend on it."""
    whole = replicas._beside_copies

    def broken(rng, replica, conditional, precision):
        v, _ = whole(rng, replica, conditional, precision)
        factors = [
            known.factors(np.full((1, known.offset.shape[1]), -precision))
            for known in (conditional, replica.at.conditional)
        ]
        new, old = (-sum(np.log(L.diagonal()).sum() for L in each) for each in factors)
        return v, new - old

    monkeypatch.setattr(replicas, "_beside_copies", broken)
    assert largest_change(COPIES, 1000) > 2.0 * BOUND


def test_with_exchanges_the_wrong_way_round_it_does_not(posterior, monkeypatch):

    def reversed_exchange(rng, states, powers, pairs):
        return exchanged(rng, states, powers[::-1], pairs)

    monkeypatch.setattr("case_studies.sparse.tempering.exchanged", reversed_exchange)
    assert agreement.distance(moments(2, draws=600), posterior) > 8.0


def weighed_prior(model, draws, seed):
    """Draws of log length-scale and log variance, and of the differences of classes at a point, with weights."""
    with model:
        prior = pm.sample_prior_predictive(
            draws, var_names=["lengthscale", "variance", "f_rotated_"], random_seed=seed
        )["prior"]
    theta = np.stack([np.log(prior[name].to_numpy()[0]) for name in ("lengthscale", "variance")], axis=1)
    step = SparseTempering(model=model)
    order = [("lengthscale_log__", "variance_log__").index(name) for name in step.function.theta_names]
    values = prior["f_rotated_"].to_numpy()[0]
    logs, differences = np.empty(draws), np.empty(draws)
    for i, v in enumerate(values):
        conditional = step.function.known_at(theta[i][order]).conditional
        f = conditional.latent(v)
        logs[i], differences[i] = conditional.value(f), f[0, 0] - f[1, 0]
    weights = np.exp(logs - logs.max())
    return np.column_stack([theta, differences]), weights / weights.sum()


def test_classes_are_as_by_weighing_the_prior():
    """Means of hyper-parameters and latent values agree for five points, with the kernels of robust-max."""
    model = classes(X[:5], X[:5], [0, 1, 1, 2, 0], epsilon=0.2)
    known, weights = weighed_prior(model, 1000, seed=2)
    step = SparseTempering(model=model, temperatures=2, hottest=0.3)
    idata = agreement.sample(model, step=step, tune=100, draws=200, random_seed=6)
    posterior = idata["posterior"]
    values = [np.log(posterior[name].to_numpy()).ravel() for name in ("lengthscale", "variance")]
    for place, found in enumerate(values):
        expected = weights @ known[:, place]
        error = np.sqrt(np.square(weights * (known[:, place] - expected)).sum())
        batches = found.reshape(40, -1).mean(axis=1)
        assert abs(found.mean() - expected) < 4.0 * np.hypot(error, batches.std() / np.sqrt(40))


# Exchanges and powers


def test_pairs_have_no_power_in_common_and_all_have_their_turn():
    pairs = [set(exchanges(5, iteration)) for iteration in range(2)]
    assert pairs == [{0, 2}, {1, 3}]
    assert list(exchanges(1, 0)) == list(exchanges(1, 1)) == []


def test_powers_are_spaced_by_rejections():
    powers = np.geomspace(1.0, 0.1, 4)
    same = respaced(powers, np.full(3, 0.3))
    np.testing.assert_allclose(same, powers)
    moved = respaced(powers, np.array([0.8, 0.2, 0.2]))
    np.testing.assert_allclose(moved[[0, -1]], powers[[0, -1]])
    # Half of the rejections are in three quarters of the first interval.
    assert moved[1] > powers[1]
    assert np.all(np.diff(moved) < 0.0)


# The contract


@pytest.fixture
def step():
    return classes_step()


def test_the_same_seed_gives_the_same_chain_whatever_came_before(step):
    first, _ = chain(step, seed=1)
    chain(step, seed=2)
    np.testing.assert_array_equal(chain(step, seed=1)[0], first)
    assert len(np.unique(first[:, 0])) > 20


@pytest.mark.parametrize(("tune", "draws"), [(3, 0), (40, 0), (60, 2)])
def test_a_restored_state_and_a_pickled_step_repeat_the_next_draws(step, tune, draws):
    point = chain(step, seed=1, tune=tune, draws=draws)[1]
    state, copy = step.sampling_state, pickle.loads(pickle.dumps(step))
    stored = to_bytes(state)
    expected, _ = chain(step, begin=1, tune=0, draws=6, point=point)
    other = classes_step(copy=1)
    other.setup_chain(np.random.default_rng(9), tune, draws)
    other.sampling_state = from_bytes(stored)
    for one in (copy, other):
        np.testing.assert_array_equal(chain(one, begin=1, tune=0, draws=6, point=point)[0], expected)


def test_nothing_is_learned_after_tuning(step):
    point = chain(step, seed=3, tune=100, draws=1)[1]
    powers, scales = step.powers.copy(), step.log_scales.copy()
    assert np.any(np.abs(powers - np.geomspace(1.0, 0.02, 3)) > 1e-3)
    chain(step, begin=1, tune=0, draws=20, point=point)
    np.testing.assert_array_equal(step.powers, powers)
    np.testing.assert_array_equal(step.log_scales, scales)


def test_a_point_that_another_step_has_moved_is_taken_as_it_is(step, rng):
    point = chain(step, seed=4)[1]
    before = step.thetas[1:].copy()
    given = step._named(rng.standard_normal(step.dimension))
    first, *others = step._at(given)
    np.testing.assert_array_equal(step._vector(step._moved(first.theta, first.v)), step._vector(given))
    np.testing.assert_array_equal([other.theta for other in others], before)
    assert not np.array_equal(step._vector(point), step._vector(given))


def test_round_trips_are_counted(step):
    step.setup_chain(np.random.default_rng(5), 20, 80)
    point, counts = step._named(np.zeros(step.dimension)), []
    for iteration in range(100):
        if iteration == 20:
            step.stop_tuning()
        point, [row] = step.step(point)
        counts.append(row["round_trips"])
    assert counts[19] == 0
    assert counts[-1] > 0
    assert np.all(np.diff(counts) >= 0)


def test_hyperparameters_that_are_known_stay_away():
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.Matern52(1, ls=1.0))
        f = process.prior("f", X=X, Xu=Z)
        process.observe("y", f, dist=poisson, observed=COUNTS)
    draws, _ = chain(SparseTempering(model=model, temperatures=2), tune=5, draws=20)
    assert len(np.unique(draws[:, 0])) == 25


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperatures": 0}, "temperatures must be 1 or more, not 0"),
        ({"sweeps": 0}, "sweeps must be 1 or more, not 0"),
        ({"theta_moves": 0}, "theta_moves must be 1 or more, not 0"),
        ({"hottest": 1.0}, "hottest must be between 0 and 1, both excluded, not 1.0"),
        ({"target_acceptance": 1.5}, "target_acceptance"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        SparseTempering(model=classes(), **options)
