"""Importance sampling of theta: proposals fitted to draws, and sums of weights.

May import: core.numerics.
"""

from pmgp.core.importance.student_mixture import StudentMixture, fitted
from pmgp.core.importance.weights import LogMean, effective_size, log_mean

__all__ = ["LogMean", "StudentMixture", "effective_size", "fitted", "log_mean"]
