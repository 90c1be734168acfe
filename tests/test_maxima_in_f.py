"""Likelihoods with several maxima in f are named, and those with one are not."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.maxima import several_maxima
from pmgp.interface.model.taking_apart import take_apart

X = np.linspace(0.0, 5.0, 8)[:, None]
REALS, COUNTS = np.linspace(-2.5, 2.5, 8), np.arange(8) % 3


def model_of(observe) -> pm.Model:
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.HalfNormal("scale", 2.0) ** 2 * pm.gp.cov.ExpQuad(1, ls=1.0))
        observe(gp.prior("f", X=X, reparameterize=False))
    return model


SEVERAL = {
    "angle": lambda f: pm.VonMises("y", f, 1.0, observed=REALS),
    "certain angle": lambda f: pm.VonMises("y", f, 100.0, observed=REALS),
    "square": lambda f: pm.Normal("y", f**2, 0.2, observed=REALS**2),
    "wave": lambda f: pm.Normal("y", pm.math.sin(2.0 * f), 0.2, observed=np.sin(REALS)),
}
ONE = {
    "far outliers": lambda f: pm.StudentT("y", nu=2, mu=f, sigma=0.1, observed=10.0 * REALS),
    "counts": lambda f: pm.ZeroInflatedPoisson("y", 0.5, pm.math.exp(f), observed=COUNTS),
    "order": lambda f: pm.OrderedProbit("y", f, cutpoints=[-1.0, 1.0], observed=COUNTS),
    "bounds": lambda f: pm.Uniform("y", f - 3.0, f + 3.0, observed=REALS),
    "scale": lambda f: pm.Normal("y", 0.0, pm.math.exp(f), observed=REALS),
    "closed form": lambda f: pmgp.BernoulliProbit("y", f, observed=COUNTS > 0),
}


@pytest.mark.parametrize("name", [*SEVERAL, *ONE])
def test_likelihoods_with_several_maxima_are_found(name):
    parts = take_apart(model_of((SEVERAL | ONE)[name]), compile_kwargs={"mode": INTERPRETED})
    assert (several_maxima(parts) is not None) == (name in SEVERAL)


def test_the_second_of_two_processes_is_looked_at():
    with model_of(lambda f: None) as model:
        g = pm.gp.Latent(cov_func=model["scale"] ** 2 * pm.gp.cov.ExpQuad(1, ls=1.0)).prior(
            "g", X, reparameterize=False
        )
        pm.Normal("y", model["f"] + pm.math.sin(2.0 * g), 0.2, observed=REALS)
    parts = take_apart(model, compile_kwargs={"mode": INTERPRETED})
    assert "several maxima as a function of" in several_maxima(parts)


def test_an_angle_of_two_processes_has_one():
    """Which is what the warning advises; its density tends to constants far from the observation."""
    with model_of(lambda f: None) as model:
        gp = pm.gp.Latent(cov_func=model["scale"] ** 2 * pm.gp.cov.ExpQuad(1, ls=1.0))
        cosine = gp.prior("cosine", X, reparameterize=False)
        pm.VonMises("y", pt.arctan2(model["f"], cosine), 10.0, observed=1.2 * REALS)
    assert several_maxima(take_apart(model, compile_kwargs={"mode": INTERPRETED})) is None


def test_a_user_is_warned():
    model, words = model_of(SEVERAL["angle"]), r"'y' has several maxima as a function of 'f' \(observation 0 is"
    with pytest.warns(UserWarning, match=words):
        pmgp.PseudoMarginal(model=model)
    with pytest.warns(UserWarning, match=words):
        pmgp.marginal.log_likelihood(model, random_seed=1)
    assert "several maxima" in pmgp.describe(model).computation


def test_nobody_is_warned_of_one_maximum():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pmgp.PseudoMarginal(model=model_of(ONE["counts"]))
