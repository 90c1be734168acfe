"""Hyper-parameters given whitened values in coordinates of theta: the right distribution, and PyMC's contract."""

from __future__ import annotations

import pickle

import numpy as np
import pymc as pm
import pytest

import pmgp
from case_studies.sparse.replicas import Replica
from case_studies.sparse.tempering import SparseTempering
from pmgp.core.inducing import GaussianFit, ModeSearch, ThetaDensity
from tests.sparse.problems import COUNTS, LABELS, TARGETS, X, gaussian, hyperparameters, poisson, probit, sparse
from tests.theta_updates import agreement

Z = X[::3]


def known_at(step, theta):
    shape = step.function.shape
    return ThetaDensity(step.function.at, np.zeros(shape), ModeSearch(None, np.zeros(shape))).at(theta).payload


def classes():
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 0.5, shape=2)
        level = pm.Normal("level")
        process = pmgp.gp.Sparse(
            mean_func=pm.gp.mean.Constant(level), cov_func=[pm.gp.cov.Matern52(1, ls=scale[k]) for k in range(2)]
        )
        f = process.prior("f", X=X, Xu=Z, n_outputs=2)
        process.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=COUNTS % 2)
    return model


def shared():
    """Two outputs of one covariance, observed with noise, beside another likelihood of theta."""
    with pm.Model() as model:
        noise = pm.LogNormal("noise", -1.0, 0.5)
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=Z, n_outputs=2)
        process.observe("y", f, noise, dist=gaussian, observed=np.stack([TARGETS, -TARGETS]))
        pm.Normal("measured", model["lengthscale"], 0.3, observed=[0.8, 1.1])
    return model


def twice():
    """Labels and counts of one process."""
    model, process = sparse(Z, probit, LABELS)
    with model:
        process.observe("z", process.marginals(X), dist=poisson, observed=COUNTS)
    return model


def with_dims():
    """Two outputs of one covariance, whose lengths are those of dimensions, in a model with a name."""
    with pm.Model(name="named", coords={"output": ["a", "b"], "inducing": range(len(Z))}) as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=Z, n_outputs=2, dims=("output", "inducing"))
        process.observe("y", f, dist=lambda f: gaussian(f, 0.4), observed=np.stack([TARGETS, -TARGETS]))
    return model


MODELS = {
    "counts": lambda: sparse(Z)[0],
    "labels": lambda: sparse(Z, probit, LABELS)[0],
    "classes": classes,
    "outputs": shared,
    "dims": with_dims,
}


@pytest.mark.parametrize("name", MODELS)
def test_parts_add_up_to_the_model_s_own_log_density(name, rng):
    """In v, and in w with the Jacobian of its coordinates; the study's tempering has parts of its own."""
    model = MODELS[name]()
    step, whole = pmgp.steps.SparseGibbs(model=model), pmgp.steps.SparseHMC(model=model)
    tempering = SparseTempering(model=model)
    for _ in range(3):
        theta = 0.5 * rng.standard_normal(step._theta_dimension)
        known, v = known_at(step, theta), rng.standard_normal(step.function.shape)
        expected = whole.function(whole._vector(step._moved(theta, v)))[0]
        w = known.fit.whitened(v)
        np.testing.assert_allclose(known.log_density(w) - known.fit.log_jacobian - normalizer(v), expected, rtol=1e-9)
        expected = whole.function(whole._vector(tempering._moved(theta, v)))[0]
        at = tempering.function.known_at(theta)
        found = Replica.of(theta, v, at).log_density(1.0) - normalizer(v)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
        np.testing.assert_allclose(at.whitened(at.inducing(v)), v, atol=1e-8)


def normalizer(v):
    return 0.5 * v.size * np.log(2.0 * np.pi)


def chain(step, seed=0, tune=60, draws=10, begin=0, point=None):
    """Positions of a chain that has been set up, unless it goes on from a point; and its last point."""
    if not begin:
        step.setup_chain(np.random.default_rng(seed), tune, draws)
    point = step._named(np.zeros(step.dimension)) if point is None else point
    positions = []
    for iteration in range(begin, tune + draws):
        if iteration == tune:
            step.stop_tuning()
        point, _ = step.step(point)
        positions.append(step._vector(point))
    return np.array(positions), point


@pytest.fixture(scope="module")
def step():
    """Return the step of a model with counts."""
    return pmgp.steps.SparseGibbs(model=sparse(Z)[0])


def test_the_same_seed_gives_the_same_chain_whatever_came_before(step):
    first, _ = chain(step, seed=1)
    chain(step, seed=2)
    np.testing.assert_array_equal(chain(step, seed=1)[0], first)
    assert len(np.unique(first[:, 0])) > 20


@pytest.mark.parametrize(("tune", "draws"), [(3, 0), (40, 0), (60, 0), (60, 2)])
def test_a_restored_state_and_a_pickled_step_repeat_the_next_draws(step, tune, draws):
    point = chain(step, seed=1, tune=tune, draws=draws)[1]
    state, copy = step.sampling_state, pickle.loads(pickle.dumps(step))
    expected, _ = chain(step, begin=1, tune=0, draws=6, point=point)
    step.sampling_state = state
    np.testing.assert_array_equal(chain(step, begin=1, tune=0, draws=6, point=point)[0], expected)
    np.testing.assert_array_equal(chain(copy, begin=1, tune=0, draws=6, point=point)[0], expected)


def test_nothing_is_learned_after_tuning(step):
    point = chain(step, seed=3, tune=400, draws=1)[1]
    learned, angle = step.learned, step.angle
    start, coefficients = step.start.copy(), step.predictor.coefficients.copy()
    chain(step, begin=1, tune=0, draws=20, point=point)
    assert step.learned is learned
    assert step.angle is angle
    np.testing.assert_array_equal(step.start, start)
    np.testing.assert_array_equal(step.predictor.coefficients, coefficients)


def test_a_point_that_another_step_has_moved_is_taken_as_it_is(step, rng):
    """W is computed from it: theta and v come back where nothing is accepted."""
    chain(step, seed=4)
    point = step._named(rng.standard_normal(step.dimension))
    known = step._at(point, step.function.theta_of(point))
    back = step._moved(step.function.theta_of(point), known.values(step.w))
    np.testing.assert_allclose(step._vector(back), step._vector(point), atol=1e-9)


def test_hyperparameters_that_are_known_stay_away():
    """The length of the whitened values may be that of a dimension."""
    with pm.Model(coords={"inducing": range(len(Z))}) as model:
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.Matern52(1, ls=1.0))
        f = process.prior("f", X=X, Xu=Z, dims="inducing")
        process.observe("y", f, dist=poisson, observed=COUNTS)
    draws, _ = chain(pmgp.steps.SparseGibbs(model=model), tune=5, draws=20)
    assert len(np.unique(draws[:, 0])) == 25


SETTINGS = {"tune": 500, "draws": 2000, "random_seed": 6}


@pytest.fixture(scope="module")
def on_all_points():
    """Return a model; steps for it share its parts."""
    return sparse(X, jitter=1e-8)[0]


def gibbs_moments(model, **options):
    return agreement.moments(agreement.sample(model, step=pmgp.steps.SparseGibbs(model=model, **options), **SETTINGS))


@pytest.mark.parametrize("options", [{}, {"trajectories": 0, "slices": 10}], ids=["trajectories", "slices"])
def test_with_all_points_as_inducing_inputs_it_has_the_exact_posterior(on_all_points, posterior, options):
    found = gibbs_moments(on_all_points, **options)
    assert min(m.ess for m in found.values()) > 1000
    assert agreement.distance(found, posterior) < 4.0


def test_without_the_jacobian_it_does_not(on_all_points, posterior, monkeypatch):
    monkeypatch.setattr(GaussianFit, "log_jacobian", 0.0)
    assert agreement.distance(gibbs_moments(on_all_points), posterior) > 4.0


def test_data_are_read_again():
    with pm.Model() as model:
        inputs, observed = pm.Data("X", X), pm.Data("observed", COUNTS)
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=inputs, Xu=Z, jitter=1e-10)
        process.observe("y", f, dist=poisson, observed=observed)
        step = pmgp.steps.SparseGibbs(model=model)
        pm.set_data({"X": X[:4], "observed": COUNTS[4:8]})
    step.setup_chain(np.random.default_rng(0), 0, 1)
    assert density_at(step) == pytest.approx(density_at(on_four(COUNTS[4:8])))
    # Another step shares the parts of the model, with the data of today.
    with model:
        pm.set_data({"observed": COUNTS[:4]})
        another = pmgp.steps.SparseGibbs()
    assert another.function is step.function
    assert density_at(another) == pytest.approx(density_at(on_four(COUNTS[:4])))


def test_impossible_data_are_refused_with_their_rows():
    with pm.Model() as model:
        data = pm.Data("data", COUNTS)
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.Matern52(1, ls=1.0))
        process.observe("y", process.prior("f", X=X, Xu=Z), dist=poisson, observed=data)
        pm.set_data({"data": np.where(np.arange(len(X)) == 3, -1, COUNTS)})
    for used in (pmgp.steps.SparseGibbs, lambda model: pmgp.gp.optimize_inducing(process, model=model)):
        with pytest.raises(ValueError, match=r"minus infinity or not a number for the observations in row 3 \(-1\)"):
            used(model=model)


def on_four(observed):
    return pmgp.steps.SparseGibbs(model=sparse(Z, inputs=X[:4], observed=observed)[0])


def density_at(step):
    return known_at(step, np.full(2, 0.3)).log_density(np.full((1, len(Z)), 0.4))


def test_what_is_refused():
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(pmgp.ModelError, match=r"must have one process of pmgp.gp.Sparse, but has none"):
        pmgp.steps.SparseGibbs(model=model)
    with pytest.raises(pmgp.ModelError, match="all observations must be of one process at one set of inputs"):
        pmgp.steps.SparseGibbs(model=twice())
    model, _ = sparse(Z)
    with pytest.raises(ValueError, match="SparseGibbs moves all variables together; give it lengthscale_log__"):
        pmgp.steps.SparseGibbs([model["variance"]], model=model)
    with pytest.raises(ValueError, match="slices must be 1 or more, not 0"):
        pmgp.steps.SparseGibbs(slices=0, model=model)
    with pytest.raises(ValueError, match="trajectories must be 0 or more, not -1"):
        pmgp.steps.SparseGibbs(trajectories=-1, model=model)
    with model:
        pm.Potential("penalty", -pm.math.sqr(model["f_rotated_"]).sum())
    with pytest.raises(pmgp.ModelError, match="a prior or potential depends on 'f_rotated_'"):
        pmgp.steps.SparseGibbs(model=model)


@pytest.mark.parametrize("step", [pmgp.steps.SparseGibbs, pmgp.steps.SparseHMC])
def test_conditionals_at_new_inputs_are_left_for_later(step):
    model, process = sparse(Z)
    with model:
        process.conditional("new", X + 0.1)
        with pytest.raises(pmgp.ModelError, match=r"add them to the model after sampling.*var_names=\['new'\]"):
            step()


def test_observations_of_whitened_values_by_other_ways_are_refused():
    model, _ = sparse(Z)
    with model:
        pm.Normal("direct", model["f_rotated_"], 1.0, observed=np.zeros(len(Z)))
    with pytest.raises(pmgp.ModelError, match=r"'direct' depends on the whitened values, but not through gp.observe"):
        pmgp.steps.SparseGibbs(model=model)
