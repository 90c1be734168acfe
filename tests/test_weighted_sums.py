"""Where covariances are sums of fixed matrices times weights, the advice says what samples such models best."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.recommendation.weighted_sums import ADDITIVE_NUTS, number_of_weights

N, CLASSES = 9, 3
RNG = np.random.default_rng(4)
SOURCES = pmgp.gp.Sources({"shape": RNG.normal(size=(N, 3)), "texture": RNG.normal(size=(N, 2))})
LABELS = np.arange(N) % CLASSES
LINEAR = SOURCES.kernels()


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def gamma() -> pt.TensorVariable:
    return pm.Gamma("weights", 2, 2, shape=(CLASSES, 2))


def dirichlet() -> pt.TensorVariable:
    return pm.Dirichlet("weights", pm.Exponential("concentration", 1.0) * np.ones((CLASSES, 2)))


def scaled() -> pt.TensorVariable:
    """By a variance that a Deterministic makes of another variable."""
    return pm.Deterministic("scaled", gamma() * pm.math.exp(pm.Normal("log_variance"))) / 3.0


def constant() -> pm.gp.cov.Covariance:
    return pm.gp.cov.Constant(pm.Gamma("constant", 2, 2))


def radial() -> pm.gp.cov.Covariance:
    return pm.gp.cov.ExpQuad(5, ls=pm.Gamma("lengthscale", 2, 1))


def product() -> pm.gp.cov.Covariance:
    """Return a product of two sums with unknown weights, whose factors of the weights are not fixed."""
    return pmgp.gp.KernelSum(LINEAR, pm.Gamma("u", 2, 2, shape=2)) * pmgp.gp.KernelSum(
        LINEAR, pm.Gamma("v", 2, 2, shape=2)
    )


def classes(weights, rest=None) -> pm.Model:
    with pm.Model() as model:
        X, w = pm.Data("X", SOURCES.X), weights()
        more = None if rest is None else rest()
        kernels = [pmgp.gp.KernelSum(LINEAR, w[c]) for c in range(CLASSES)]
        kernels = kernels if more is None else [kernel + more for kernel in kernels]
        f = [pm.gp.Latent(cov_func=k).prior(f"f{c}", X=X, reparameterize=False) for c, k in enumerate(kernels)]
        pmgp.MultinomialLogit("y", f, observed=LABELS)
    return model


def one_vector(number: int) -> pm.Model:
    """One vector and so many sources, with labels of two kinds."""
    with pm.Model() as model:
        weights = pm.Gamma("weights", 2, 2, shape=number)
        kernels = [(0.5 + s) * pm.gp.cov.Linear(5, c=0.0, active_dims=[s]) for s in range(number)]
        gp = pm.gp.Latent(cov_func=pmgp.gp.KernelSum(kernels, weights))
        pmgp.BernoulliProbit("y", gp.prior("f", X=SOURCES.X, reparameterize=False), observed=LABELS > 0)
    return model


@pytest.mark.parametrize(
    ("weights", "rest", "expected"),
    [
        (gamma, None, 6),
        (gamma, constant, 7),
        (dirichlet, None, 4),
        (scaled, None, 7),
        (gamma, radial, 0),
        (gamma, product, 0),
    ],
)
def test_weights_are_counted_where_the_matrices_are_fixed(weights, rest, expected):
    assert number_of_weights(classes(weights, rest)) == expected


def test_a_covariance_without_hyperparameters_has_no_weights():
    with pm.Model() as model:
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(5, ls=1.0)).prior("f", X=SOURCES.X, reparameterize=False)
        pm.Normal("y", f, pm.HalfNormal("sigma"), observed=np.zeros(N))
    assert number_of_weights(model) == 0


def test_many_weights_are_advised_to_be_whitened_additively():
    recommendation = pmgp.recommend(classes(gamma))
    assert recommendation.alternatives[0] == ADDITIVE_NUTS
    assert recommendation.code == "pmgp.PseudoMarginal()"
    assert "trajectories" not in recommendation.reason
    # Of seven hyper-parameters, one more.
    assert "trajectories" in pmgp.recommend(classes(scaled)).reason
    assert ADDITIVE_NUTS in pmgp.recommend(one_vector(5)).alternatives


def test_few_weights_and_other_kernels_are_not():
    for model in (one_vector(4), classes(gamma, radial)):
        assert ADDITIVE_NUTS not in pmgp.recommend(model).alternatives


def test_the_model_that_is_advised_is_the_same_one():
    """Its f has the covariance of the model as it stands."""
    w = np.array([0.3, 1.7])
    bases = [kernel(SOURCES.X).eval(mode=INTERPRETED) for kernel in LINEAR]
    factors = [np.linalg.cholesky(C + 1e-10 * np.eye(N)) for C in bases]
    L, source = np.hstack(factors), np.repeat([0, 1], N)
    nu = pt.vector("nu")
    f = L @ (pm.math.sqrt(w)[source] * nu)
    by_nu = np.stack([f.eval({nu: unit}) for unit in np.eye(L.shape[1])], axis=1)
    expected = pmgp.gp.KernelSum(LINEAR, w)(SOURCES.X).eval(mode=INTERPRETED)
    np.testing.assert_allclose(by_nu @ by_nu.T, expected, atol=1e-8)
