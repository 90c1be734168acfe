"""Variables in single precision (`floatX`): the state of a step method is in double precision, its points rounded."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytest

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.taking_apart import take_apart
from tests.sampling.runs import QUIET, assert_same_run

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
FAST = {"mode": INTERPRETED}


@pytest.fixture(autouse=True, scope="module")
def single_precision():
    with pytensor.config.change_flags(floatX="float32"):
        yield


@pytest.fixture(scope="module")
def model(single_precision):
    X = np.linspace(0.0, 1.0, 15)[:, None]
    with pm.Model() as model:
        lengthscale, variance = pm.Gamma("lengthscale", 2, 4), pm.Gamma("variance", 2, 1)
        slope = pm.Normal("slope", 0, 1)
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.Matern52(1, ls=lengthscale))
        f = gp.prior("f", X=X, reparameterize=False)
        pm.Poisson("y", pm.math.exp(f + slope * X[:, 0]), observed=np.arange(15) % 4)
    assert {value.dtype for value in model.value_vars} == {"float32"}
    return model


def slices(model, *names):
    return pm.Slice([model[name] for name in names], model=model, compile_kwargs=FAST)


def beside_slices(model):
    return [pmgp.PseudoMarginal([model["lengthscale"], model["variance"]], model=model), slices(model, "slope")]


def beside_nuts(model):
    nuts = pm.NUTS([model["slope"]], model=model, mode=INTERPRETED)
    return [pmgp.PseudoMarginal([model["lengthscale"], model["variance"]], model=model), nuts]


def given_theta(model):
    return [slices(model, "lengthscale", "variance", "slope"), pmgp.EllipticalSlice(model=model)]


STEPS = {
    "pseudo-marginal": lambda model: pmgp.PseudoMarginal(model=model),
    "beside slices": beside_slices,
    "beside NUTS": beside_nuts,
    "f given theta": given_theta,
    "ancillary": lambda model: [pmgp.steps.Ancillary(model=model), pmgp.EllipticalSlice(model=model)],
    "surrogate": lambda model: [pmgp.steps.Surrogate(model=model), pmgp.steps.LatentHMC(model=model)],
}


@pytest.mark.parametrize("name", STEPS)
def test_chains_side_by_side_are_those_one_after_another(model, name):
    """PyMC's processes share points in the variables' precision; in one process they are what a step returns."""
    settings = {"draws": 15, "tune": 15, "chains": 2, "random_seed": 3, "compute_convergence_checks": False} | QUIET
    # New ones, since PyMC's own do not forget what they have learned in another run.
    one, other = (pm.sample(model=model, step=STEPS[name](model), cores=cores, **settings) for cores in (1, 2))
    assert_same_run(one, other)
    assert {one["posterior"][variable].dtype.name for variable in ("f", "slope")} == {"float32"}


@pytest.mark.parametrize("name", ["pseudo-marginal", "ancillary"])
def test_a_run_made_longer_is_the_longer_run(model, name, tmp_path):
    """The state that is stored is the one in double precision."""
    step = STEPS[name](model)
    settings = {"tune": 15, "chains": 1, "cores": 1, "random_seed": 3, "step": step} | QUIET
    longer = pmgp.sample(model, draws=30, **settings)
    pmgp.sample(model, draws=15, out=tmp_path, **settings)
    assert_same_run(longer, pmgp.resume(tmp_path, model, step=step, draws=30, **QUIET))


def test_a_point_agrees_with_the_theta_that_it_was_rounded_from(model, rng):
    """Or the chain would take its own moves for those of another step method, and refresh its estimate each time."""
    parts = take_apart(model)
    theta = rng.standard_normal(3)
    point = parts.unravel(theta)
    assert not np.array_equal(parts.ravel(point), theta)
    assert parts.theta.agrees(point, theta)
    assert not parts.theta.agrees(point, theta + 1e-3)


def test_f_that_was_rounded_is_not_taken_for_another(model, monkeypatch):
    step = pmgp.steps.LatentHMC(model=model)
    point, _ = step.step(model.initial_point())
    begun = []
    monkeypatch.setattr(type(step.operator), "init", lambda *arguments: begun.append(arguments))
    step.step(point)
    assert not begun
