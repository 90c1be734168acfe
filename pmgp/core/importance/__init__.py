"""Importance sampling: proposals for theta, sums of weights, and weights with an observation left out.

May import: core.numerics, core.likelihoods, core.gaussians, core.approximations, core.estimators.
"""

from pmgp.core.importance.block_left_out import block_evidence_left_out
from pmgp.core.importance.integrated_left_out import integrated_evidence_left_out
from pmgp.core.importance.left_out import Terms, log_evidence_left_out
from pmgp.core.importance.maxima import Maximum, Start, all_maxima, dispersed
from pmgp.core.importance.peak import Density, Peak, Polished, curvature, peak, polished, scale_at, student_at
from pmgp.core.importance.refitted import Refitted
from pmgp.core.importance.split_mixture import SplitMixture
from pmgp.core.importance.split_student import SplitStudent
from pmgp.core.importance.student_mixture import StudentMixture, fitted
from pmgp.core.importance.weights import LogMean, effective_size, log_mean, resampled

__all__ = [
    "Density",
    "LogMean",
    "Maximum",
    "Peak",
    "Polished",
    "Refitted",
    "SplitMixture",
    "SplitStudent",
    "Start",
    "StudentMixture",
    "Terms",
    "all_maxima",
    "block_evidence_left_out",
    "curvature",
    "dispersed",
    "effective_size",
    "fitted",
    "integrated_evidence_left_out",
    "log_evidence_left_out",
    "log_mean",
    "peak",
    "polished",
    "resampled",
    "scale_at",
    "student_at",
]
