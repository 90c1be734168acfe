"""p(f|theta) of a process with Matern kernels in time, from its states: O(n) for times in any order."""

from __future__ import annotations

import numpy as np
import pymc as pm

from pmgp.core.markov import PrecisionPrior, StatePattern, Times, lines_of, transitions
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.markov import SeriesPrior
from pmgp.interface.model.theta_vector import ThetaVector
from pmgp.interface.model.time_series import process_of


class ProcessPrior(SeriesPrior):
    """The function from theta to p(f|theta) for a sum of Matern processes in time, perhaps times cosines.

    Its times must not depend on hyper-parameters.
    """

    kind = "process in time"
    needs = "the length-scales, variances and periods must be positive and finite, and the mean finite"
    computed = "not needed: the process is a chain of states, in O(n)"
    _times: Times

    def __init__(self, model: pm.Model, latent: LatentVector, theta: ThetaVector) -> None:
        [rv] = latent.variables
        self._parts = rv.owner.op.parts
        self._read: np.ndarray | None = None
        # Patterns by order and rotation of the lines: their number depends on the length-scales of periodic kernels.
        self._patterns: dict[tuple[tuple[float, bool], ...], StatePattern] = {}
        super().__init__(model, latent, theta)
        if theta.elements_of(model.replace_rvs_by_values([process_of(rv).times])):
            raise ModelError(f"the times of {self.name!r} depend on hyper-parameters; they must be data")

    def __call__(self, theta: np.ndarray) -> PrecisionPrior:
        """Return p(f|theta), with NaN in its precision where parameters are impossible."""
        mean, times, *kernel = (np.asarray(one, dtype=float) for one in self._parameters_at(theta))
        self._know(times)
        lines = lines_of(self._parts, *kernel)
        kinds = tuple((line.order, line.frequency != 0.0) for line in lines)
        if kinds not in self._patterns:
            self._patterns[kinds] = StatePattern.of(self._times, lines)
        values = transitions(self._times, lines)
        if not np.isfinite(mean).all():
            values = np.full_like(values, np.nan)
        return PrecisionPrior.centered(self._patterns[kinds], values, mean)

    def _know(self, times: np.ndarray) -> None:
        """Sort the times, unless they are those of the last call."""
        if self._read is not None and np.array_equal(self._read, times):
            return
        if not np.isfinite(times).all():
            raise ModelError(
                f"{np.count_nonzero(~np.isfinite(times))} of the {len(times)} times of {self.name!r} are not finite"
            )
        self._read = times.copy()
        self._times = Times(times)
        self._patterns = {}

    @staticmethod
    def _change(precision_bar: np.ndarray, above: PrecisionPrior, below: PrecisionPrior) -> float:
        return _inner(precision_bar, above) - _inner(precision_bar, below)


def _inner(bar: np.ndarray, prior: PrecisionPrior) -> float:
    """Return x'K y - log|1 + K W| / 2 for the bar (x, y, W), without the loss of digits in a precision."""
    x, y, precision = bar
    shrinkage = prior.shrinkage(precision)
    return np.nan if shrinkage is None else float(x @ prior.product(y) - 0.5 * shrinkage.log_determinant)
