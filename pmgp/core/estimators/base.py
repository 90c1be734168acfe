"""The protocols of estimators of the marginal likelihood, and of the estimates they make."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from pmgp.core.gaussians import Posterior
from pmgp.core.likelihoods.base import Likelihood

__all__ = ["Calibrated", "Demanding", "Estimate", "Estimator", "Priced", "Repeated", "SharesDraws", "Size", "Weighted"]


class Estimate(Protocol):
    """An estimate of p(y|theta), and what it knows of f."""

    @property
    def log_evidence(self) -> float:
        """Log of the estimate."""
        ...

    @property
    def effective_size(self) -> float:
        """Effective number of draws behind it."""
        ...

    def choose(self, rng: np.random.Generator) -> np.ndarray:
        """A draw of f, from p(f|theta, y) where the estimate is one that a chain has accepted: (n,)."""
        ...


class Estimator(Protocol):
    """Estimates p(y|theta) without bias.

    It is given q, which knows its prior; an estimator that draws nothing from q may leave that aside.
    """

    def estimate(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        draws: int | None = None,
    ) -> Estimate:
        """A fresh estimate; with `draws` draws, where a scheme has chosen their number."""
        ...

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> Estimate:
        """An estimate given a draw of f that is kept: a Gibbs update of the chain's extended target."""
        ...


class Weighted(Estimate, Protocol):
    """An estimate that is a mean of weights."""

    @property
    def log_weights(self) -> np.ndarray:
        """Their logarithms: (draws,)."""
        ...


@runtime_checkable
class Calibrated(Protocol):
    """An estimator that is a mean of independent weights, so that a scheme can choose how many there are.

    Attributes
    ----------
    draws : int or "auto"
        Number of particles, or "auto" if a scheme has to choose it.
    calibration_pool : int
        How many particles measure the spread of the estimate.
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
        """A fresh estimate, with its weights."""
        ...


@runtime_checkable
class Repeated(Protocol):
    """An estimator whose weights are not independent, so that whole estimates say how they spread.

    A scheme chooses its number of draws by them. The variance of the log-estimate is taken for inverse to that number.

    Attributes
    ----------
    draws : int or "auto"
        Number of particles, or "auto" if a scheme has to choose it.
    calibration_draws, calibration_repeats : int
        How many particles the estimates have that measure the spread, and how many of them are made at a point.
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
        """A fresh estimate."""
        ...


class Size(NamedTuple):
    """The size of the problem that an estimate is made for.

    Attributes
    ----------
    values : int
        Latent values, those of all vectors together.
    vectors : int
        Latent vectors.
    divisible : bool
        Whether the terms of some observations can be had without the others.
    """

    values: int
    vectors: int = 1
    divisible: bool = False


@runtime_checkable
class Priced(Estimator, Protocol):
    """One whose work is known, so that a scheme can choose among several by what draws for the same spread cost.

    It is `Calibrated` or `Repeated`, too.
    """

    def work(self, size: Size, draws: int) -> float:
        """Return the cost of an estimate, in additions and multiplications of a product of matrices.

        A count, and no measurement of the machine that runs: what is chosen by it depends on a chain's seed alone.
        """
        ...


@runtime_checkable
class Demanding(Protocol):
    """An estimator that some likelihoods do not suit."""

    def require(self, likelihood: Likelihood) -> None:
        """Refuse those: a ValueError that says why."""
        ...


@runtime_checkable
class SharesDraws(Protocol):
    """An estimator whose conditional estimate is made of draws of q, so that a scheme can make them with its own.

    A matrix product with eight columns takes little longer than one with one.
    """

    def redrawn(self, draws: int) -> int:
        """How many draws of q a conditional estimate is made of, besides what is retained."""
        ...

    def estimate_from(
        self, approximation: Posterior, likelihood: Likelihood, retained: np.ndarray, deviations: np.ndarray
    ) -> Estimate:
        """The conditional estimate from so many draws of q less its mean: (redrawn, n)."""
        ...
