"""The pseudo-marginal scheme as a PyMC step method."""

from __future__ import annotations

import warnings
from dataclasses import field
from typing import Any, ClassVar, Unpack

import numpy as np
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pmgp.core import approximations, estimators
from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace
from pmgp.core.estimators import ApproximateEvidence, Estimator
from pmgp.core.marginal.calibration import LARGE_SPREAD, choose_draws
from pmgp.core.marginal.evaluation import Evaluated, Evaluator, Fitted, Ready
from pmgp.core.marginal.proposals import AdaptiveProposal
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.core.marginal.tuning import Tuning
from pmgp.core.registry import resolve
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.steps.base import ACCEPTANCE, COUNTS, GaussianProcessStep, PyMCArguments
from pmgp.interface.steps.progress import EvidenceProgress
from pmgp.interface.steps.public import public_step
from pmgp.interface.steps.starts import unusable_start
from pmgp.interface.steps.validation import (
    check_settings,
    check_variables,
    indefinite_proposals,
    large_spread,
    unconverged_proposals,
)

__all__ = ["PseudoMarginal"]

START_ATTEMPTS = 20


def chosen_approximation(given: Approximation | str, model: LatentGaussianModel) -> Approximation:
    """The approximation that is asked for, or the one that suits the model."""
    if isinstance(given, str) and given == "auto":
        return ExpectationPropagation() if model.sites_known else Laplace()
    return resolve(given, {"auto": ExpectationPropagation, **approximations.NAMES}, Approximation, "approximation")


@dataclass_state
class PseudoMarginalState(StepMethodState):
    """Everything that changes while a chain runs."""

    tune: bool
    n_tune: int
    n_draws: int
    indefinite: int
    unconverged: int
    theta: np.ndarray
    latent: np.ndarray
    tuning: Tuning | None
    frozen: Frozen | None
    chain: State | None
    theta_names: list[str] = field(metadata={"frozen": True})


@public_step
class PseudoMarginal(EvidenceProgress, GaussianProcessStep):
    """Pseudo-marginal Metropolis-Hastings for the hyper-parameters of a Gaussian process, with exact draws of f.

    The step updates all free variables of the model: the latent multivariate normal f and, as one vector theta on
    the unconstrained scale, all others. While the chain tunes, it samples under the approximation's own marginal
    likelihood and learns its proposals; then it switches to an unbiased estimate of p(y|theta) and is exact.

    Parameters
    ----------
    vars : list of variables, optional
        Must be all free variables of the model, the default.
    approximation : Laplace, ExpectationPropagation, "auto", "laplace" or "ep"
        The Gaussian q(f) that importance samples come from, and whose evidence proposals are screened with. ``"auto"``
        is expectation propagation, or Laplace's method where the terms of the likelihood are not known one by one.
    estimator : ImportanceSampling, AnnealedImportanceSampling, "importance", "annealed" or "none"
        The unbiased estimator of p(y|theta). With ``"none"`` the approximation's own marginal likelihood is sampled,
        and f drawn from q: **not exact**, with the error of Laplace's method or of expectation propagation; it is there
        to be compared with.
    latent : variable or str, optional
        Which multivariate normal variable is f, if the model has several.
    target_acceptance : float
        Acceptance rate that the random walk is tuned to, between 0 and 1.
    delayed_acceptance : bool
        Screen proposals with the approximation before the estimate is made. Exact either way.
    latent_moves : int
        Elliptical slice moves of f in every iteration.
    refresh_every : int, optional
        Refresh the importance samples in every so many iterations; 0 for never. By default in every one, and in every
        tenth of annealed ones. Rarer is cheaper, but a chain that met a large weight stays longer, and f with it.
    $arguments

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), its likelihood does not factorize over f, or not all free variables
        are given.
    ValueError
        For unknown approximations or estimators, and settings out of range.

    Notes
    -----
    Sample statistics: ``accepted``, ``acceptance_rate``, ``log_marginal_likelihood`` (the stored estimate of
    log p(y|theta)), ``importance_ess`` (effective number of importance samples behind it), ``n_cholesky``,
    ``n_inverse``, ``n_matmul`` (O(n^3) operations of the iteration), ``n_newton`` (Newton steps, or sweeps of
    expectation propagation), ``indefinite`` (the covariance at the proposal could not be factorized), ``converged``
    (the approximation at the proposal did; where it did not, Laplace's stands in for it), ``importance_draws``,
    ``exact`` (false throughout for ``estimator="none"``, and while tuning).

    References
    ----------
    Filippone, M. and Girolami, M. (2014). Pseudo-marginal Bayesian inference for Gaussian processes. IEEE TPAMI 36.

    Examples
    --------
    >>> with model:  # doctest: +SKIP
    ...     idata = pm.sample(step=pmgp.PseudoMarginal())
    """

    name = "pseudo_marginal"
    default_tune_steps = 1000
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        **ACCEPTANCE,
        "log_marginal_likelihood": (np.float64, []),
        "importance_ess": (np.float64, []),
        "importance_draws": (np.int64, []),
        **COUNTS,
        "n_newton": (np.int64, []),
        "indefinite": (bool, []),
        "converged": (bool, []),
        "exact": (bool, []),
    }
    _state_class = PseudoMarginalState
    _given_theta: ClassVar[bool] = False
    # The evaluation at theta is a function of theta and of the frozen predictor: a cache, not state.
    _current: Evaluated | None

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        approximation: Approximation | str = "auto",
        estimator: Estimator | str = "importance",
        latent: Any = None,
        target_acceptance: float = 0.25,
        delayed_acceptance: bool = True,
        latent_moves: int = 1,
        refresh_every: int | None = None,
        **others: Unpack[PyMCArguments],
    ) -> None:
        check_settings(target_acceptance, latent_moves, refresh_every)
        self.target_acceptance = target_acceptance
        super().__init__(vars, latent=latent, **others)
        self.approximation = chosen_approximation(approximation, self.latent_model)
        self._evaluate = Evaluator(self.latent_model, self.approximation)
        if isinstance(self.approximation, Laplace):
            self.latent_model.compile_derivatives(second=True)
        chosen = resolve(estimator, estimators.NAMES, Estimator, "estimator")
        self.exact = not isinstance(chosen, ApproximateEvidence)
        self.scheme = PseudoMarginalChain(chosen, delayed_acceptance, latent_moves if self.exact else 0, refresh_every)
        self._reset(0, 0)

    def _own_variables(self, vars: list[Any] | None, model: pm.Model) -> list[Any]:
        return check_variables(vars, model, self.latent_model)

    def _reset(self, n_tune: int, n_draws: int) -> None:
        super()._reset(n_tune, n_draws)
        self.n_tune, self.n_draws = n_tune, n_draws
        self.indefinite = self.unconverged = 0
        self.theta = np.empty(0)
        self.latent = np.empty(0)
        self.tuning: Tuning | None = None
        self.frozen: Frozen | None = None
        self.chain: State | None = None

    def _update(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        if self.tuning is None and self.chain is None:
            self._start(point)
        else:
            self._refuse_foreign_moves(point)
        stats = self._move()
        return self.latent_model.unravel(self.theta) | self.latent_model.unravel_latent(self.latent), stats

    def _move(self) -> dict[str, Any]:
        if self.chain is not None and self.frozen is not None:
            return self._sampling_step(self.chain, self.frozen)
        assert self.tuning is not None
        return self._tuning_step(self.tuning)

    def _finish_tuning(self) -> None:
        """Freeze what was learned, choose the number of importance samples, and start the exact chain."""
        if self.tuning is not None:
            self._freeze(self.tuning)

    def _start(self, point: dict[str, np.ndarray]) -> None:
        model = self.latent_model
        theta = model.ravel(point)
        current = self._usable(theta)
        if current is None:
            raise SamplingError(unusable_start(model, theta))
        if self.tune:
            current = self._disperse(current)
        self._hold(current)
        proposal = AdaptiveProposal(model.dimension, self.target_acceptance)
        self.tuning = Tuning(model.dimension, len(self._evaluate.start_from(current)), max(self.n_tune, 1), proposal)
        if not self.tune:
            self._freeze(self.tuning)

    def _disperse(self, current: Fitted) -> Fitted:
        """Start each chain at its own theta, uniform within one unit of the given one, as R-hat supposes."""
        for _ in range(START_ATTEMPTS):
            shifted = self._usable(current.theta + self.rng.uniform(-1.0, 1.0, current.theta.shape))
            if shifted is not None:
                return shifted
        return current

    def _usable(self, theta: np.ndarray) -> Fitted | None:
        """The evaluation at a theta where a chain may start."""
        evaluation = self._evaluate(theta, None)
        if not isinstance(evaluation, Fitted) or not np.isfinite(evaluation.log_screen):
            return None
        return evaluation.with_prior_factor()

    def _freeze(self, tuning: Tuning) -> None:
        predictor = tuning.predictor
        draws, spread = choose_draws(self.rng, self.scheme.estimator, tuning.kept, self._evaluate, predictor)
        if draws is not None and spread > LARGE_SPREAD:
            warnings.warn(large_spread(draws, spread, type(self.scheme.estimator).__name__), UserWarning, stacklevel=2)
        self.frozen = Frozen(tuning.frozen_proposal(), predictor, draws)
        # With the frozen predictor q is another one than before.
        self._current = None
        ready = self._ready(predictor)
        self._hold(ready)
        try:
            self.chain = self.scheme.init(self.rng, ready, self.frozen)
        except FloatingPointError as error:
            raise SamplingError(str(error)) from error
        self.tuning = None

    def _hold(self, current: Evaluated) -> None:
        self._current, self.theta, self.latent = current, current.theta, current.approximation.mean

    def _evaluation(self, predictor: ModePredictor | None) -> Evaluated:
        """The evaluation at theta, computed again where a restored state came without it."""
        if self._current is None:
            evaluation = self._evaluate(self.theta, predictor)
            if not isinstance(evaluation, Fitted):
                raise SamplingError(unusable_start(self.latent_model, self.theta))
            self._current = evaluation
        return self._current

    def _ready(self, predictor: ModePredictor | None) -> Ready:
        ready = self._evaluate.prepare(self._evaluation(predictor))
        if not isinstance(ready, Ready):
            raise SamplingError(unusable_start(self.latent_model, self.theta))
        return ready

    def _tuning_step(self, tuning: Tuning) -> dict[str, Any]:
        current, accepted, rate = tuning.step(self.rng, self._evaluation(tuning.predictor), self._evaluate)
        self._hold(current)
        if tuning.just_refitted:
            self._current = None
        return {
            "tune": True,
            "accepted": float(accepted),
            "acceptance_rate": rate,
            "log_marginal_likelihood": current.approximation.log_evidence,
            "importance_ess": np.nan,
            "importance_draws": 0,
            "n_newton": current.approximation.iterations,
            "indefinite": False,
            "converged": current.approximation.converged,
            "exact": False,
        }

    def _sampling_step(self, chain: State, frozen: Frozen) -> dict[str, Any]:
        current = self._ready(frozen.predictor)
        self.chain, self._current, info = self.scheme.step(self.rng, chain, current, self._evaluate, frozen)
        self.theta, self.latent = self.chain.theta, info.latent
        self.indefinite += info.indefinite
        self.unconverged += not info.converged
        if self.chain.iteration == self.n_draws:
            self._report_failures()
        return {
            "tune": False,
            "accepted": float(info.accepted),
            "acceptance_rate": info.acceptance_rate,
            "log_marginal_likelihood": self.chain.log_estimate,
            "importance_ess": self.chain.effective_size,
            "importance_draws": frozen.draws or 1,
            "n_newton": info.iterations,
            "indefinite": info.indefinite,
            "converged": info.converged,
            "exact": self.exact,
        }

    def _report_failures(self) -> None:
        if self.indefinite:
            warnings.warn(indefinite_proposals(self.indefinite, self.n_draws), UserWarning, stacklevel=2)
        if self.unconverged:
            warnings.warn(unconverged_proposals(self.unconverged, self.n_draws), UserWarning, stacklevel=2)

    def _refuse_foreign_moves(self, point: dict[str, np.ndarray]) -> None:
        if np.array_equal(self.latent_model.ravel(point), self.theta):
            return
        raise SamplingError(
            "another step method moved the hyper-parameters, which would invalidate the stored estimate of p(y|theta); "
            "PseudoMarginal updates all free variables by itself: pass it alone as step="
        )
