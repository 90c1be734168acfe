"""Evaluations of a model at a proposed theta, as far as they can be computed."""

from __future__ import annotations

from math import inf, isfinite
from typing import NamedTuple

import numpy as np

from pmgp.core.adaptation.mode_prediction import Predictor
from pmgp.core.approximations.base import Approximation
from pmgp.core.gaussians import Posterior
from pmgp.core.joint_density import LatentModel
from pmgp.core.likelihoods.base import Likelihood

IMPOSSIBLE = 1e12
"""No log-density of observations is as large: what is, is the rounding error of terms that cancel."""


class OutsideSupport(NamedTuple):
    """Theta has prior density zero; nothing else was computed."""

    theta: np.ndarray
    log_screen: float = -np.inf


class Indefinite(NamedTuple):
    """The covariance of f cannot be factorized at theta, or double precision does not resolve the evidence."""

    theta: np.ndarray
    log_screen: float = -np.inf


class Fitted(NamedTuple):
    """The model at one theta, with q.

    `theta` (dimension,); `log_prior`: log p(theta); `approximation`: q(f); `likelihood`: p(y|f, theta).
    """

    theta: np.ndarray
    log_prior: float
    approximation: Posterior
    likelihood: Likelihood

    @property
    def log_screen(self) -> float:
        """log p(theta) plus the approximation's log-evidence: the target of tuning, and the screen for proposals."""
        value = self.log_prior + self.approximation.log_evidence
        return value if isfinite(value) and value < IMPOSSIBLE else -inf

    def with_prior_factor(self) -> Fitted | None:
        """Return the fit with K factorized, perhaps with a jitter, or None; the exact chain needs that factor."""
        approximation = self.approximation.factorized()
        return None if approximation is None else Fitted(self.theta, self.log_prior, approximation, self.likelihood)


class Ready(NamedTuple):
    """The model at one theta, with q made ready for importance samples: K is factorized and the moments match.

    `theta` (dimension,); `log_prior`: log p(theta); `log_screen`: log-screen of the approximation as it was fitted;
    `approximation`: q(f); `likelihood`: p(y|f, theta).
    """

    theta: np.ndarray
    log_prior: float
    log_screen: float
    approximation: Posterior
    likelihood: Likelihood


Evaluation = OutsideSupport | Indefinite | Fitted
Evaluated = Fitted | Ready


class Evaluator:
    """A model with an approximation, to be evaluated at theta.

    Parameters
    ----------
    model : LatentModel
    approximation : Approximation
    persistent : bool
        Whether to fit again from the approximation's own start if a fit from the predicted start fails: for a chain
        that other samplers may move to regions that it would not reach.
    """

    def __init__(self, model: LatentModel, approximation: Approximation, persistent: bool = False) -> None:
        self.model = model
        self.approximation = approximation
        self.persistent = persistent

    def __call__(self, theta: np.ndarray, predictor: Predictor | None) -> Evaluation:
        """Approximate p(f|y, theta); the result depends only on theta and on the predictor's coefficients."""
        log_prior = self.model.log_prior(theta)
        if not isfinite(log_prior):
            return OutsideSupport(theta)
        start = None if predictor is None else predictor.predict(theta)
        likelihood = self.model.likelihood(theta)
        prior = self.model.prior(theta)
        fitted = self.approximation.fit(prior, likelihood, start)
        if fitted is None and start is not None and self.persistent:
            fitted = self.approximation.fit(prior, likelihood, None)
        if fitted is None or not fitted.resolved:
            return Indefinite(theta)
        return Fitted(theta, log_prior, fitted, likelihood)

    def prepare(self, evaluation: Evaluated) -> Ready | Indefinite:
        """Return the evaluation with K factorized and q refined for importance samples.

        If K needed a jitter, q is first conditioned on the same sites under the new covariance. Like the approximation
        itself this is a function of theta. An evaluation that is `Ready` is returned unchanged.
        """
        if isinstance(evaluation, Ready):
            return evaluation
        theta, log_prior, fitted, likelihood = evaluation
        approximation: Posterior | None = fitted.factorized()
        if approximation is not None and approximation.prior.jitter > 0.0:
            approximation = _conditioned_again(approximation)
        if approximation is not None:
            approximation = self.approximation.refine(approximation, likelihood)
        if approximation is None:
            return Indefinite(theta)
        return Ready(theta, log_prior, evaluation.log_screen, approximation, likelihood)

    def start_from(self, evaluation: Evaluated) -> np.ndarray:
        """Return the start for an approximation at a nearby theta; see `Approximation.start_from`."""
        return self.approximation.start_from(evaluation.approximation)


def _conditioned_again(q: Posterior) -> Posterior | None:
    conditioned = q.prior.conditioning()
    if not conditioned.on(q.linear, q.precision):
        return None
    return conditioned.approximation(q.log_evidence, q.iterations, q.converged)
