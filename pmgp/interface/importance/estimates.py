"""Unbiased estimates of p(y|theta) at many theta, one after another."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from pmgp.core.approximations import Approximation
from pmgp.core.estimators import Estimate, Estimator
from pmgp.core.marginal.evaluation import Evaluation, Evaluator, Fitted, Indefinite, Ready
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.maxima import several_maxima
from pmgp.interface.steps.chosen import approximation_for, chosen_estimators
from pmgp.interface.steps.matrices import NUMPY, Matrices

# Default number of importance samples of an estimate: they cost little compared with a fit without a start, and with
# fewer samples rare large weights would make the evidence uncertain.
DRAWS = 256


class Estimates:
    """Estimates of p(y|theta) for a model, with a warning if one approximation may not do for its posterior.

    `draws` is for estimators that leave their number open. `model` is the model with K by `matrices`, and `indefinite`
    counts the theta so far at which the covariance of f could not be factorized.
    """

    def __init__(
        self,
        parts: LatentGaussianModel,
        estimator: Estimator | str = "auto",
        approximation: Approximation | str = "auto",
        draws: int = DRAWS,
        matrices: Matrices = NUMPY,
    ) -> None:
        if (unclear := several_maxima(parts)) is not None:
            warnings.warn(unclear, stacklevel=4)
        self.method: Any = chosen_estimators(estimator, parts, matrices)[0]
        self.model = matrices.model(parts)
        self._evaluate = Evaluator(self.model, approximation_for(self.method, approximation, parts))
        self._draws = draws if getattr(self.method, "draws", None) == "auto" else None
        self.indefinite = 0

    def ready(self, theta: np.ndarray) -> Ready | None:
        """Return the model at theta, or None where p(theta) p(y|theta) is zero or cannot be computed."""
        evaluation: Evaluation | Ready = self._evaluate(theta, None)
        if isinstance(evaluation, Fitted) and np.isfinite(evaluation.log_screen):
            evaluation = self._evaluate.prepare(evaluation)
        self.indefinite += isinstance(evaluation, Indefinite)
        return evaluation if isinstance(evaluation, Ready) else None

    def fresh(self, rng: np.random.Generator, evaluation: Ready) -> Estimate:
        """Make an estimate of p(y|theta)."""
        return self.method.estimate(rng, evaluation.approximation, evaluation.likelihood, self._draws)

    def given(self, rng: np.random.Generator, evaluation: Ready, f: np.ndarray) -> Estimate:
        """Make an estimate given a draw of f that is kept."""
        return self.method.estimate_given(rng, evaluation.approximation, evaluation.likelihood, f, self._draws)

    def log_joint(self, rng: np.random.Generator, theta: np.ndarray) -> float:
        """Return the log of p(theta) times an estimate of p(y|theta)."""
        evaluation = self.ready(theta)
        return -np.inf if evaluation is None else evaluation.log_prior + self.fresh(rng, evaluation).log_evidence
