"""Samplers (e) and (f), and the pseudo-marginal chain with either proposal, have one posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytest

import pmgp

pytestmark = pytest.mark.slow
N, CLASSES = 24, 3
BOUND = 4.0


@pytest.fixture(scope="module")
def flowers() -> pm.Model:
    """Three clouds in two dimensions, two of which overlap, and a process for each class."""
    rng = np.random.default_rng(11)
    labels = np.arange(N) % CLASSES
    centers = np.array([[-2.0, 0.0], [0.6, 0.0], [1.4, 0.8]])
    X = centers[labels] + 0.7 * rng.normal(size=(N, 2))
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.3, 0.5)
        variance = pm.Gamma("variance", 3.0, 1.0)
        kernel = variance * pm.gp.cov.ExpQuad(2, ls=lengthscale)
        processes = [
            pm.gp.Latent(cov_func=kernel).prior(f"f{c}", X=X, reparameterize=False, jitter=1e-4) for c in range(CLASSES)
        ]
        pmgp.MultinomialLogit("y", processes, observed=labels)
    return model


def means(model: pm.Model, steps: Callable[[], Any], draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Of both hyper-parameters' logs and some probabilities, with Monte Carlo standard errors."""
    quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    with model:
        posterior = pm.sample(draws, tune=500, chains=2, cores=1, step=steps(), random_seed=3, **quiet).posterior
    f = np.stack([posterior[f"f{c}"].values[..., :6] for c in range(CLASSES)])
    odds = np.exp(f - f.max(axis=0))
    probability = (odds[1] / odds.sum(axis=0)).transpose(2, 0, 1)
    values = [np.log(posterior["lengthscale"].values), np.log(posterior["variance"].values), *probability]
    errors = [float(az.mcse(value, method="mean")) for value in values]
    return np.array([value.mean() for value in values]), np.array(errors)


@pytest.fixture(scope="module")
def reference(flowers) -> tuple[np.ndarray, np.ndarray]:
    return means(flowers, pmgp.PseudoMarginal, 1500)


SAMPLERS: dict[str, tuple[Callable[[], Any], int]] = {
    "e": (lambda: [pmgp.steps.LatentRMHMC(metric="fixed"), pmgp.steps.Ancillary()], 4000),
    "f": (lambda: [pmgp.steps.LatentRMHMC(metric="local", max_leapfrog=3), pmgp.steps.Ancillary()], 1000),
    "trajectories": (lambda: pmgp.PseudoMarginal(proposal="hmc"), 800),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_agreement_with_the_pseudo_marginal_chain(name, flowers, reference):
    steps, draws = SAMPLERS[name]
    found, errors = means(flowers, steps, draws)
    assert (np.abs(found - reference[0]) / np.hypot(errors, reference[1])).max() < BOUND
