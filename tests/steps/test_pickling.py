"""Step methods can be pickled by the standard library, and the copy continues as the original does."""

from __future__ import annotations

import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_array_equal

import pmgp
from pmgp.core.transitions.alternation import Alternation
from pmgp.interface.model.taking_apart import take_apart
from tests.steps.test_contract import FAST

LATENT = {
    "slice": lambda model: pmgp.EllipticalSlice(model=model, compile_kwargs=FAST),
    "slice about Laplace": lambda model: pmgp.EllipticalSlice(reference="laplace", model=model, compile_kwargs=FAST),
    "metropolis": lambda model: pmgp.steps.LatentMetropolis(model=model, compile_kwargs=FAST),
    "hmc": lambda model: pmgp.steps.LatentHMC(model=model, compile_kwargs=FAST),
    "smmala": lambda model: pmgp.steps.LatentSMMALA(model=model, compile_kwargs=FAST),
}
THETA = {
    "pseudo-marginal": lambda model: pmgp.PseudoMarginal(model=model, compile_kwargs=FAST),
    "by turns": lambda model: pmgp.PseudoMarginal(proposal=Alternation(), model=model, compile_kwargs=FAST),
    "ancillary": lambda model: pmgp.steps.Ancillary(model=model, compile_kwargs=FAST),
    "ancillary hmc": lambda model: pmgp.steps.Ancillary(operator="hmc", model=model, compile_kwargs=FAST),
    "sufficient": lambda model: pmgp.steps.Sufficient(model=model, compile_kwargs=FAST),
    "interweaving": lambda model: pmgp.steps.Interweaving(model=model, compile_kwargs=FAST),
    "surrogate": lambda model: pmgp.steps.Surrogate(model=model, compile_kwargs=FAST),
    "joint": lambda model: pmgp.steps.JointUpdate(model=model, compile_kwargs=FAST),
}
METHODS = LATENT | THETA
CASES = [(method, "closed form") for method in METHODS] + [
    (method, "graph") for method in ("hmc", "pseudo-marginal", "sufficient")
]
TUNE = 6


def by_graph() -> pm.Model:
    """Terms in several parts, a parameter of the likelihood, and data."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        X = pm.Data("X", np.linspace(0.0, 3.0, 8)[:, None])
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.Matern52(1, ls=1.0))
        f = gp.prior("f", X=X, jitter=0.0, reparameterize=False)
        alpha = pm.Gamma("alpha", 2, 1)
        pm.NegativeBinomial("y", mu=pt.exp(f[:5]), alpha=alpha, observed=[0, 2, 1, 5, 3])
        pm.Normal("z", f[5:], 0.5, observed=[0.1, 0.2, -0.3])
    return model


@pytest.fixture(scope="module")
def models(probit_model) -> dict[str, pm.Model]:
    return {"closed form": probit_model, "graph": by_graph()}


def advance(step, point, start: int, stop: int):
    path = []
    for iteration in range(start, stop):
        if iteration == TUNE:
            step.stop_tuning()
        point, [stats] = step.step(point)
        path.append(np.concatenate([*(point[name].ravel() for name in sorted(point)), [stats["n_cholesky"]]]))
    return point, np.array(path)


@pytest.mark.parametrize(("method", "kind"), CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_copy_continues_identically(models, method, kind):
    model = models[kind]
    step, start = METHODS[method](model), model.initial_point()
    unused = pickle.loads(pickle.dumps(step))
    paths = []
    for each in (step, unused):
        each.setup_chain(np.random.default_rng(5), TUNE, 10)
        paths.append(advance(each, start, 0, TUNE + 2))
    assert_array_equal(paths[0][1], paths[1][1])
    # The copy of a copy, in the middle of a chain. A copy computes again what is cached: matrices of n rows.
    assert any(getattr(step, cache) is not None for cache in step._caches())
    twin = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(step))))
    assert [getattr(twin, cache) for cache in step._caches()] == [None] * len(step._caches())
    assert_array_equal(twin.sampling_state.tune, step.sampling_state.tune)
    point = paths[0][0]
    expected = advance(unused, point, TUNE + 2, TUNE + 6)[1][:, :-1]
    assert_array_equal(advance(twin, point, TUNE + 2, TUNE + 6)[1][:, :-1], expected)


@pytest.mark.parametrize("kind", ["closed form", "graph"])
def test_each_part_of_a_model_can_be_pickled_by_itself(models, kind):
    parts = take_apart(models[kind], compile_kwargs=FAST)
    theta, f = parts.initial_theta, np.linspace(-1.0, 1.0, len(parts.initial_moments[0]))
    copies = {
        name: pickle.loads(pickle.dumps(getattr(parts, name)))
        for name in ("theta", "theta_prior", "latent_prior", "model_likelihood", "observations")
    }
    assert_array_equal(copies["theta"].ravel(parts.unravel(theta)), theta)
    assert copies["theta_prior"](theta) == parts.log_prior(theta)
    assert_array_equal(copies["latent_prior"](theta).covariance, parts.prior(theta).covariance)
    bars = np.eye(f.size), f
    assert_array_equal(copies["latent_prior"].pullback(theta, *bars), parts.covariance_pullback(theta, *bars))
    assert_array_equal(copies["model_likelihood"](theta).derivatives(f), parts.likelihood(theta).derivatives(f))
    assert copies["observations"].latent_name == parts.latent.name


def test_the_model_is_not_in_the_pickle(probit_model):
    with probit_model:
        step = pmgp.PseudoMarginal(compile_kwargs=FAST)
    assert b"pymc.model.core" not in pickle.dumps(step)


@pytest.fixture(scope="module")
def large() -> pm.Model:
    """So many latent values that one covariance matrix takes nearly as many bytes as all functions of the model."""
    X = np.linspace(0.0, 3.0, 200)[:, None]
    return pmgp.models.classifier(X, np.sin(4.0 * X[:, 0]) > 0.0)


@pytest.mark.parametrize("method", ["slice", "hmc", "smmala", "pseudo-marginal", "sufficient", "surrogate"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_pickle_in_the_middle_of_a_chain_holds_no_matrix_of_the_caches(large, method):
    step, point = METHODS[method](large), large.initial_point()
    unused = len(pickle.dumps(step))
    step.setup_chain(np.random.default_rng(5), TUNE, 10)
    advance(step, point, 0, TUNE + 2)
    assert any(getattr(step, name) is not None for name in step._caches())
    matrix = 8 * 200**2
    assert len(pickle.dumps(step)) < unused + matrix / 4
    assert len(cloudpickle.dumps(step)) < unused + matrix / 4


def test_steps_that_are_pickled_together_still_share_their_functions(probit_model):
    with probit_model:
        steps = [pmgp.steps.Ancillary(compile_kwargs=FAST), pmgp.steps.LatentHMC(compile_kwargs=FAST)]
    one, other = pickle.loads(pickle.dumps(pm.CompoundStep(steps))).methods
    assert one.shared_model is other.shared_model
