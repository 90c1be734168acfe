"""The pseudo-marginal chain with JAX's matrices: NumPy's draws from the same seed, a store, and words."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp.interface.model.taking_apart import take_apart

jax = pytest.importorskip("jax")
from pmgp.core.dense_jax.gaussians import JaxApproximation  # noqa: E402
from pmgp.interface.dense_jax import model as jax_model  # noqa: E402
from pmgp.interface.dense_jax.covariance import JaxCovariance  # noqa: E402
from pmgp.steps import JaxMatrices  # noqa: E402
from tests.quick_compilation import quick_compilation  # noqa: E402, F401

N = 20
RNG = np.random.default_rng(8)
X = RNG.uniform(size=(N, 2))
COUNTS = RNG.poisson(np.exp(1.0 + np.sin(4.0 * X[:, 0])))
SETTINGS = {"chains": 1, "cores": 1, "random_seed": 3, "progressbar": False, "quiet": True}


def counts(dimension=1, data=False):
    """Poisson counts, with a length-scale for each of some dimensions, all functions of the first two columns."""
    inputs = X[:, np.arange(dimension) % 2]
    with pm.Model() as model:
        inputs = pm.Data("X", inputs) if data else inputs
        lengthscale = pm.LogNormal("lengthscale", -0.5, 0.5, shape=dimension)
        variance = pm.LogNormal("variance", 0.0, 0.5)
        shift = pm.Normal("shift", 1.0, 0.5)
        kernel = variance * pm.gp.cov.Matern52(dimension, ls=lengthscale) + pm.gp.cov.WhiteNoise(0.1)
        gp = pm.gp.Latent(mean_func=pm.gp.mean.Constant(shift), cov_func=kernel)
        f = gp.prior("f", X=inputs, reparameterize=False)
        pm.Poisson("y", pm.math.exp(f), observed=COUNTS)
    return model


@pytest.fixture(scope="module")
def labels():
    return pmgp.models.classifier(X, X[:, 0] > 0.5)


def drawn(model, backend, **options):
    with model:
        step = pmgp.PseudoMarginal(backend=backend, estimator="importance", **options)
    return pmgp.sample(model, draws=30, tune=40, step=step, **SETTINGS)


def same(one, other, tolerance=1e-5):
    """Whether two runs have the same draws, up to rounding."""
    return all(np.allclose(one.posterior[name], other.posterior[name], atol=tolerance) for name in one.posterior)


STATISTICS = ("log_marginal_likelihood", "acceptance_rate", "importance_draws", "n_cholesky", "n_inverse", "converged")


def test_draws_and_statistics_along_gradients_are_numpy_s():
    model = counts()
    settings = {"approximation": "laplace", "proposal": "hmc"}
    expected, found = (drawn(model, backend, **settings) for backend in ("numpy", "jax"))
    assert same(found, expected)
    for name in STATISTICS:
        assert_allclose(found.sample_stats[name], expected.sample_stats[name], atol=1e-5)


def test_draws_for_labels_are_numpy_s_and_a_twin_s_are_not(labels, monkeypatch):
    expected, found = (drawn(labels, backend) for backend in ("numpy", "jax"))
    assert same(found, expected)
    # The twin forgets the determinant in its weights.
    whole = JaxApproximation.log_normalizer.func
    twin = property(lambda q: whole(q) + 0.5 * q.log_determinant)
    monkeypatch.setattr(JaxApproximation, "log_normalizer", twin)
    assert not same(drawn(labels, "jax"), expected)


def test_theta_without_convergence_is_flagged_and_replaced(labels):
    approximation = pmgp.approximations.ExpectationPropagation(tolerance=1e-12, max_sweeps=2)
    with pytest.warns(UserWarning, match="did not converge"):
        expected, found = (drawn(labels, backend, approximation=approximation) for backend in ("numpy", "jax"))
    assert not found.sample_stats["converged"].all()
    assert same(found, expected)


def test_a_run_goes_on_after_an_interruption(labels, tmp_path, monkeypatch):
    def step():
        with labels:
            return pmgp.PseudoMarginal(backend="jax")

    whole = pmgp.sample(labels, draws=30, tune=30, step=step(), **SETTINGS)
    own, made = pmgp.PseudoMarginal._update, []

    def interrupted(self, point):
        made.append(point)
        if len(made) == 45:
            raise RuntimeError("killed")
        return own(self, point)

    with monkeypatch.context() as patched:
        patched.setattr(pmgp.PseudoMarginal, "_update", interrupted)
        with pytest.raises(RuntimeError, match="killed"):
            pmgp.sample(labels, draws=30, tune=30, step=step(), out=tmp_path / "run", flush_every=0.0, **SETTINGS)
    rest = {name: value for name, value in SETTINGS.items() if name not in ("chains", "random_seed")}
    resumed = pmgp.resume(tmp_path / "run", labels, step=step(), **rest)
    assert same(resumed, whole, tolerance=0.0)


def covariances(model):
    parts = take_apart(model)
    return parts, JaxCovariance(parts.latent_prior.mean, parts.latent_prior.covariance, parts.theta)


def test_covariances_and_their_gradients_are_numpy_s():
    model = counts(2, data=True)
    parts, covariance = covariances(model)
    theta, bar, mean_bar = parts.initial_theta + 0.1, RNG.normal(size=(N, N)), RNG.normal(size=N)
    bar = bar + bar.T
    for _ in range(2):
        prior, expected = covariance(theta), parts.prior(theta)
        assert_allclose(np.tril(prior.covariance), np.tril(expected.covariance), atol=1e-12)
        assert_allclose(prior.mean, expected.mean)
        found = covariance.pullback(theta, bar, mean_bar)
        assert_allclose(found, parts.covariance_pullback(theta, bar, mean_bar), atol=1e-10)
        with model:
            pm.set_data({"X": 2.0 * X})
        parts.refresh_data()


def test_a_pickled_step_method_is_at_home_where_it_is_read(labels):
    with labels:
        step = pmgp.PseudoMarginal(backend=JaxMatrices("cpu:0"))
    theta, made = step.latent_model.initial_theta, step._computed
    sent = cloudpickle.dumps(step)
    assert made.prior(theta).size == N
    # As in a forked process, which has another number.
    made.covariance._process = -1
    with pytest.raises(RuntimeError, match="cores=1"):
        made.prior(theta)
    assert cloudpickle.loads(sent)._computed.prior(theta).size == N


def refused(model, **arguments):
    with model:
        pmgp.PseudoMarginal(**arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"backend": "torch"}, "unknown backend 'torch'; known are jax, numpy"),
        ({"backend": JaxMatrices("tpu")}, "here. Install JAX for that device"),
        ({"backend": JaxMatrices("cpu:99")}, "device='cpu:99'"),
        ({"backend": "jax", "estimator": "annealed"}, 'AnnealedImportanceSampling use backend="numpy"'),
        ({"backend": "jax", "estimator": "orthant"}, 'OrthantSampling use backend="numpy"'),
        ({"backend": "jax", "estimator": "sequential"}, 'SequentialSampling use backend="numpy"'),
    ],
)
def test_words_for_settings(labels, arguments, words):
    with pytest.raises(ValueError, match=words):
        refused(labels, **arguments)


def test_words_for_memory(labels, monkeypatch):
    with pytest.raises(ValueError, match="positive number of bytes"):
        JaxMatrices(memory=0.0)
    with pytest.raises(MemoryError, match=r"holds up to 1\d matrices of 3.2e-06 GB"):
        refused(labels, backend=JaxMatrices(memory=1e4))
    # What is known of the compiled programs bounds what is held, so that 30 matrices are enough.
    refused(labels, backend=JaxMatrices(memory=30 * 8.0 * N**2))
    monkeypatch.setattr(jax_model, "memory_of", lambda device: 1e4)
    with pytest.raises(MemoryError, match="inducing inputs"):
        refused(labels, backend="jax")


@pytest.mark.parametrize(
    ("markov", "several", "words"), [(True, False, "f has a sparse precision"), (False, True, "several latent vectors")]
)
def test_words_for_models(markov, several, words):
    parts = SimpleNamespace(
        latent_prior=SimpleNamespace(markov=markov), latent_vector=SimpleNamespace(several=several), latent_name="f"
    )
    with pytest.raises(ValueError, match=words):
        JaxMatrices().model(parts)


def test_words_without_jax(labels, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install 'pmgp\[jax\]'"):
        refused(labels, backend="jax")
