"""What other packages' NUTS are given: the graph as it stands, by JAX and by Numba."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from tests.sparse.problems import COUNTS, LABELS, X, hyperparameters, poisson, probit, sparse
from tests.theta_updates import agreement

CLASSES = np.minimum(COUNTS, 2)


MODELS = {
    "counts": (poisson, COUNTS, 1),
    "counts, a data Z": (poisson, COUNTS, 1),
    "labels, by quadrature": (probit, LABELS, 1),
    "classes": (pmgp.likelihoods.RobustMax.dist, CLASSES, 3),
}


def model_of(kind, inducing=X[::3]):
    dist, observed, outputs = MODELS[kind]
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        Z = pm.Data("Z", inducing) if kind.endswith("Z") else inducing
        f = process.prior("f", X=X, Xu=Z, n_outputs=outputs)
        process.observe("y", f, dist=dist, observed=observed)
    return model


@pytest.mark.parametrize("kind", [kind for kind in MODELS if "Z" not in kind])
def test_jax_has_the_density_and_its_gradient(rng, kind):
    """What NumPyro, and nutpie with its backend for JAX, follow: compiled, which rounds in other places."""
    jax = pytest.importorskip("jax")
    check_compiled(jax, model_of(kind), rng)


def test_jax_has_the_gradient_where_inducing_inputs_are_nearly_inputs(rng):
    """Grids that are made in two ways have points in common but for a rounding error, and others between them."""
    jax = pytest.importorskip("jax")
    nearly = np.concatenate([X[::3] * (1.0 + 1e-15), X[1:2] + 0.2])
    for kind in ("counts", "counts, a data Z"):
        check_compiled(jax, model_of(kind, nearly), rng)


def check_compiled(jax, model, rng):
    """At points where a squared distance of zero may be rounded to either side."""
    from pymc.sampling.jax import get_jaxified_logp

    density = jax.jit(jax.value_and_grad(get_jaxified_logp(model, negative_logp=True)))
    value, slope = (model.compile_fn(one(), mode=INTERPRETED) for one in (model.logp, model.dlogp))
    for _ in range(10):
        point = {name: rng.standard_normal(np.shape(start)) for name, start in model.initial_point().items()}
        found, gradient = density([np.asarray(part) for part in point.values()])
        np.testing.assert_allclose(found, value(point), rtol=1e-6)
        flat = np.concatenate([np.ravel(part) for part in gradient])
        np.testing.assert_allclose(flat, slope(point), rtol=1e-5, atol=1e-6)


SETTINGS = {"tune": 500, "draws": 1000, "random_seed": 7}


@pytest.fixture(scope="module")
def by_gibbs():
    """Moments of the hyper-parameters by a sampler that compiles nothing."""
    model, _ = sparse(X[::3])
    return agreement.moments(agreement.sample(model, step=pmgp.steps.SparseGibbs(model=model), **SETTINGS))


@pytest.mark.parametrize("package", ["nutpie", "numpyro"])
def test_other_packages_sample_the_same(by_gibbs, package):
    pytest.importorskip(package)
    model, _ = sparse(X[::3])
    found = agreement.moments(agreement.sample(model, nuts_sampler=package, **SETTINGS))
    assert min(m.ess for m in (*found.values(), *by_gibbs.values())) > 200
    assert agreement.distance(found, by_gibbs) < 4.0
