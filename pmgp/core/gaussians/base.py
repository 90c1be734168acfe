"""The contract of Gaussians over the latent values: all that the algorithms know about one.

Three classes work together. A :class:`Prior` is N(f|m, K). A :class:`ConditionedPrior` is the prior while an
approximation looks for Gaussian sites. A :class:`Posterior` is q(f), the prior times the sites that were found. Priors
and posteriors do not change: a jitter makes a new prior. No code outside `core/gaussians/` looks at a matrix or at the
kind.

A new kind derives from `Prior` and defines ``mean``, ``variance``, ``product``, ``deviations_from`` and
``conditioning``. A kind that knows S = (K^-1 + W)^-1 for diagonal W derives from
:class:`~pmgp.core.gaussians.shrinking.ShrinkingPrior` instead, and defines ``shrinkage`` in place of ``conditioning``.
That returns a :class:`~pmgp.core.gaussians.shrinking.Shrinkage` with ``product``, ``diagonal``, ``log_determinant`` and
``covariance_bar``. Such a kind supports Laplace's method and expectation propagation with the gradients of their
evidence, importance sampling and annealed importance sampling, and elliptical slices. Everything else may be added
method by method. A method that a kind leaves out raises an :class:`UnsupportedError`, which says what needs it and what
to use instead.

The gradient of the evidence in K is a *bar*: whatever the posterior's ``covariance_bar`` returns and the model's
``covariance_pullback`` of the same kind takes. No code between the two looks into it. For the dense kind it is the
lower triangle of a symmetric matrix; for a sparse precision, a contraction on its pattern; for an iterative kind, pairs
of vectors.

A kind with compiled loops overrides ``swept`` and ``newton`` of its `ConditionedPrior`, and ``estimated``, ``weighed``,
``renewed`` and ``moved`` of its `Posterior`. They return None where there is no kernel; the same steps are then made in
Python.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, Protocol, Self, cast

import numpy as np

from pmgp.core.likelihoods.base import Likelihood, sound_precision
from pmgp.core.numerics.conditioning import log_normalizer

# Precisions of sites, times the prior variance, between which B keeps digits; below the smallest, the data say nothing
# about that latent value.
SMALLEST_PRECISION, LARGEST_PRECISION = 1e-10, 1e13
# Precision of a site, times the prior variance, below which 1 - w v and differences like it lose digits.
INFORMATIVE = 1e-8
# Below this variance of the prior, w f^2 would have no digits left with such a precision.
SMALLEST_VARIANCE = 1e-16
EPSILON = float(np.finfo(float).eps)
# The largest error of a log-evidence from rounding of the sums of w (f - m)^2 and of w m^2, of which little is left.
LARGEST_ERROR = 0.02


class UnsupportedError(ValueError):
    """A Gaussian does not support an operation."""


class Coordinates(Protocol):
    """f = mean + D x, with x standard normal under a Gaussian."""

    @property
    def mean(self) -> np.ndarray:
        """The mean: (n,)."""

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """Return D^-1 (f - mean): (n,) -> (n,)."""

    def deviation(self, x: np.ndarray) -> np.ndarray:
        """Return D x: (n,) -> (n,)."""

    def unwhiten(self, x: np.ndarray) -> np.ndarray:
        """Return mean + D x: (n,) -> (n,)."""

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """Return D' g, the gradient in x of a function whose gradient in f is g: (n,) -> (n,)."""


class Observed(ABC):
    """f given noisy observations g of it, in `Coordinates` where f is standard normal; the noise is Gaussian.

    The mean is that of the prior: it leaves out the observations' effect.

    Attributes
    ----------
    prior : Prior
        With a jitter if one was needed.
    precision : (n,) array
        Precisions W of the noise.
    """

    prior: Prior
    precision: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """m: (n,)."""
        return self.prior.mean

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """Return D^-1 (f - m): (n,) -> (n,)."""
        return self.whitened(f - self.prior.mean)

    @abstractmethod
    def whitened(self, deviation: np.ndarray) -> np.ndarray:
        """Return D^-1 e: (n,) -> (n,)."""

    @abstractmethod
    def deviation(self, x: np.ndarray) -> np.ndarray:
        """Return D x: (n,) -> (n,)."""

    def unwhiten(self, x: np.ndarray) -> np.ndarray:
        """Return m + D x: (n,) -> (n,)."""
        return self.prior.mean + self.deviation(x)

    @abstractmethod
    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """Return D' g, the gradient in x of a function whose gradient in f is g: (n,) -> (n,)."""

    def mean_given(self, observations: np.ndarray) -> np.ndarray:
        """Return m + D D' W (g - m), the mean of f given observations g: (n,) -> (n,)."""
        return self.unwhiten(self.pull((observations - self.prior.mean) * self.precision))

    @abstractmethod
    def log_density_of(self, observations: np.ndarray) -> float:
        """Return log N(g|m, K + W^-1) up to a constant."""


class Gaussian(ABC):
    """A multivariate normal distribution of f."""

    mean: np.ndarray

    @property
    def size(self) -> int:
        """Number of latent values n."""
        return len(self.mean)

    @property
    @abstractmethod
    def variance(self) -> np.ndarray:
        """Marginal variances: (n,)."""

    @abstractmethod
    def product(self, x: np.ndarray) -> np.ndarray:
        """Return the product of the covariance with x of shape (n,) or (n, k)."""

    @abstractmethod
    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw f - mean: (size, n)."""

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw f: (size, n)."""
        return self.mean + self.sample_deviations(rng, size)

    @abstractmethod
    def log_ratio(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Return the log of p(y|f) N(f|m, K) over this density, up to a constant: (..., n) -> (...)."""

    def moved(
        self, rng: np.random.Generator, f: np.ndarray, value: float, likelihood: Likelihood, auxiliary: np.ndarray
    ) -> tuple[np.ndarray, float, int] | None:
        """Move f on an ellipse through it and a draw, with a kernel; None where there is none.

        Return f, the log-ratio there and how often it was computed. `value` is the log-ratio at the given f, or NaN if
        it is not known.
        """
        return None

    def _lacks(self, what: str, instead: str) -> NoReturn:
        raise UnsupportedError(f"a {type(self).__name__} has no {what}; use {instead}")


class Prior(Gaussian):
    """N(f|m, K).

    Attributes
    ----------
    mean : (n,) array
    jitter : float
        Amount added to the diagonal of K so that it could be factorized, in units of the variance.
    vectors : int
        Number of latent vectors that f consists of, one after another, or of linear predictors of each site.
    """

    jitter: float = 0.0
    vectors: int = 1

    @property
    def in_blocks(self) -> bool:
        """Whether sites are over several values, or combinations of them, so that their precisions are matrices."""
        return False

    @abstractmethod
    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws of f - m: (size, n) -> (size, n)."""

    @abstractmethod
    def conditioning(self) -> ConditionedPrior:
        """Return the prior in the form that a search for sites conditions, in its own memory."""

    @property
    def is_finite(self) -> bool:
        """Whether mean and variances are finite."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.variance).all())

    def factorized(self) -> Self | None:
        """Return the prior ready for draws, with a jitter if K needs one; None if K stays indefinite."""
        return self

    def inverted(self) -> Self:
        """Return the prior after computing the matrices that solves need, instead of when they are first used."""
        return self

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw f - m: (size, n)."""
        return self.deviations_from(rng.standard_normal((size, self.size)))

    def log_ratio(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Return the log of the likelihood, which is p(y|f) N(f|m, K) over the prior: (..., n) -> (...)."""
        return likelihood.log_likelihood(f)

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return K^-1 x for x of shape (n,) or (n, k)."""
        self._lacks("solutions with its covariance", "a transition that needs only draws, such as an elliptical slice")

    def precision_product(self, x: np.ndarray) -> np.ndarray:
        """Return K^-1 x, for many x of shape (n,)."""
        return self.solve(x)

    def log_density(self, f: np.ndarray) -> float:
        """Return log N(f|m, K) for f of shape (n,)."""
        self._lacks("density, which updates of theta given f need", "the pseudo-marginal chain")

    def log_density_gradient(self, f: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the gradients of log N(f|m, K): a bar for K, and (n,) in m."""
        self._lacks("gradient of its density in theta", "the pseudo-marginal chain, or a random walk for theta")

    def scaled(self, ratio: float) -> Prior:
        """Return N(m, ratio K)."""
        self._lacks("scaled copies, which the update of a variance given f needs", "another update of theta")

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """Return L^-1 (f - m) for a root L of K: (n,), or (k, n) for several f."""
        self._lacks("coordinates in which it is standard normal", "the pseudo-marginal chain")

    def deviation(self, nu: np.ndarray) -> np.ndarray:
        """Return L nu: (n,) -> (n,)."""
        self._lacks("coordinates in which it is standard normal", "the pseudo-marginal chain")

    def unwhiten(self, nu: np.ndarray) -> np.ndarray:
        """Return m + L nu: (n,) -> (n,)."""
        return self.mean + self.deviation(nu)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """Return L' g, the gradient in nu of a function whose gradient in f = m + L nu is g: (n,) -> (n,)."""
        self._lacks("coordinates in which it is standard normal", "the pseudo-marginal chain")

    def unwhitening_gradient(self, nu: np.ndarray, gradient: np.ndarray) -> Any:
        """Return the bar for K of a function whose gradient in f = m + L nu is g."""
        self._lacks("gradient of its coordinates in theta", "a random walk for theta")

    def unwhitening_changes(self, nu: np.ndarray, changes: Any) -> np.ndarray:
        """Return the change of L nu for each of p changes of K: (p, n)."""
        self._lacks("derivatives of its coordinates in theta", "a transition of theta without a metric tensor")

    def fisher_information(self, means: np.ndarray, covariances: Iterable[Any]) -> np.ndarray:
        """Return the Fisher information about p parameters, from the derivatives of m and K: (p, p)."""
        self._lacks("Fisher information about theta", "a transition of theta without a metric tensor")

    def precision_factor(self, information: np.ndarray) -> np.ndarray | None:
        """Return the lower Cholesky factor of K^-1 + diag(information); None if that is not positive definite."""
        self._lacks("factor of a metric tensor of f", "an elliptical slice")

    def shrunk(self, precision: Any) -> Any:
        """Return (K^-1 + W)^-1 for a `BlockMatrix` W, as metric tensors of f need it; None if that is not possible."""
        self._lacks("metric tensor of f", "the identity as metric, or an elliptical slice")

    def observed(self, precision: np.ndarray) -> Observed | None:
        """Condition f on observations with Gaussian noise of precisions (n,); None if K stays indefinite."""
        self._lacks("coordinates given surrogate data", "the pseudo-marginal chain, or an elliptical slice")

    def ordered_factor(self, diagonal: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Return the lower Cholesky factor of K + diag(diagonal), with rows and columns in the given order: (n, n)."""
        self._lacks("factor with its variables in a given order, which OrthantSampling needs", 'estimator="importance"')


class Reached(NamedTuple):
    """The state in which a kernel has left a `ConditionedPrior`.

    `status`: ``MATCHED``, ``NOT_CONVERGED`` or ``INDEFINITE`` of `core.numerics.compiled.outcomes`.
    """

    status: int
    iterations: int
    log_evidence: float


class _WithSites:
    """Quantities that follow from a prior and Gaussian sites, for `ConditionedPrior` and `Posterior` alike."""

    prior: Prior
    linear: np.ndarray
    precision: Any
    mean: np.ndarray

    @property
    def largest_variance(self) -> np.ndarray:
        """A bound on the variances of f without one of the sites: those of the prior, (n,)."""
        return self.prior.variance

    def variance_given(self, inverse_diagonal: np.ndarray) -> np.ndarray:
        """Return the variances of q for a known diagonal of (I + W K)^-1: (n,)."""
        return marginal_variance(self.prior.variance, self.precision, inverse_diagonal)


class ConditionedPrior(_WithSites, ABC):
    """A prior that is conditioned on one set of Gaussian sites after another; it changes, and no q shares its memory.

    The sites are exp(b_i f_i - w_i f_i^2 / 2), or over the values of several latent vectors at a time.

    Attributes
    ----------
    linear : (n,) array
        Site parameters b.
    precision : (n,) array
        Site parameters w, positive.
    mean : (n,) array
        Mean of q.
    log_determinant : float
        Log-determinant of I + K W.
    """

    log_determinant: float

    @abstractmethod
    def on(self, linear: np.ndarray, precision: Any) -> bool:
        """Condition on sites; return False if that is not possible, for example if K contains NaN."""

    @property
    @abstractmethod
    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of (I + W K)^-1, which is 1 - w v for the variances v of q: (n,).

        It may overwrite the factor of the current sites: call :meth:`on` before anything else.
        """

    @property
    def precisions(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest precisions of sites with which q keeps digits: two (n,) arrays."""
        variance = np.maximum(self.prior.variance, SMALLEST_VARIANCE)
        return SMALLEST_PRECISION / variance, LARGEST_PRECISION / variance

    @property
    def log_normalizer(self) -> float:
        """Log of the integral of the prior times the sites."""
        return log_normalizer(self.prior.mean, self.linear, self.precision, self.mean, self.log_determinant)

    @abstractmethod
    def approximation(self, log_evidence: float, iterations: int, converged: bool = True) -> Posterior:
        """Return q for the sites of the last call of :meth:`on`."""

    def expansion(self, likelihood: Likelihood, f: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return the sites b and w that have the likelihood's gradient and curvature at f: (n,) arrays.

        The Fisher information replaces the curvature where that is not positive.
        """
        gradient, precision = likelihood.derivatives(f)
        precision = np.maximum(sound_precision(likelihood, f, precision), self.precisions[0])
        return precision * f + gradient, precision

    def information(self, change: np.ndarray) -> float:
        """Return d'W d for a change d of f: (n,)."""
        return float((self.precision * change).dot(change))

    @property
    def residual(self) -> np.ndarray:
        """b - W mu, which is K^-1 (mu - m): (n,)."""
        return self.linear - self.precision * self.mean

    def swept(self, terms: Any, settings: tuple[float, ...], sites: np.ndarray | None = None) -> Reached | None:
        """Sweep with a kernel, from the current sites or from given sites (2, n); None if there is no kernel.

        The terms are those of a likelihood, or of anything else that factorizes over f; the settings are those of
        `core.numerics.compiled.propagation`.
        """
        return None

    def newton(self, likelihood: Likelihood, start: np.ndarray | None, settings: tuple[float, ...]) -> Reached | None:
        """Find the mode with a kernel; None if there is no kernel. The settings are those of `compiled.newton`."""
        return None


class Posterior(_WithSites, Gaussian):
    """q(f), proportional to the prior times Gaussian sites.

    Attributes
    ----------
    linear : (n,) array
        Site parameters b.
    precision : (n,) array
        Site parameters w.
    mean : (n,) array
    log_evidence : float
        The approximation's own value of log p(y|theta).
    iterations : int
        Number of Newton steps or sweeps.
    converged : bool
        False if the requested approximation did not converge and another one replaces it.
    """

    log_evidence: float
    iterations: int
    converged: bool

    @property
    @abstractmethod
    def log_normalizer(self) -> float:
        """Log of the integral of the prior times the sites."""

    @property
    @abstractmethod
    def log_determinant(self) -> float:
        """Log-determinant of I + K W."""

    @property
    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of (I + W K)^-1, which is 1 - w v for the variances v of q: (n,)."""
        return 1.0 - self.precision * self.variance

    @property
    def resolved(self) -> bool:
        """Whether the log-evidence survives rounding: where sites are sharp, b f and w f^2 have many equal digits."""
        moved, offset = self.mean - self.prior.mean, self.prior.mean
        cancelled = (self.precision * moved).dot(moved) + (self.precision * offset).dot(offset)
        return not EPSILON * float(cancelled) > LARGEST_ERROR

    def factorized(self) -> Self | None:
        """Return q with its prior factorized, with a jitter where it needs one; None where K stays indefinite."""
        prior = self.prior.factorized()
        return self if prior is self.prior else None if prior is None else replace(cast(Any, self), prior=prior)

    @abstractmethod
    def conditioned(self) -> ConditionedPrior:
        """Return the prior conditioned on q's sites, in its own memory."""

    @abstractmethod
    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws of f - mean: (2, size, n) -> (size, n)."""

    @abstractmethod
    def covariance_bar(self, alpha: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the bar for K of the log-evidence at fixed sites, (alpha alpha' - (K + W^-1)^-1) / 2.

        `alpha` is b - W mean, of shape (n,). The second value is the diagonal of (I + W K)^-1, a by-product.
        """

    @abstractmethod
    def shifted_bar(self, bar: Any, shift: np.ndarray, alpha: np.ndarray) -> Any:
        """Add the bar of (shift alpha' + alpha shift') / 2 to a bar from :meth:`covariance_bar`."""

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw f - mean: (size, n)."""
        return self.deviations_from(rng.standard_normal((2, size, self.size)))

    def log_weights(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Return the log of p(y|f) N(f|m, K) / q(f), the importance weights: (..., n) -> (...)."""
        return self.log_normalizer + self.log_ratio(likelihood, f)

    def site_groups(self, number: int) -> Any:
        """Return the groups of sites that `SequentialSampling` takes in turn; see `gaussians.site_groups`."""
        self._lacks("values in groups, which SequentialSampling needs", 'estimator="importance"')

    def regressions(self, variance: np.ndarray) -> np.ndarray:
        """Return the coefficients of regressions of all latent values on each one, a row for each: (n, n)."""
        slopes = self.product(np.eye(self.size)) / variance[:, None]
        np.fill_diagonal(slopes, 1.0)
        return slopes

    def estimated(
        self, rng: np.random.Generator, likelihood: Likelihood, size: int, paired: bool
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray] | None:
        """Draw from q and weigh the draws with a kernel; None, without using `rng`, if there is no kernel.

        Return the log of the mean weight, particles (draws, n), their log-weights, and weights that sum to one.
        There are `size` draws, or twice as many if they are paired.
        """
        return None

    def weighed(
        self, likelihood: Likelihood, deviations: np.ndarray, paired: bool
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray] | None:
        """Weigh given draws of f - mean, (size, n), with a kernel; None if there is no kernel."""
        return None

    def renewed(
        self, rng: np.random.Generator, particle: np.ndarray, likelihood: Likelihood, draws: int, paired: bool
    ) -> tuple[np.ndarray, tuple[float, np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None:
        """Move a particle on an ellipse, and weigh `draws` draws that include it; None if there is no kernel.

        Return the particle, the result of :meth:`weighed`, and one of the draws, picked by weight.
        """
        return None


def marginal_variance(prior_variance: np.ndarray, precision: np.ndarray, inverse_diagonal: np.ndarray) -> np.ndarray:
    """Return the variances of q's marginals, (1 - diag(B^-1)) / w."""
    marginal = (1.0 - inverse_diagonal) / precision
    # If the prior has almost no variance, the sites' reduction of it is lost in rounding.
    return np.where(marginal > 0.0, marginal, prior_variance)
