"""The protocols of estimators of the marginal likelihood, and of the estimates they make."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from pmgp.core.gaussians import Posterior
from pmgp.core.likelihoods.base import Likelihood


class Estimate(Protocol):
    """An estimate of p(y|theta), with draws of f."""

    @property
    def log_evidence(self) -> float:
        """The log of the estimate."""

    @property
    def effective_size(self) -> float:
        """The effective number of draws in the estimate."""

    def choose(self, rng: np.random.Generator) -> np.ndarray:
        """Return a draw of f, (n,), which is from p(f|theta, y) if a chain has accepted the estimate."""


class Estimator(Protocol):
    """An unbiased estimator of p(y|theta).

    It receives q, which knows its prior, but need not draw from q.
    """

    def estimate(
        self, rng: np.random.Generator, approximation: Posterior, likelihood: Likelihood, draws: int | None = None
    ) -> Estimate:
        """Return a fresh estimate, with `draws` draws if a scheme has chosen their number."""

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> Estimate:
        """Return an estimate given a draw of f that is kept, for a Gibbs update of the chain's extended target."""


class Weighted(Estimate, Protocol):
    """An estimate that is a mean of weights."""

    @property
    def log_weights(self) -> np.ndarray:
        """The logarithms of the weights: (draws,)."""


@runtime_checkable
class Calibrated(Protocol):
    """An estimator that is a mean of independent weights, so a scheme can choose their number."""

    @property
    def draws(self) -> int | str:
        """The number of particles, or "auto" if a scheme has to choose it."""

    @property
    def calibration_pool(self) -> int:
        """The number of particles with which the spread of the estimate is measured."""

    @property
    def antithetic(self) -> bool:
        """Whether the second half of the particles are mirror images of the first half."""

    def estimate(
        self, rng: np.random.Generator, approximation: Posterior, likelihood: Likelihood, draws: int | None = None
    ) -> Weighted:
        """Return a fresh estimate, with its weights."""


@runtime_checkable
class Repeated(Protocol):
    """An estimator whose weights are not independent, so its spread is measured from whole estimates.

    A scheme chooses its number of draws from them, assuming that the variance of the log-estimate is inversely
    proportional to that number.
    """

    @property
    def draws(self) -> int | str:
        """The number of particles, or "auto" if a scheme has to choose it."""

    @property
    def calibration_draws(self) -> int:
        """The number of particles in each estimate with which the spread is measured."""

    @property
    def calibration_repeats(self) -> int:
        """The number of such estimates at a point."""

    def estimate(
        self, rng: np.random.Generator, approximation: Posterior, likelihood: Likelihood, draws: int | None = None
    ) -> Estimate:
        """Return a fresh estimate."""


class Size(NamedTuple):
    """The size of the problem for which an estimate is made.

    Attributes
    ----------
    values : int
        Total number of latent values in all vectors.
    vectors : int
        Number of latent vectors.
    divisible : bool
        Whether the terms of some observations can be computed without the others.
    """

    values: int
    vectors: int = 1
    divisible: bool = False


@runtime_checkable
class Priced(Estimator, Protocol):
    """An estimator whose work is known, so a scheme can choose the cheapest for a given spread.

    It is also `Calibrated` or `Repeated`.
    """

    def work(self, size: Size, draws: int) -> float:
        """Return the cost of an estimate, in additions and multiplications of a product of matrices.

        This is a count and not a measurement of time, so the choice depends only on a chain's seed.
        """


@runtime_checkable
class Demanding(Protocol):
    """An estimator that does not suit all likelihoods."""

    def require(self, likelihood: Likelihood) -> None:
        """Raise a ValueError that gives the reason if the estimator does not suit the likelihood."""


@runtime_checkable
class SharesDraws(Protocol):
    """An estimator whose conditional estimate uses draws from q, so a scheme can make them with its own draws.

    A matrix product with eight columns takes little longer than one with a single column.
    """

    def redrawn(self, draws: int) -> int:
        """Return the number of draws from q that a conditional estimate needs, besides the retained particle."""

    def estimate_from(
        self, approximation: Posterior, likelihood: Likelihood, retained: np.ndarray, deviations: np.ndarray
    ) -> Estimate:
        """Return the conditional estimate from draws from q less its mean: (redrawn, n)."""
