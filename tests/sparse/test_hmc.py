"""Hamiltonian Monte Carlo for all variables: the right distribution, and PyMC's contract."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.core.adaptation.squared_jumps import SquaredJumps
from pmgp.core.adaptation.step_size import StepSize
from tests.confirmation import confirmed
from tests.sparse.problems import TARGETS, X, gaussian, poisson, sparse, value_and_gradient
from tests.theta_updates import agreement

NOISE = 0.4


@pytest.fixture(scope="module")
def step():
    """Return the step of a model with counts."""
    return pmgp.steps.SparseHMC(model=sparse(X[::3])[0])


def chain(step, seed=0, tune=30, draws=10, begin=0):
    """Positions of a chain that has been set up, unless it goes on."""
    if not begin:
        step.setup_chain(np.random.default_rng(seed), tune, draws)
    point = step._named(np.zeros(step.dimension) if step.chain is None else step.chain.payload)
    positions = []
    for iteration in range(begin, tune + draws):
        if iteration == tune:
            step.stop_tuning()
        point, _ = step.step(point)
        positions.append(np.concatenate([np.ravel(point[name]) for name in step.names]))
    return np.array(positions)


def test_the_same_seed_gives_the_same_chain_whatever_came_before(step):
    first = chain(step, seed=1)
    chain(step, seed=2)
    np.testing.assert_array_equal(chain(step, seed=1), first)
    assert len(np.unique(first[:, 0])) > 20


@pytest.mark.parametrize("saved", [3, 20, 28, 32])
def test_a_restored_state_and_a_pickled_step_repeat_the_next_draws(step, saved):
    chain(step, seed=1, tune=saved if saved < 30 else 30, draws=0 if saved < 30 else 2)
    state, copy = step.sampling_state, pickle.loads(pickle.dumps(step))
    expected = chain(step, begin=1, tune=0, draws=6)
    step.sampling_state = state
    np.testing.assert_array_equal(chain(step, begin=1, tune=0, draws=6), expected)
    np.testing.assert_array_equal(chain(copy, begin=1, tune=0, draws=6), expected)


def test_nothing_is_learned_after_tuning(step):
    chain(step, seed=3, tune=40, draws=0)
    step.stop_tuning()
    before = (step.factor.copy(), step.step_size, step.max_steps)
    chain(step, begin=1, tune=0, draws=20)
    np.testing.assert_array_equal(step.factor, before[0])
    assert (step.step_size, step.max_steps) == before[1:]


def test_draws_of_a_chain_that_stayed_where_it_was_are_not_taken_for_a_scale(step):
    """They have no variance: steps by it would be of no length, all accepted, and the chain would stay for good."""
    step.setup_chain(np.random.default_rng(5), 100, 0)
    step.step_size = StepSize.start(1e4)
    stayed = chain(step, begin=1, tune=11, draws=0)
    np.testing.assert_array_equal(np.ptp(stayed, axis=0), 0.0)
    np.testing.assert_array_equal(step.factor, np.eye(step.dimension))
    assert step.step_size.value < 1e3
    chain(step, begin=1, tune=90, draws=0)
    assert (step.factor.diagonal() > 0.05).all()


def test_v_given_known_hyperparameters_and_gaussian_noise_is_normal():
    """Its mean and its variances, within four Monte Carlo standard errors."""
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.Matern52(1, ls=1.0))
        f = process.prior("f", X=X, Xu=X[::3], jitter=0.0)
        process.observe("y", f, NOISE, dist=gaussian, observed=TARGETS)
    step = pmgp.steps.SparseHMC(model=model)
    gradient_at = [step.function(unit)[1] for unit in np.vstack([np.zeros(4), np.eye(4)])]
    precision = gradient_at[0] - np.array(gradient_at[1:])
    covariance = np.linalg.inv(precision)
    mean = covariance @ gradient_at[0]

    def distance(seed):
        batches = chain(step, seed=seed, tune=600, draws=6000)[600:].reshape(30, 200, 4)
        distances = []
        for values, truth in ((batches, mean), (np.square(batches - mean), covariance.diagonal())):
            means = values.mean(axis=1)
            error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
            assert (error < 0.1 * np.sqrt(covariance.diagonal())).all()
            distances.append(np.abs(means.mean(axis=0) - truth) / error)
        return float(np.max(distances))

    assert confirmed(distance, 4.0, seeds=(4, 5)) < 4.0


SETTINGS = {"tune": 500, "draws": 1500, "random_seed": 5}
SHORT, LONG = SETTINGS | {"draws": 500}, SETTINGS | {"draws": 2800}


def hamiltonian_moments(Z, settings):
    model, _ = sparse(Z, jitter=1e-8)
    return agreement.moments(agreement.sample(model, step=pmgp.steps.SparseHMC(model=model), **settings))


def test_with_all_points_as_inducing_inputs_it_has_the_exact_posterior(posterior):
    at_all_points = hamiltonian_moments(X, LONG)
    assert min(m.ess for m in (*at_all_points.values(), *posterior.values())) > 1000
    assert agreement.distance(at_all_points, posterior) < 4.0


def test_with_few_inducing_inputs_it_does_not(posterior):
    """The test above tells a target whose hyper-parameters are biased from the posterior."""
    assert agreement.distance(hamiltonian_moments(X[[0, 9]], SHORT), posterior) > 4.0


def test_the_target_and_its_gradient_are_those_of_pymc(step, rng):
    """PyMC differentiates the graph that SparseHMC takes to pieces."""
    value, gradient, size = value_and_gradient(sparse(X[::3])[0])
    for _ in range(3):
        point = rng.standard_normal(size)
        found, slopes = step.function(point)
        np.testing.assert_allclose(found, value(point), rtol=1e-9)
        np.testing.assert_allclose(slopes, gradient(point), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("n", [1000, 2000])
def test_an_evaluation_needs_memory_for_a_few_n_by_m_matrices(rng, n):
    """At n = 1000 and m = 20 they are 160 kB each, and one that is n x n would be 8 MB; also what is kept for later."""
    inputs = np.linspace(0.0, 50.0, n)[:, None]
    model, _ = sparse(inputs[:: n // 20], inputs=inputs, observed=rng.poisson(1.0, n), jitter=1e-6)
    step = pmgp.steps.SparseHMC(model=model)
    point = np.zeros(step.dimension)
    tracemalloc.start()
    for _ in range(2):
        step.function(point)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 13 * 8 * n * 20


def test_lengths_take_turns_and_the_best_value_wins():
    jumps = SquaredJumps.start(12)
    np.testing.assert_array_equal(jumps.candidates, [2, 4, 8, 12])
    assert jumps.best == 12
    for _ in range(8):
        jumps = jumps.added(jumps.turn, {2: 1.0, 4: 3.0, 8: 4.0, 12: 4.5}[jumps.turn])
    np.testing.assert_array_equal(jumps.counts, 2.0)
    assert jumps.best == 4
    np.testing.assert_array_equal(SquaredJumps.start(1).candidates, [1])


def test_a_density_that_is_not_finite_is_refused_where_the_chain_starts():
    """Data that `pymc.set_data` makes missing, too: PyTensor has them as numbers."""
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.Matern52(1, ls=1.0))
        data = pm.Data("data", TARGETS)
        process.observe("y", process.prior("f", X=X, Xu=X[::3]), dist=lambda f: gaussian(f, NOISE), observed=data)
        methods = pmgp.steps.SparseHMC, pmgp.steps.SparseGibbs
        steps = [method(model=model) for method in methods]
        pm.set_data({"data": np.where(np.arange(len(X)) == 2, np.inf, TARGETS)})
        for step in steps:
            step.setup_chain(np.random.default_rng(0), 0, 10)
            with pytest.raises(ValueError, match="the log-density is not finite where the chain starts"):
                step.step(model.initial_point())
        pm.set_data({"data": np.where(np.arange(len(X)) == 2, np.nan, TARGETS)})
        for method in methods:
            with pytest.raises(ValueError, match="1 observations of 'y' are missing"):
                method(model=model)


def test_what_is_refused():
    with pm.Model() as model:
        pm.Normal("x")
        pm.Poisson("count", 2.0)
    with pytest.raises(ValueError, match="moves only continuous variables, but 'count' is discrete: sum it out"):
        pmgp.steps.SparseHMC(model=model)
    model, _ = sparse(X[::3], poisson)
    with pytest.raises(ValueError, match="moves all variables together; give it lengthscale_log__, f_rotated_ too"):
        pmgp.steps.SparseHMC([model["variance"]], model=model)
    with pytest.raises(ValueError, match="max_leapfrog must be an integer of at least 1, not 0"):
        pmgp.steps.SparseHMC(max_leapfrog=0, model=model)
