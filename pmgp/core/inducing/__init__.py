"""Computations with inducing inputs, in NumPy and SciPy only.

May import: core.numerics, core.likelihoods, core.transitions, core.adaptation.
"""

from pmgp.core.inducing.conditional import (
    Derivatives,
    GaussianFit,
    Sites,
    WhitenedConditional,
    fitted,
    fitted_by_sites,
    slices,
)
from pmgp.core.inducing.hyperparameters import Known, ModeSearch, ThetaDensity, known_at
from pmgp.core.inducing.optimization import ExpectedLogDensity, Maximized, Variational, bound, maximized
from pmgp.core.inducing.selection import cluster_centers, largest_conditional_variances
from pmgp.core.inducing.trajectories import Moved, angle_to_learn, trajectory

__all__ = [
    "Derivatives",
    "ExpectedLogDensity",
    "GaussianFit",
    "Known",
    "Maximized",
    "ModeSearch",
    "Moved",
    "Sites",
    "ThetaDensity",
    "Variational",
    "WhitenedConditional",
    "angle_to_learn",
    "bound",
    "cluster_centers",
    "fitted",
    "fitted_by_sites",
    "known_at",
    "largest_conditional_variances",
    "maximized",
    "slices",
    "trajectory",
]
