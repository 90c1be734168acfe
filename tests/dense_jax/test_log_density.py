"""Log-densities of processes on inducing inputs by JAX: NumPy's values, gradients and draws; memory, and processes."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import pmgp

pytest.importorskip("jax")
from pmgp.interface.dense_jax import data
from pmgp.steps import JaxMatrices, SparseHMC
from tests.quick_compilation import quick_compilation  # noqa: F401

RNG = np.random.default_rng(5)
X = RNG.normal(size=(25, 3))
LABELS = RNG.integers(0, 3, 25)


@pytest.fixture(scope="module")
def model():
    """Return three classes by robust-max on five inducing inputs, with a length-scale for each column."""
    with pm.Model() as model:
        lengthscale, variance = pm.Gamma("lengthscale", 3.0, 3.0, shape=3), pm.Gamma("variance", 3.0, 3.0)
        gp = pmgp.gp.Sparse(cov_func=variance * pm.gp.cov.ExpQuad(3, ls=lengthscale))
        f = gp.prior("f", X=pm.Data("X", X), Xu=X[:5] + 0.1, n_outputs=3)
        gp.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=pm.Data("labels", LABELS))
    return model


@pytest.fixture(scope="module")
def steps(model):
    """Return NumPy's step method and JAX's, whose program has the 15 elements of the inducing inputs as an argument."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(data, "LARGE", 14)
        return [SparseHMC(model=model, backend=backend) for backend in ("numpy", "jax")]


def differences(found, expected, points=3):
    """Return the largest differences of values and of gradients, relative to the gradient, at random points."""
    at = [np.random.default_rng(seed).normal(size=19) for seed in range(points)]
    pairs = [(found(point), expected(point)) for point in at]
    values = [abs(one[0] / other[0] - 1.0) for one, other in pairs]
    return max(values), max(np.abs(one[1] - other[1]).max() / np.abs(other[1]).max() for one, other in pairs)


def test_the_value_and_the_gradient_are_numpy_s_and_a_twin_s_are_not(model, steps, monkeypatch):
    numpy, jax = steps
    assert max(differences(jax.function, numpy.function)) < 1e-9
    # The twin forgets the Jacobians of the logarithms of theta.
    whole = pm.Model.logp
    monkeypatch.setattr(pm.Model, "logp", lambda self: whole(self, jacobian=False))
    assert min(differences(jax.function, SparseHMC(model=model).function)) > 1e-3


def test_draws_are_numpy_s(steps):
    draws = []
    for step in steps:
        step.setup_chain(np.random.default_rng(1), 20, 5)
        point, found = step._named(np.full(19, 0.1)), []
        for _ in range(25):
            point, [statistics] = step.step(point)
            found.append([*step._vector(point), statistics["acceptance_rate"]])
        draws.append(found)
    assert_allclose(draws[1], draws[0], atol=1e-6)
    assert len(np.unique(np.array(draws[1])[:, 0])) > 10


def test_data_that_change_are_read_again(model, steps):
    numpy, jax = steps
    before = jax.function(np.zeros(19))[1]
    for rows in (slice(None, None, -1), slice(10)):
        with model:
            pm.set_data({"X": X[rows], "labels": LABELS[rows]})
        for step in steps:
            step.setup_chain(np.random.default_rng(1), 0, 1)
        assert max(differences(jax.function, numpy.function, points=1)) < 1e-9
    assert np.abs(jax.function(np.zeros(19))[1] - before).max() > 0.1


@pytest.fixture(scope="module")
def normal():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    return model


def test_a_pickled_step_method_is_at_home_where_it_is_read(normal):
    step = SparseHMC(model=normal, backend=JaxMatrices("cpu:0"))
    sent, point = cloudpickle.dumps(step), np.array([1.0, -2.0])
    assert_allclose(step.function(point)[1], -point)
    # As in a forked process, which has another number.
    step.function._process = -1
    with pytest.raises(RuntimeError, match="cores=1"):
        step.function(point)
    assert_allclose(cloudpickle.loads(sent).function(point)[1], -point)


def test_words_for_memory(normal):
    with pytest.raises(MemoryError, match=r"gradient of the log-density takes .* and 1e-09 GB are allowed: use a dev"):
        SparseHMC(model=normal, backend=JaxMatrices(memory=1.0))
