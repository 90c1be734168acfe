"""The exact posterior that targets on all points are compared with."""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import LogGaussianCox
from tests.sparse.problems import COUNTS, X
from tests.theta_updates.agreement import Moments


@pytest.fixture(scope="package")
def posterior() -> dict[str, Moments]:
    """Moments of the hyper-parameters by sums over a grid, with so many importance samples that they have no error."""
    rng, likelihood = np.random.default_rng(5), LogGaussianCox(COUNTS)
    axis = np.linspace(-2.0, 2.0, 33)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = []
    for lengthscale, variance in np.exp(theta):
        distance = np.sqrt(5.0) * np.abs(X - X.T) / lengthscale
        K = variance * (1.0 + distance + distance**2 / 3.0) * np.exp(-distance) + 1e-8 * np.eye(len(X))
        q = Laplace().fit(DensePrior(np.zeros(len(X)), np.asfortranarray(K)), likelihood)
        logs.append(ImportanceSampling(256).estimate(rng, q, likelihood).log_evidence)
    # Both are log-normal a priori, with a spread of one half.
    logs = np.array(logs) - 0.5 * np.square(theta / 0.5).sum(axis=1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ theta
    deviation = np.sqrt(weights @ np.square(theta - mean))
    names = ("lengthscale", "variance")
    return {name: Moments(float(mean[k]), 0.0, float(deviation[k]), 0.0, np.inf) for k, name in enumerate(names)}
