"""Old and new inputs put into the graph of a covariance give what the covariance function gives for them."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytest
from numpy.testing import assert_allclose
from pymc.gp import cov

from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.prediction.latent_process import LatentProcess

N, M, SCALE, JITTER = 9, 4, 1.3, 1e-6
RNG = np.random.default_rng(0)
X, XNEW = (np.column_stack([RNG.normal(size=n), np.arange(n) % 3]) for n in (N, M))
JOINT = np.concatenate([X, XNEW])

KERNELS = {
    "ExpQuad": cov.ExpQuad(2, ls=[0.7, 2.0]),
    "Exponential": cov.Exponential(2, ls=1.0),
    "Matern12": cov.Matern12(2, ls=1.0),
    "Matern32": cov.Matern32(2, ls=1.0),
    "RatQuad": cov.RatQuad(2, ls=1.0, alpha=1.5),
    "Cosine": cov.Cosine(2, ls=1.0),
    "Periodic": cov.Periodic(2, period=2.0, ls=1.0),
    "Linear": cov.Linear(2, c=0.3),
    "Polynomial": cov.Polynomial(2, c=0.3, d=2, offset=1.0),
    "Gibbs": cov.Gibbs(2, lengthscale_func=lambda x: 1 + x**2, active_dims=[0]),
    "WarpedInput": cov.WarpedInput(
        2, warp_func=lambda x: x**3, cov_func=cov.ExpQuad(1, ls=1.0, active_dims=[0]), active_dims=[0]
    ),
    "ScaledCov": cov.ScaledCov(2, scaling_func=lambda x: 1 + x[:, :1] ** 2, cov_func=cov.ExpQuad(2, ls=1.0)),
    "Coregion": cov.ExpQuad(2, ls=1.0, active_dims=[0])
    * cov.Coregion(2, W=np.ones((3, 1)), kappa=np.ones(3), active_dims=[1]),
    "power": cov.ExpQuad(2, ls=1.0) ** 2,
    "constant": cov.ExpQuad(2, ls=1.0) + 2.0,
}
# Surely evaluated in parts, which is quick. A root of rounding errors or an operation of its own may need the whole.
IN_PARTS = set(KERNELS) - {"Exponential", "Matern12", "Periodic", "Coregion"}


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


@pytest.mark.parametrize("name", KERNELS)
def test_a_covariance_at_old_and_new_inputs(name):
    with pm.Model():
        scale = pm.HalfNormal("scale")
        gp = pm.gp.Latent(cov_func=scale**2 * KERNELS[name])
        f = gp.prior("f", X=pm.Data("X", X), reparameterize=False)
    process = LatentProcess(f, [scale])
    process.compile(XNEW, [np.asarray(SCALE)])
    assert process._moments is not None
    assert not (process._moments.whole and name in IN_PARTS)
    parts = process._moments(JOINT, [np.asarray(SCALE)])
    expected = SCALE**2 * KERNELS[name](JOINT).eval(mode=INTERPRETED) + JITTER * np.eye(N + M)
    everything, old, new = slice(0, N + M), slice(0, N), slice(N, N + M)
    assert_allclose(parts.rectangle(everything, everything), expected, atol=1e-12)
    assert_allclose(parts.rectangle(new, old), expected[new, old], atol=1e-12)
    assert_allclose(np.tril(parts.lower_triangle(new)), np.tril(expected[new, new]), atol=1e-12)
    assert_allclose(parts.diagonal(new), expected.diagonal()[new], atol=1e-12)
    assert_allclose(parts.mean, np.zeros(N + M))
