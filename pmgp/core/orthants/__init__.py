"""Unbiased estimates of the probability that a Gaussian vector lies between limits, and draws of it between them.

The modules need only NumPy and SciPy, except for `compiled` and `compiled_normal`, which need numba and are imported
when they are first used. `pmgp.core.estimators` uses this folder for likelihoods whose latent value, with normal noise,
lies between limits.

May import: core.numerics, core.likelihoods, core.gaussians, core.approximations.
"""

from pmgp.core.orthants.classification import OrthantClassification, classify
from pmgp.core.orthants.probability import METHODS, OrthantProbability, log_probability

__all__ = ["METHODS", "OrthantClassification", "OrthantProbability", "classify", "log_probability"]
