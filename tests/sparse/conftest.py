"""The exact posterior that targets on all points are compared with."""

from __future__ import annotations

import pymc as pm
import pytest

import pmgp
from tests.sparse.problems import COUNTS, X
from tests.theta_updates import agreement


@pytest.fixture(scope="package")
def posterior():
    """Moments of the hyper-parameters by the pseudo-marginal chain."""
    with pm.Model() as model:
        variance, lengthscale = pm.LogNormal("variance", 0.0, 0.5), pm.LogNormal("lengthscale", 0.0, 0.5)
        process = pm.gp.Latent(cov_func=variance * pm.gp.cov.Matern52(1, ls=lengthscale))
        f = process.prior("f", X=X, reparameterize=False, jitter=1e-8)
        pm.Poisson("y", pm.math.exp(f), observed=COUNTS)
    step = pmgp.PseudoMarginal(model=model)
    return agreement.moments(agreement.sample(model, step=step, tune=500, draws=1500, random_seed=5))
