"""Importance sampling of theta with JAX's covariance: NumPy's evidences, gradients and weights, and words."""

from __future__ import annotations

import sys
import tracemalloc

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp.interface.importance import targets as importance_targets
from pmgp.interface.importance.targets import MarginalTarget

jax = pytest.importorskip("jax")
from pmgp.core.dense_jax import programs  # noqa: E402
from pmgp.interface.dense_jax import devices, evidence  # noqa: E402
from pmgp.interface.model.observed_normal import observed_normal  # noqa: E402
from pmgp.interface.steps.matrices import NUMPY  # noqa: E402
from pmgp.steps import JaxMatrices  # noqa: E402
from tests.quick_compilation import quick_compilation  # noqa: E402, F401

N = 30
RNG = np.random.default_rng(5)
X = RNG.uniform(size=(N, 2))
Y = np.sin(6.0 * X[:, 0]) + 0.2 * RNG.normal(size=N)


def observations(kernel=pm.gp.cov.Matern52, X=X, y=Y, noise=True):
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", -0.5, 0.5, shape=2)
        shift = pm.Normal("shift", 0.0, 0.5)
        gp = pm.gp.Marginal(mean_func=pm.gp.mean.Constant(shift), cov_func=kernel(2, ls=lengthscale))
        gp.marginal_likelihood("y", X, y, sigma=pm.HalfNormal("sigma", 0.5) if noise else 0.0, jitter=0.0)
    return model


def targets(model, **settings):
    return [MarginalTarget(model, model["y"], matrices=one) for one in (NUMPY, JaxMatrices(**settings))]


@pytest.mark.parametrize("kernel", [pm.gp.cov.Matern52, pm.gp.cov.ExpQuad])
def test_evidences_and_gradients_are_numpy_s(kernel, monkeypatch):
    model = observations(kernel)
    numpy, found = targets(model)
    theta = numpy.theta.initial + 0.1
    value, gradient = numpy.density(theta)
    assert_allclose(found.value(theta), value, rtol=0.0, atol=1e-9)
    assert_allclose(found.density(theta)[0], value, rtol=0.0, atol=1e-9)
    assert_allclose(found.density(theta)[1], gradient, rtol=1e-8)
    # The twin forgets the determinant.
    monkeypatch.setattr(programs, "_log_normal", lambda factor, squares: -0.5 * squares)
    *_, twin = targets(model)
    assert abs(twin.value(theta) - value) > 1.0


def test_estimated_gradients_are_numpy_s(monkeypatch):
    monkeypatch.setattr(importance_targets, "MANY", N)
    numpy, found = targets(observations())
    theta = numpy.theta.initial + 0.1
    for own, expected in zip(found.climbed(theta), numpy.climbed(theta), strict=True):
        assert_allclose(own, expected, rtol=1e-8)
    assert np.abs(found.climbed(theta)[1] - found.density(theta)[1]).max() > 1e-3


def test_an_indefinite_covariance_gets_numpy_s_jitter_or_has_no_density():
    vectors = np.linalg.qr(RNG.normal(size=(N, N)))[0]
    covariance = (vectors * np.linspace(-3e-7, 2.0, N)) @ vectors.T
    with pm.Model() as model:
        pm.MvNormal("y", np.zeros(N), cov=pm.LogNormal("scale") * covariance, observed=Y)
    numpy, found = targets(model)
    theta = np.array([0.3])
    # The eigenvalue that the jitter leaves has few digits.
    assert_allclose(found.value(theta), numpy.value(theta), rtol=1e-6)
    value, gradient = found.density(theta)
    assert_allclose(value, found.value(theta), rtol=1e-6)
    # N(y|0, s C) has n log s / 2, and y'C^-1 y / 2 s; the jitter is in units of the variance.
    quadratic = -found._evidence.value(theta) - 0.5 * N * (theta[0] + np.log(2.0 * np.pi))
    raised = np.exp(theta[0]) * (covariance + 1e-6 * covariance.diagonal().mean() * np.eye(N))
    quadratic -= 0.5 * np.linalg.slogdet(raised / np.exp(theta[0]))[1]
    assert_allclose(gradient[0], -theta[0] - 0.5 * N + quadratic, rtol=1e-4)
    nowhere = np.array([np.nan])
    assert found.evidence(nowhere)[0] == found._evidence.value(nowhere) == -np.inf


@pytest.mark.parametrize("latent", [False, True])
def test_weights_are_numpy_s(latent):
    model = pmgp.models.classifier(X, X[:, 0] > 0.5) if latent else observations()
    settings = {"draws": 100, "random_seed": 2, "progressbar": False}
    expected, found = (pmgp.importance(model, backend=one, **settings) for one in ("numpy", "jax"))
    for name in ("theta", "log_weight"):
        assert_allclose(found["importance"][name], expected["importance"][name], atol=1e-3)
    assert_allclose(found.attrs["log_evidence"], expected.attrs["log_evidence"], atol=1e-4)


def test_a_pickled_target_is_at_home_where_it_is_read():
    *_, target = targets(observations(), device="cpu:0")
    theta = target.theta.initial
    expected, sent = target.value(theta), cloudpickle.dumps(target)
    # As in a forked process, which has another number.
    target._evidence._covariance._process = -1
    with pytest.raises(RuntimeError, match="cores=1"):
        target.value(theta)
    assert cloudpickle.loads(sent).value(theta) == expected


def test_memory_is_that_of_the_compiled_programs_and_known_before_the_work_begins(monkeypatch):
    model = observations()
    parts = observed_normal(model, model["y"])
    needed = evidence.JaxEvidence(parts).needed(parts.theta.initial)
    assert 3.0 < needed / (8 * N**2) < 8.0
    assert evidence.JaxEvidence.within(parts, None, needed).value(parts.theta.initial) < 0.0
    with pytest.raises(MemoryError, match=r"30 observations and its gradient take .* inducing inputs"):
        pmgp.importance(model, backend=JaxMatrices(memory=needed - 1))
    monkeypatch.setattr(evidence, "memory_of", lambda device: 1e4)
    with pytest.raises(MemoryError, match="1e-05 GB are allowed"):
        pmgp.importance(model, backend="jax")


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory", MemoryError, "XLA_PYTHON_CLIENT_MEM_FRACTION"),
        ("INTERNAL", jax.errors.JaxRuntimeError, "INTERNAL"),
    ],
)
def test_a_program_that_cannot_be_compiled_for_want_of_memory_says_what_to_do(said, error, words):
    class Lowered:
        def compile(self):
            raise jax.errors.JaxRuntimeError(said)

    with pytest.raises(error, match=words):
        devices.compiled(Lowered())


def test_no_matrix_is_computed_on_the_host_while_programs_are_made():
    size = 2000
    model = observations(X=RNG.uniform(size=(size, 2)), y=np.zeros(size))
    parts = observed_normal(model, model["y"])
    tracemalloc.start()
    found = evidence.JaxEvidence(parts)
    found._programs.value.__wrapped__.lower(*found._covariance.at(parts.theta.initial), parts.y, 0.0)
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert highest < 0.9 * 8 * size**2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"backend": "torch"}, "unknown backend 'torch'; known are jax, numpy"),
        ({"backend": JaxMatrices("tpu")}, "here. Install JAX for that device"),
        ({"backend": "jax", "estimator": "annealed"}, 'AnnealedImportanceSampling use backend="numpy"'),
    ],
)
def test_words_for_settings(arguments, words):
    model = pmgp.models.classifier(X, X[:, 0] > 0.5) if "estimator" in arguments else observations()
    with pytest.raises(ValueError, match=words):
        pmgp.importance(model, **arguments)


def test_words_without_jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install 'pmgp\[jax\]'"):
        pmgp.importance(observations(), backend="jax")
