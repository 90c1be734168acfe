"""Sample statistics of the pseudo-marginal step, about the moves on the screen and about the estimates."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmgp.core.estimators import Estimator, OrthantSampling, SequentialSampling
from pmgp.core.marginal.pseudo_marginal import Frozen, Info, State
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.interface.steps.base import ACCEPTANCE, COUNTS

STATISTICS: dict[str, Any] = {
    **ACCEPTANCE,
    "log_marginal_likelihood": (np.float64, []),
    "importance_ess": (np.float64, []),
    "importance_draws": (np.int64, []),
    "orthants": (bool, []),
    "sequential": (bool, []),
    **COUNTS,
    "n_newton": (np.int64, []),
    "indefinite": (bool, []),
    "converged": (bool, []),
    "exact": (bool, []),
    "screen_acceptance_rate": (np.float64, []),
    "n_steps": (np.int64, []),
    "step_size": (np.float64, []),
    "energy_error": (np.float64, []),
    "diverging": (bool, []),
}
# A trajectory whose energy error exceeds this has diverged, as in Stan and PyMC.
LARGEST_ENERGY_ERROR = 1000.0


def tuning_statistics(point: Point, info: TransitionInfo) -> dict[str, Any]:
    """Return the statistics of a tuning iteration, which moves on the screen alone and led to `point`."""
    approximation = point.payload.approximation
    return {
        "tune": True,
        "accepted": float(info.accepted),
        "acceptance_rate": info.acceptance_rate,
        "log_marginal_likelihood": approximation.log_evidence,
        "importance_ess": np.nan,
        "importance_draws": 0,
        "orthants": False,
        "sequential": False,
        "n_newton": approximation.iterations,
        "indefinite": False,
        "converged": approximation.converged,
        "exact": False,
        **_on_screen((info,)),
    }


def sampling_statistics(chain: State, info: Info, frozen: Frozen, estimator: Estimator, exact: bool) -> dict[str, Any]:
    """Return the statistics of an iteration that ended in `chain`."""
    return {
        "tune": False,
        "accepted": float(info.accepted),
        "acceptance_rate": info.acceptance_rate,
        "log_marginal_likelihood": chain.log_estimate,
        "importance_ess": chain.effective_size,
        "importance_draws": frozen.draws or getattr(estimator, "draws", 1),
        "orthants": isinstance(estimator, OrthantSampling),
        "sequential": isinstance(estimator, SequentialSampling),
        "n_newton": info.iterations,
        "indefinite": info.indefinite,
        "converged": info.converged,
        "exact": exact,
        **_on_screen(info.screen),
    }


def _on_screen(infos: tuple[TransitionInfo, ...]) -> dict[str, Any]:
    """Return statistics of the transitions on the screen; a proposal that was not screened is one evaluation."""
    if not infos:
        rate, evaluations, error, step_size = np.nan, 1, np.nan, np.nan
    else:
        _, rate, evaluations, _, error, step_size, _ = infos[-1]
    if len(infos) > 1:
        rate = sum([info.acceptance_rate for info in infos]) / len(infos)
        evaluations, error = sum([info.evaluations for info in infos]), max([info.energy_error for info in infos])
    return {
        "screen_acceptance_rate": rate,
        "n_steps": evaluations,
        "step_size": step_size,
        "energy_error": error,
        "diverging": error > LARGEST_ENERGY_ERROR,
    }
