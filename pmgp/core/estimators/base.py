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
        """Log of the estimate."""
        ...

    @property
    def effective_size(self) -> float:
        """Effective number of draws behind it."""
        ...

    def choose(self, rng: np.random.Generator) -> np.ndarray:
        """Draw f, (n,), from p(f|theta, y) if the estimate is one that a chain has accepted."""
        ...


class Estimator(Protocol):
    """Estimates p(y|theta) without bias.

    It is given q, which knows its prior; an estimator need not draw from q.
    """

    def estimate(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        draws: int | None = None,
    ) -> Estimate:
        """Make a fresh estimate, with `draws` draws if a scheme has chosen their number."""
        ...

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> Estimate:
        """Make an estimate given a draw of f that is kept: a Gibbs update of the chain's extended target."""
        ...


class Weighted(Estimate, Protocol):
    """An estimate that is a mean of weights."""

    @property
    def log_weights(self) -> np.ndarray:
        """Logarithms of the weights: (draws,)."""
        ...


@runtime_checkable
class Calibrated(Protocol):
    """An estimator that is a mean of independent weights, so that a scheme can choose how many there are.

    Attributes
    ----------
    draws : int or "auto"
        Number of particles, or "auto" if a scheme has to choose it.
    calibration_pool : int
        Number of particles that measure the spread of the estimate.
    antithetic : bool
        Whether particles come in mirror images, the second half those of the first.
    """

    @property
    def draws(self) -> int | str:
        """Number of particles."""
        ...

    @property
    def calibration_pool(self) -> int:
        """Number of particles that measure the spread."""
        ...

    @property
    def antithetic(self) -> bool:
        """Whether particles come in mirror images."""
        ...

    def estimate(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        draws: int | None = None,
    ) -> Weighted:
        """Make a fresh estimate, with its weights."""
        ...


@runtime_checkable
class Repeated(Protocol):
    """An estimator whose weights are not independent, so that its spread is measured from whole estimates.

    A scheme chooses its number of draws from them, assuming that the variance of the log-estimate is inversely
    proportional to that number.

    Attributes
    ----------
    draws : int or "auto"
        Number of particles, or "auto" if a scheme has to choose it.
    calibration_draws, calibration_repeats : int
        Number of particles of an estimate that measures the spread, and number of such estimates at a point.
    """

    @property
    def draws(self) -> int | str:
        """Number of particles."""
        ...

    @property
    def calibration_draws(self) -> int:
        """Number of particles of an estimate that measures the spread."""
        ...

    @property
    def calibration_repeats(self) -> int:
        """Number of such estimates at a point."""
        ...

    def estimate(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        draws: int | None = None,
    ) -> Estimate:
        """Make a fresh estimate."""
        ...


class Size(NamedTuple):
    """The size of the problem that an estimate is made for.

    Attributes
    ----------
    values : int
        Number of latent values of all vectors together.
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
    """An estimator whose work is known, so that a scheme can choose the cheapest for a given spread.

    It is also `Calibrated` or `Repeated`.
    """

    def work(self, size: Size, draws: int) -> float:
        """Return the cost of an estimate, in additions and multiplications of a product of matrices.

        This is a count and not a measurement of time, so that the choice depends on a chain's seed alone.
        """
        ...


@runtime_checkable
class Demanding(Protocol):
    """An estimator that some likelihoods do not suit."""

    def require(self, likelihood: Likelihood) -> None:
        """Raise a ValueError that says why if the likelihood does not suit the estimator."""
        ...


@runtime_checkable
class SharesDraws(Protocol):
    """An estimator whose conditional estimate uses draws from q, so that a scheme can make them with its own draws.

    A matrix product with eight columns takes little longer than one with a single column.
    """

    def redrawn(self, draws: int) -> int:
        """Number of draws from q that a conditional estimate needs, besides the retained particle."""
        ...

    def estimate_from(
        self, approximation: Posterior, likelihood: Likelihood, retained: np.ndarray, deviations: np.ndarray
    ) -> Estimate:
        """Make the conditional estimate from draws from q less its mean: (redrawn, n)."""
        ...
