"""Counts with more spread than a Poisson distribution has: negative binomial, with mean exp(f) and shape alpha."""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.discrete import NegativeBinomial
from pymc.distributions.distribution import Discrete
from pytensor.tensor.random.basic import nbinom
from scipy.special import expit, gammaln

from pmgp.core.likelihoods.base import FactorizingLikelihood
from pmgp.core.likelihoods.checks import check_counts, check_positive
from pmgp.interface.distributions.base import LatentVariable, as_parameter, resized
from pmgp.interface.distributions.records import Expected, LikelihoodRecord, register


class NegativeBinomialLikelihood(FactorizingLikelihood):
    """For the core: with s = exp(f) / (alpha + exp(f)), the derivatives in f are polynomials in s and 1 - s."""

    def __init__(self, y, alpha):
        self.y, self.alpha = check_counts(y), check_positive("alpha", alpha)
        self._constant = gammaln(self.y + self.alpha) - gammaln(self.alpha) - gammaln(self.y + 1.0)

    def _shares(self, f):
        return expit(f - np.log(self.alpha)), expit(np.log(self.alpha) - f)

    def log_density(self, f):
        """y log s + alpha log(1 - s) and a constant: (..., n) -> (..., n)."""
        logit = f - np.log(self.alpha)
        return self._constant - self.y * np.logaddexp(0.0, -logit) - self.alpha * np.logaddexp(0.0, logit)

    def gradient(self, f):
        """y (1 - s) - alpha s."""
        share, rest = self._shares(f)
        return self.y * rest - self.alpha * share

    def curvature(self, f):
        """Minus the second derivative, never negative: (y + alpha) s (1 - s)."""
        share, rest = self._shares(f)
        return (self.y + self.alpha) * share * rest

    def third_derivative(self, f):
        """(y + alpha) s (1 - s) (2 s - 1)."""
        share, rest = self._shares(f)
        return (self.y + self.alpha) * share * rest * (share - rest)

    def fisher_information(self, f):
        """The curvature, which is linear in y, at the mean of y: alpha s."""
        return self.alpha * self._shares(f)[0]


class NegativeBinomialRV(LatentVariable):
    """The random variable; its first parameter is f."""

    name = "negative_binomial_of_log_mean"
    extended_signature = "[rng],[size],(),()->[rng],()"

    @classmethod
    def draw(cls, rng, size, f, alpha):
        return nbinom(alpha, pt.sigmoid(pt.log(alpha) - f), size=size, rng=rng, return_next_rng=True)


class NegativeBinomialOfLogMean(Discrete):
    """The PyMC distribution: ``NegativeBinomialOfLogMean("y", f, alpha, observed=counts)``."""

    rv_type, rv_op = NegativeBinomialRV, NegativeBinomialRV.rv_op

    @classmethod
    def dist(cls, f, alpha, **kwargs):
        return super().dist([as_parameter(f), as_parameter(alpha)], **kwargs)

    def support_point(rv, size, f, alpha):
        return resized(pt.floor(pt.exp(f)), size)

    def logp(value, f, alpha):
        return NegativeBinomial.logp(value, alpha, pt.sigmoid(pt.log(alpha) - f))


mean = Expected(under_normal=lambda mean, variance, alpha: np.exp(mean + 0.5 * variance))
register(LikelihoodRecord(NegativeBinomialRV, NegativeBinomialLikelihood, {"mean": mean}))
