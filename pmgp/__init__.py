"""Exact, fully Bayesian inference for Gaussian process models with any likelihood, as PyMC step methods.

The public names are loaded when they are first used, so that the numerical core can be imported without PyMC.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pmgp._version import __version__

_PUBLIC = {
    "Ancillary": "pmgp.interface.steps",
    "AnnealedImportanceSampling": "pmgp.core.estimators",
    "BernoulliLogit": "pmgp.interface.distributions",
    "BernoulliProbit": "pmgp.interface.distributions",
    "EllipticalSlice": "pmgp.interface.steps",
    "ExpectationPropagation": "pmgp.core.approximations",
    "ImportanceSampling": "pmgp.core.estimators",
    "Interweaving": "pmgp.interface.steps",
    "JointUpdate": "pmgp.interface.steps",
    "Laplace": "pmgp.core.approximations",
    "LatentHMC": "pmgp.interface.steps",
    "LatentMetropolis": "pmgp.interface.steps",
    "LatentRMHMC": "pmgp.interface.steps",
    "LatentSMMALA": "pmgp.interface.steps",
    "LatentStep": "pmgp.interface.steps",
    "LogGaussianCox": "pmgp.interface.distributions",
    "ModelError": "pmgp.interface.model.latent_gaussian",
    "MultinomialLogit": "pmgp.interface.distributions",
    "OrdinalProbit": "pmgp.interface.distributions",
    "OrthantSampling": "pmgp.core.estimators",
    "PseudoMarginal": "pmgp.interface.steps",
    "RobustMax": "pmgp.interface.distributions",
    "SequentialSampling": "pmgp.core.estimators",
    "SparseGibbs": "pmgp.interface.sparse",
    "SparseHMC": "pmgp.interface.sparse",
    "SparseTempering": "pmgp.interface.sparse",
    "StoreError": "pmgp.interface.sampling",
    "StochasticVolatility": "pmgp.interface.distributions",
    "Sufficient": "pmgp.interface.steps",
    "Surrogate": "pmgp.interface.steps",
    "classify_by_orthants": "pmgp.core.orthants",
    "correct": "pmgp.interface.integrated.correct",
    "evidence": "pmgp.interface.importance.evidence",
    "find_map": "pmgp.interface.maximum",
    "log_marginal_likelihood": "pmgp.interface.evidence",
    "log_orthant_probability": "pmgp.core.orthants",
    "loo": "pmgp.interface.importance.loo",
    "marginalize": "pmgp.interface.integrated.marginalize",
    "predict": "pmgp.interface.prediction",
    "recommend": "pmgp.interface.recommendation",
    "resume": "pmgp.interface.sampling",
    "sample": "pmgp.interface.sampling",
    "sample_predictions": "pmgp.interface.prediction",
}
_MODULES = ("datasets", "diagnostics", "gp", "models", "plots", "scores")

__all__ = ["__version__", *sorted(_PUBLIC), *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    if name in _MODULES:
        return import_module(f"pmgp.{name}")
    raise AttributeError(f"module 'pmgp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
