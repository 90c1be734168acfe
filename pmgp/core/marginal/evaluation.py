"""What a scheme needs of a model, and one evaluation of it at a proposed theta."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.approximations.base import Approximation
from pmgp.core.gaussians.sites import SiteApproximation, condition_on_sites
from pmgp.core.joint_density import LatentModel
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics import linalg

__all__ = ["Evaluation", "Evaluator"]


class Evaluation(NamedTuple):
    """The model at one theta, as far as it could be computed.

    Attributes
    ----------
    theta : (dimension,) array
    log_prior : float
        Minus infinity outside the support; then nothing else was computed.
    fitted : SiteApproximation or None
        None also where the covariance cannot be factorized.
    likelihood_at_theta : Likelihood or None
    prepared : bool
        Whether importance samples can be drawn; see :meth:`Evaluator.prepare`.
    """

    theta: np.ndarray
    log_prior: float
    fitted: SiteApproximation | None = None
    likelihood_at_theta: Likelihood | None = None
    prepared: bool = False

    @property
    def indefinite(self) -> bool:
        """Whether theta lies in the prior's support, but its covariance could not be factorized."""
        return self.fitted is None and bool(np.isfinite(self.log_prior))

    @property
    def converged(self) -> bool:
        """Whether there is an approximation, and it is the one that was asked for."""
        return self.fitted is not None and self.fitted.converged

    def has_prior_factor(self) -> bool:
        """Whether K can be factorized, which B can where K is slightly indefinite; the exact chain needs both."""
        try:
            self.approximation.prior.factorize()
        except linalg.NotPositiveDefiniteError:
            return False
        return True

    @property
    def approximation(self) -> SiteApproximation:
        """q(f) at a theta where there is one."""
        assert self.fitted is not None
        return self.fitted

    @property
    def likelihood(self) -> Likelihood:
        """p(y|f, theta) at a theta where it was computed."""
        assert self.likelihood_at_theta is not None
        return self.likelihood_at_theta

    @property
    def log_screen(self) -> float:
        """Log p(theta) plus the approximation's log-evidence: what tuning targets and proposals are screened with."""
        if self.fitted is None:
            return -np.inf
        value = self.log_prior + self.fitted.log_evidence
        return value if np.isfinite(value) else -np.inf


class Evaluator:
    """Evaluates a model at theta, keeping one spare n x n buffer for the factor of B.

    Parameters
    ----------
    model : LatentModel
    approximation : Approximation
    """

    def __init__(self, model: LatentModel, approximation: Approximation) -> None:
        self.model = model
        self.approximation = approximation
        self._spare: np.ndarray | None = None

    def __call__(self, theta: np.ndarray, predictor: ModePredictor | None) -> Evaluation:
        """Approximate p(f|y, theta); depends on theta and on the predictor's coefficients, on nothing else."""
        log_prior = self.model.log_prior(theta)
        if not np.isfinite(log_prior):
            return Evaluation(theta, -np.inf)
        start = None if predictor is None else predictor.predict(theta)
        likelihood = self.model.likelihood(theta)
        prior = self.model.prior(theta)
        out, self._spare = self._spare, None
        if out is not None and len(out) != prior.size:
            out = None
        try:
            fitted = self.approximation.fit(prior, likelihood, start, out)
        except linalg.NotPositiveDefiniteError:
            return Evaluation(theta, log_prior)
        return Evaluation(theta, log_prior, fitted, likelihood)

    def prepare(self, evaluation: Evaluation) -> Evaluation:
        """Make what importance samples need: the Cholesky factor of K, and q as good as the approximation makes it.

        If K needed a jitter, q is first conditioned on the same sites again under the covariance that is used from
        there on. Like the approximation itself this is a function of theta; an evaluation is prepared once.

        Raises
        ------
        NotPositiveDefiniteError
            If K stays indefinite.
        """
        if evaluation.prepared:
            return evaluation
        fitted = evaluation.approximation
        fitted.prior.factorize()
        if fitted.prior.jitter > 0.0:
            mean, factor = condition_on_sites(fitted.prior, fitted.linear, fitted.precision)
            fitted = replace(fitted, mean=mean, factor=factor)
        fitted = self.approximation.refine(fitted, evaluation.likelihood)
        return evaluation._replace(fitted=fitted, prepared=True)

    def start_from(self, evaluation: Evaluation) -> np.ndarray:
        """What an approximation at a theta nearby would start from, see `Approximation.start_from`."""
        return self.approximation.start_from(evaluation.approximation)

    def recycle(self, evaluation: Evaluation | None) -> None:
        """Take back the buffer of an evaluation that is no longer needed."""
        if evaluation is not None and evaluation.fitted is not None:
            self._spare = evaluation.fitted.factor
