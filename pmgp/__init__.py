"""Exact, fully Bayesian inference for Gaussian process models with any likelihood, as PyMC step methods.

The public names are loaded when they are first used, so that the numerical core can be imported without PyMC.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pmgp._version import __version__

_PUBLIC = {
    "Ancillary": "pmgp.step_methods",
    "AnnealedImportanceSampling": "pmgp.estimators",
    "BernoulliLogit": "pmgp.distributions",
    "BernoulliProbit": "pmgp.distributions",
    "EllipticalSlice": "pmgp.step_methods",
    "ExpectationPropagation": "pmgp.approximations",
    "ImportanceSampling": "pmgp.estimators",
    "Interweaving": "pmgp.step_methods",
    "JointUpdate": "pmgp.step_methods",
    "Laplace": "pmgp.approximations",
    "LatentHMC": "pmgp.step_methods",
    "LatentMetropolis": "pmgp.step_methods",
    "LatentSMMALA": "pmgp.step_methods",
    "LogGaussianCox": "pmgp.distributions",
    "ModelError": "pmgp.model",
    "OrdinalProbit": "pmgp.distributions",
    "PseudoMarginal": "pmgp.step_methods",
    "StochasticVolatility": "pmgp.distributions",
    "Sufficient": "pmgp.step_methods",
    "Surrogate": "pmgp.step_methods",
    "find_map": "pmgp.maximum",
    "log_marginal_likelihood": "pmgp.evidence",
    "predict": "pmgp.prediction",
    "recommend": "pmgp.recommendation",
    "sample_predictions": "pmgp.prediction",
}
_MODULES = ("datasets", "diagnostics", "models", "plots", "scores")

__all__ = ["__version__", *sorted(_PUBLIC), *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    if name in _MODULES:
        return import_module(f"pmgp.{name}")
    raise AttributeError(f"module 'pmgp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
