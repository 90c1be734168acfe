"""One posterior, whichever approximation and estimator the pseudo-marginal chain has: wines, with a probit link.

The importance weights of Laplace's q vary more than on most data; what is exact agrees all the same, and Laplace's
evidence alone, which is not, does not.
"""

from __future__ import annotations

from functools import cache

import pymc as pm
import pytest
from sklearn.datasets import load_wine

import pmgp
from pmgp.datasets import Standardizer
from tests.theta_updates.agreement import Moments, distance, moments, sample

# With fewer samples from Laplace's q, chains of one seed in three stay where they are for hundreds of draws.
SETTINGS = {
    "laplace, importance": ("laplace", pmgp.estimators.ImportanceSampling(1024), 500),
    "ep, importance": ("ep", pmgp.estimators.ImportanceSampling(64), 1500),
    "ep, annealed": ("ep", pmgp.estimators.AnnealedImportanceSampling(draws=8), 800),
    "laplace, none": ("laplace", "none", 1500),
}
EXACT = [name for name in SETTINGS if "none" not in name]
BOUND = 4.0
SMALLEST_ESS = 150.0


def wine() -> pm.Model:
    """The first cultivar or another of 89 wines, from 13 measurements; the data come with scikit-learn."""
    data = load_wine()
    X = Standardizer.fit(data.data).transform(data.data)[::2]
    with pm.Model() as model:
        variance, lengthscale = pm.InverseGamma("variance", 4.0, 12.0), pm.Gamma("lengthscale", 3.0, 1.5)
        kernel = variance * pm.gp.cov.ExpQuad(X.shape[1], ls=lengthscale)
        f = pm.gp.Latent(cov_func=kernel).prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=(data.target[::2] == 0).astype(int))
    return model


@cache
def moments_of(setting: str) -> dict[str, Moments]:
    approximation, estimator, draws = SETTINGS[setting]
    model = wine()
    with model:
        step = pmgp.PseudoMarginal(approximation=approximation, estimator=estimator)
    return moments(sample(model, draws=draws, tune=800, step=step, random_seed=5))


@pytest.mark.parametrize("setting", SETTINGS)
def test_there_are_enough_draws_to_compare(setting):
    assert min(m.ess for m in moments_of(setting).values()) > SMALLEST_ESS


@pytest.mark.parametrize("setting", EXACT)
def test_all_settings_agree(setting):
    for other in EXACT:
        if other != setting:
            assert distance(moments_of(setting), moments_of(other)) < BOUND, other


def test_the_approximate_evidence_disagrees():
    assert distance(moments_of("laplace, none"), moments_of("ep, importance")) > 2.0 * BOUND
