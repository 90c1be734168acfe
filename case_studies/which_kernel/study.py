"""Classifiers of the thyroid data by kernel and link: evidence of each, and each patient left out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm

import pmgp

__all__ = ["CLASSIFIERS", "FOLDER", "SETTINGS", "Settings", "classifier", "judged", "thyroid"]

FOLDER = Path(__file__).parent / "results"
SEED = 1


class Settings(NamedTuple):
    """How much is computed."""

    tune: int = 300
    draws: int = 400
    chains: int = 2


SETTINGS = Settings()


def thyroid() -> tuple[np.ndarray, np.ndarray]:
    """Standardized laboratory tests (215, 5), and whether the gland is ill."""
    data = pmgp.datasets.load("thyroid")
    return pmgp.datasets.Standardizer.fit(data.X).transform(data.X), data.y


def _stationary(kernel: Callable[..., Any], d: int) -> Any:
    return kernel(d, ls=pm.Gamma("lengthscale", 2, 1))


def _plane(d: int) -> Any:
    return pm.gp.cov.Linear(d, c=np.zeros(d)) + 1.0 / 10.0


def classifier(kernel: Callable[[int], Any], link: Any, scale: float, X: np.ndarray, y: np.ndarray) -> pm.Model:
    """A Gaussian process classifier with proper priors, on the scale of its link."""
    with pm.Model() as model:
        variance = scale**2 * pm.Gamma("variance", 2, 0.1)
        f = pm.gp.Latent(cov_func=variance * kernel(X.shape[1])).prior("f", X=X, reparameterize=False)
        link("y", f, observed=y)
    return model


SMOOTH, ROUGH = partial(_stationary, pm.gp.cov.ExpQuad), partial(_stationary, pm.gp.cov.Matern12)
CLASSIFIERS: dict[str, tuple[Callable[[int], Any], Any, float]] = {
    "smooth, probit": (SMOOTH, pmgp.BernoulliProbit, 1.0),
    "smooth, logit, scaled": (SMOOTH, pmgp.BernoulliLogit, 1.7),
    "rough, probit": (ROUGH, pmgp.BernoulliProbit, 1.0),
    "plane, probit": (_plane, pmgp.BernoulliProbit, 1.0),
}
"""Kernel, link, and the scale of f on which the prior of the variance is read."""


def judged(name: str, X: np.ndarray, y: np.ndarray, settings: Settings = SETTINGS) -> tuple[dict[str, Any], pd.Series]:
    """The evidence of one of them with what it is worth, and the log-density of each label given all others."""
    with classifier(*CLASSIFIERS[name], X, y) as model, warnings.catch_warnings():
        # The warnings about the weights repeat what is in the table.
        warnings.simplefilter("ignore", UserWarning)
        quiet = {"random_seed": SEED, "progressbar": False}
        idata = pm.sample(
            settings.draws, tune=settings.tune, chains=settings.chains, cores=1, step=pmgp.PseudoMarginal(),
            compute_convergence_checks=False, **quiet,
        )  # fmt: skip
        evidence = pmgp.evidence(idata, model=model, draws=settings.draws, **quiet)
        left_out = pmgp.loo(idata, model=model, draws=settings.draws, **quiet)
    row = {
        "model": name,
        "log p(y)": evidence.log_evidence,
        "standard error": evidence.standard_error,
        "Pareto k": evidence.trust.pareto_k,
        "limit": evidence.trust.limit,
        "elpd": float(left_out.elpd),
        "orthants": bool(idata.sample_stats["orthants"].all()),
    }
    return row, pd.Series(np.ravel(left_out.elpd_i), name=name)
