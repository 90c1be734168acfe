"""Exact, fully Bayesian inference for latent Gaussian models with any likelihood that factorizes, for PyMC.

The public names are loaded when they are first used, so that the numerical core can be imported without PyMC.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pmgp._version import __version__

_PUBLIC = {
    "BernoulliLogit": "pmgp.interface.distributions",
    "BernoulliProbit": "pmgp.interface.distributions",
    "EllipticalSlice": "pmgp.interface.steps",
    "ModelError": "pmgp.interface.model.latent_gaussian",
    "MultinomialLogit": "pmgp.interface.distributions",
    "NoDrawsError": "pmgp.interface.sampling",
    "NotConvergedError": "pmgp.core.iterative.solvers",
    "OrdinalProbit": "pmgp.interface.distributions",
    "PseudoMarginal": "pmgp.interface.steps",
    "StoreError": "pmgp.interface.sampling",
    "WorkerError": "pmgp.interface.executors",
    "cross_validate": "pmgp.interface.sampling",
    "describe": "pmgp.interface.description",
    "evidence": "pmgp.interface.importance.evidence",
    "evidences": "pmgp.interface.sampling",
    "find_map": "pmgp.interface.maximum",
    "importance": "pmgp.interface.importance.sampling",
    "loo": "pmgp.interface.importance.loo",
    "predict": "pmgp.interface.prediction",
    "recommend": "pmgp.interface.recommendation",
    "resume": "pmgp.interface.sampling",
    "sample": "pmgp.interface.sampling",
    "sample_predictions": "pmgp.interface.prediction",
}
_MODULES = (
    "approximations",
    "datasets",
    "deep",
    "diagnostics",
    "estimators",
    "gp",
    "likelihoods",
    "marginal",
    "models",
    "orthants",
    "plots",
    "scores",
    "steps",
)

__all__ = ["__version__", *sorted(_PUBLIC), *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    if name in _MODULES:
        return import_module(f"pmgp.{name}")
    raise AttributeError(f"module 'pmgp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
