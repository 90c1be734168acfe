"""Unbiased estimates of the probability that a Gaussian vector lies between limits, and draws of it between them.

NumPy and SciPy, and in `compiled` and `compiled_normal` numba; these two are loaded where they are first needed.
`pmgp.core.estimators` uses it for likelihoods whose latent value, with normal noise, lies between limits.

May import: core.numerics, core.likelihoods, core.gaussians, core.approximations.
"""

from pmgp.core.orthants.classification import OrthantClassification, classify
from pmgp.core.orthants.probability import METHODS, OrthantProbability, log_probability

__all__ = [
    "METHODS",
    "OrthantClassification",
    "OrthantProbability",
    "classify",
    "log_probability",
]
