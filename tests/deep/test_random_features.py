"""Random features in a PyMC model: their gradients, the kernel that they have, and a posterior in closed form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pmgp
from pmgp.core.deep.features import KERNELS

X = np.random.default_rng(1).normal(size=(6, 2))


def process(scale=1.0, variance=1.0, features=5, **given):
    return pmgp.gp.RandomFeatures(cov_func=variance * pm.gp.cov.ExpQuad(2, ls=scale), features=features, **given)


def test_gradients_are_those_of_jax():
    scale, variance, inputs = pt.dvector("scale"), pt.dscalar("variance"), pt.dmatrix("inputs")
    weights = np.random.default_rng(2).normal(size=(6, 10))
    gp = process(scale, variance)
    given = {scale: np.array([0.7, 1.4]), variance: np.array(1.7), inputs: X}
    found = pt.grad((gp.matrix(inputs) * weights).sum(), list(given))

    def value(scale, variance, inputs):
        return jnp.sum(KERNELS["rbf"].features((inputs / scale) @ gp._normals, variance) * weights)

    with jax.enable_x64(True):
        expected = jax.grad(value, argnums=(0, 1, 2))(*given.values())
        for one, other in zip(found, expected, strict=True):
            value_here = one.eval(given, on_unused_input="ignore", mode="FAST_COMPILE")
            assert value_here == pytest.approx(np.asarray(other), rel=1e-10, abs=1e-12)


def test_products_of_many_features_are_the_kernel():
    cov = 1.5 * pm.gp.cov.ExpQuad(3, ls=0.8, active_dims=[0, 2])
    inputs = np.random.default_rng(3).normal(size=(6, 3))
    Phi = pmgp.gp.RandomFeatures(cov_func=cov, features=40_000).matrix(inputs).eval(mode="FAST_COMPILE")
    assert Phi @ Phi.T == pytest.approx(cov(inputs).eval(mode="FAST_COMPILE"), abs=5 * 1.5 / np.sqrt(40_000))


def test_a_model_of_it_is_bayesian_linear_regression():
    """Its log density is that of standard normal weights and of y about Phi w, less the one of no weights."""
    rng = np.random.default_rng(4)
    y, weights = rng.normal(size=6), rng.normal(size=10)
    with pm.Model() as model:
        f = process().prior("f", X)
        pm.Normal("y", f, 0.5, observed=y)
    density = model.compile_logp(mode="FAST_COMPILE")
    found = density({"f_weights": weights}) - density({"f_weights": np.zeros(10)})
    Phi = process().matrix(X).eval(mode="FAST_COMPILE")
    expected = (((y**2).sum() - ((y - Phi @ weights) ** 2).sum()) / 0.25 - (weights**2).sum()) / 2
    assert found == pytest.approx(expected, rel=1e-11)


def test_a_deep_process_has_gradients_in_all_layers():
    with pm.Model() as model:
        hidden = process().prior("hidden", X)
        deep = pmgp.gp.RandomFeatures(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0), features=4)
        pm.Normal("y", deep.prior("f", hidden[:, None]), 1.0, observed=np.ones(6))
        deep.conditional("f_new", hidden[:2, None])
    gradient = model.compile_dlogp(mode="FAST_COMPILE")(
        model.initial_point(0) | {"hidden_weights": np.ones(10), "f_weights": np.ones(8)}
    )
    assert gradient.shape == (18,)
    assert (gradient != 0).all()


def test_a_constant_covariance_is_a_variance():
    kernel = pm.gp.cov.ExpQuad(1, ls=1.0)
    plain, constant = (
        pmgp.gp.RandomFeatures(cov_func=cov_func, features=5).matrix(X).eval()
        for cov_func in (2.0 * kernel, pm.gp.cov.Constant(2.0) * kernel)
    )
    np.testing.assert_allclose(constant, plain)
    assert not np.allclose(constant, pmgp.gp.RandomFeatures(cov_func=kernel, features=5).matrix(X).eval())


def test_what_is_refused():
    with pytest.raises(ValueError, match="features=0: give an integer of at least 1"):
        process(features=0)
    with pytest.raises(ValueError, match="this one has Matern52"):
        pmgp.gp.RandomFeatures(cov_func=2.0 * pm.gp.cov.Matern52(1, ls=1.0))
    with pytest.raises(ValueError, match=r"a variance has the shape \(2, 2\)"):
        pmgp.gp.RandomFeatures(cov_func=np.eye(2) * pm.gp.cov.ExpQuad(1, ls=1.0))
    with pytest.raises(ValueError, match="X must be a table"):
        process().matrix([0.0, 1.0])
    with pytest.raises(ValueError, match="call prior"):
        process().conditional("f", X)
