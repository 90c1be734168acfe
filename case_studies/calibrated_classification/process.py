"""The Gaussian process classifier of the article, compiled once for all training sets of one shape."""

from __future__ import annotations

from functools import cache, cached_property

import numpy as np
import pymc as pm

import pmgp
from case_studies.calibrated_classification.data import Labeled
from pmgp.core.approximations import TIGHT, ExpectationPropagation
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.interface.maximum import Objective
from pmgp.interface.model.taking_apart import take_apart

__all__ = ["Process", "for_shape"]

# For single predictions: moments to four digits, at half the cost of a fit that derivatives need.
PREDICTIVE = ExpectationPropagation(tolerance=1e-4)


class Process:
    """A classifier whose data can be replaced.

    The covariance is isotropic (equation 5) and the link the probit. Priors are those of section 4.4: section 5 names
    none. On the logarithms of length-scale and variance, theta = (log length-scale, log variance).

    Parameters
    ----------
    n, d : int
        Shape of the training inputs.
    """

    def __init__(self, n: int, d: int) -> None:
        placeholder = np.random.default_rng(0).standard_normal((n, d))
        with pm.Model() as self.model:
            X, labels = pm.Data("X", placeholder), pm.Data("labels", np.arange(n) % 2)
            lengthscale = pm.Gamma("lengthscale", 1.0, 1.0 / np.sqrt(d))
            variance = pm.Gamma("variance", 1.1, 0.1)
            process = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(d, ls=lengthscale))
            pmgp.BernoulliProbit("y", process.prior("f", X=X, reparameterize=False), observed=labels)
        self.parts = take_apart(self.model)
        assert self.parts.theta_names == ["lengthscale_log__", "variance_log__"]

    def set_data(self, train: Labeled) -> None:
        """Take other training data of the same shape; step methods read them when a chain is set up."""
        pm.set_data({"X": train.X, "labels": train.y}, model=self.model)
        self.parts.refresh_data()

    @cached_property
    def evidence(self) -> Objective:
        """Expectation propagation's log-evidence with its gradient, without a prior."""
        return Objective(self.model, self.parts, TIGHT["ep"](), prior=False)

    @cached_property
    def steps(self) -> dict[str, pmgp.PseudoMarginal]:
        """Samplers by name: the article's, and pmgp's with its defaults."""
        return {
            "MCMC EP": pmgp.PseudoMarginal(model=self.model, approximation="ep", estimator="none"),
            "MCMC PM EP": pmgp.PseudoMarginal(
                model=self.model, approximation="ep", estimator=pmgp.estimators.ImportanceSampling(64)
            ),
            "pmgp default": pmgp.PseudoMarginal(model=self.model),
        }

    def probability_under_q(self, theta: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """P(y* = 1) with f integrated out under expectation propagation's q(f), as in section 2.1.

        As K^-1 mu = b - W mu, the mean of f* is k*' (b - W mu), its variance k** - k*' W^1/2 B^-1 W^1/2 k*.

        Parameters
        ----------
        theta : (2,) array
        squares : (n, m) array
            Squared distances of training inputs and new ones.

        Returns
        -------
        (m,) array
        """
        q = PREDICTIVE.fit(self.parts.prior(theta), self.parts.likelihood(theta))
        cross, variance = _cross_covariance(theta, squares)
        return _probability(cross.T @ (q.linear - q.precision * q.mean), variance, q.project(cross))

    def probability_given_f(self, theta: np.ndarray, f: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """P(y* = 1) given the latent values f of shape (n,) at the training inputs: (m,)."""
        prior = self.parts.prior(theta).factorized()
        assert prior is not None
        cross, variance = _cross_covariance(theta, squares)
        projected = prior.project(cross)
        return _probability(projected.T @ prior.whiten(f), variance, projected)


def _cross_covariance(theta: np.ndarray, squares: np.ndarray) -> tuple[np.ndarray, float]:
    lengthscale, variance = np.exp(theta)
    return variance * np.exp(-0.5 / lengthscale**2 * squares), float(variance)


def _probability(mean: np.ndarray, prior_variance: float, projected: np.ndarray) -> np.ndarray:
    variance = prior_variance - np.einsum("ij,ij->j", projected, projected)
    return BernoulliProbit.probability(mean, np.maximum(variance, 0.0))


@cache
def for_shape(n: int, d: int) -> Process:
    """The classifier for training inputs of shape (n, d), compiled when it is first asked for."""
    return Process(n, d)
