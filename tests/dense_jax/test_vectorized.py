"""Chains as one program of JAX behind `pmgp.sample`: the trace, the seed, the posterior of NumPy's chain, and words."""

from __future__ import annotations

import sys
from functools import cache
from itertools import islice

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

import pmgp

pytest.importorskip("jax")
from pmgp.core.dense_jax.programs import program
from pmgp.interface.dense_jax import chains as jax_chains
from pmgp.interface.dense_jax.joint_density import JaxJointDensity
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.sampling import vectorized
from tests.quick_compilation import quick_compilation  # noqa: F401

N = 8
RNG = np.random.default_rng(8)
X = RNG.uniform(size=(N, 1))
COUNTS = RNG.poisson(np.exp(1.0 + np.sin(4.0 * X[:, 0])))
SETTINGS = {"random_seed": 3, "progressbar": False, "quiet": True}


@pytest.fixture(scope="module")
def model():
    """Return Poisson counts, in reverse order of f, with data that may change, coordinates and a function of theta."""
    with pm.Model(coords={"point": range(N)}) as model:
        variance = pm.LogNormal("variance", 0.0, 0.5)
        shift = pm.Normal("shift", 1.0, 0.5)
        pm.Deterministic("deviation", pm.math.sqrt(variance))
        kernel = variance * pm.gp.cov.Matern52(1, ls=0.5)
        gp = pm.gp.Latent(mean_func=pm.gp.mean.Constant(shift), cov_func=kernel)
        f = gp.prior("f", X=pm.Data("X", X), dims="point", reparameterize=False)
        pm.Poisson("y", pm.math.exp(f[::-1]), observed=COUNTS[::-1])
    return model


@pytest.fixture(autouse=True, scope="module")
def compiled_once():
    """Runs of the same chains share their programs, which take longer to compile than to run here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jax_chains, "VectorizedChains", cache(jax_chains.VectorizedChains))
        yield


def chains_of(model):
    """Return the chains behind `run`."""
    step = pmgp.PseudoMarginal(model=model, estimator="importance", proposal="mixture", backend="jax")
    return jax_chains.VectorizedChains(model, step.latent_model, 16, vectorized._settings_of(step, model))


def drawn(model, **options):
    return pmgp.sample(
        model, **{"draws": 100, "tune": 100, "chains": 16, "chain_method": "vectorized"} | SETTINGS | options
    )


@pytest.fixture(scope="module")
def run(model):
    return drawn(model)


@pytest.mark.parametrize("name", ["counts", "labels"])
def test_the_density_is_numpy_s(name, model):
    """Also that of a likelihood in closed form, for which NumPy does not use the graph."""
    model = model if name == "counts" else pmgp.models.classifier(X, X[:, 0] > 0.5)
    parts = take_apart(model)
    density, theta = JaxJointDensity(model, parts), parts.initial_theta + 0.2
    f = np.linspace(0.5, 1.5, N)
    log_prior, mean, covariance = map(np.array, program()(density.prior)(density.data, theta))
    terms, likelihood = density.terms(density.data, theta), parts.likelihood(theta)
    gradient, slope = map(np.array, program()(terms.derivatives)(f))
    assert abs(log_prior - parts.log_prior(theta)) < 1e-12
    assert np.abs(np.tril(covariance - parts.prior(theta).covariance)).max() < 1e-12
    assert np.abs(mean - parts.prior(theta).mean).max() < 1e-12
    assert np.abs(np.array(program()(terms.log_density)(f)) - likelihood.log_density(f[None])[0]).max() < 1e-12
    assert np.abs(gradient - likelihood.gradient(f)).max() < 1e-12
    assert np.abs(slope + likelihood.curvature(f)).max() < 1e-12


def test_the_trace_is_pymc_s(model, run):
    assert dict(run.posterior.sizes) == {"chain": 16, "draw": 100, "point": N}
    assert set(run.posterior.data_vars) == {"variance", "shift", "deviation", "f"}
    assert np.allclose(run.posterior["deviation"] ** 2, run.posterior["variance"])
    assert_array_equal(run.observed_data["y"], COUNTS[::-1])
    assert_array_equal(run.constant_data["X"], X)
    statistics = run.sample_stats
    assert bool(statistics["exact"].all())
    assert bool(statistics["converged"].all())
    assert 0.1 < float(statistics["accepted"].mean()) < 0.9
    assert float(statistics["importance_ess"].median()) > 30.0
    assert "R-hat" in run.attrs["pmgp_report"]


def standardized(one, other, name):
    """Return the difference of two means in standard errors, from the means of chains."""
    means = [run.posterior[name].mean("draw").to_numpy() for run in (one, other)]
    variances = [values.var(axis=0, ddof=1) / len(values) for values in means]
    return np.abs(means[0].mean(axis=0) - means[1].mean(axis=0)) / np.sqrt(sum(variances))


def test_the_posterior_is_that_of_numpy_s_chain(model, run):
    with model:
        step = pmgp.PseudoMarginal(estimator="importance", proposal="mixture")
    numpy = pmgp.sample(model, draws=150, tune=100, chains=8, cores=1, step=step, **SETTINGS)
    assert max(standardized(run, numpy, name).max() for name in ("variance", "shift", "f")) < 5.0


def test_the_same_seed_gives_the_same_numbers(model, run):
    """The draws that a run begins with are those of a longer one."""
    same, other = (drawn(model, random_seed=seed, draws=10) for seed in (3, 4))
    assert_array_equal(run.posterior["f"][:, :10], same.posterior["f"])
    assert not np.array_equal(same.posterior["f"], other.posterior["f"])


def test_an_interruption_leaves_the_draws_made_before(model, run, monkeypatch):
    own = chains_of(model)

    def interrupted(*given):
        yield from islice(type(own).iterations(own, *given), 100 + 7)
        raise KeyboardInterrupt

    monkeypatch.setattr(own, "iterations", interrupted)
    found = drawn(model)
    assert found.posterior.sizes["draw"] == 7
    assert_array_equal(found.posterior["f"], run.posterior["f"][:, :7])
    with pytest.raises(pm.exceptions.SamplingError, match="interrupted while tuning"):
        drawn(model, tune=200)


def test_rejections_without_an_approximation_are_said():
    failed = np.array([[False, True]])
    found = {"converged": ~failed, "indefinite": np.zeros_like(failed)}
    statistics = xr.Dataset({name: (("chain", "draw"), values) for name, values in found.items()})
    with pytest.warns(UserWarning, match="at 1 of 2 proposals the approximation did not converge, and they were rej"):
        vectorized._warn(statistics)


def test_words_for_options(model):
    for options, words in {
        "out": "leave out out",
        "ess": "leave out ess",
        "cores": "leave out cores",
        "initvals": "does not take initvals=",
    }.items():
        with pytest.raises(ValueError, match=words):
            drawn(model, **{options: 2})
    with pytest.raises(ValueError, match='must be "parallel" or "vectorized"'):
        drawn(model, chain_method="sequential")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"backend": "numpy"}, r"PseudoMarginal\(backend=\"jax\"\): give that"),
        ({"proposal": "hmc"}, "moves theta on the screen by"),
        ({"delayed_acceptance": False, "proposal": "mixture"}, "moves theta on the screen by"),
        ({"refresh_every": 5}, "refreshes in every iteration"),
        ({"estimator": pmgp.estimators.ImportanceSampling(3, antithetic=False)}, "pairs of importance samples"),
    ],
)
def test_words_for_step_methods(model, settings, words):
    with model:
        step = pmgp.PseudoMarginal(**{"backend": "jax", "estimator": "importance"} | settings)
    with pytest.raises(ValueError, match=words):
        drawn(model, step=step)


def test_words_for_memory(model, run):
    """The program is the one whose memory was checked before the run began."""
    with pytest.raises(MemoryError, match=r"16 chains with 8 latent values take .* GB at once, and 5e-05 GB"):
        chains_of(model).refuse_more_than(50_000.0)


def test_words_for_a_term_that_depends_on_two_values(model):
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.HalfNormal("variance") * pm.gp.cov.ExpQuad(1, ls=0.5))
        f = gp.prior("f", X=X, reparameterize=False)
        pm.Poisson("y", pm.math.exp(f).sum(), observed=3)
    with pytest.raises(pmgp.ModelError):
        drawn(model)


def test_words_without_jax(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install 'pmgp\[jax\]'"):
        drawn(model)
