"""The protocol every estimator of the marginal likelihood follows."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from pmgp.core.estimators.importance import Estimate
from pmgp.core.gaussians.sites import SiteApproximation
from pmgp.core.likelihoods.base import Likelihood

__all__ = ["Estimator"]


class Estimator(Protocol):
    """Estimates p(y|theta) from particles that are drawn with the help of q.

    Attributes
    ----------
    exact : bool
        Whether the estimate is unbiased, and a particle picked by its weight therefore an exact draw.
    antithetic : bool
        Whether particles come in mirror images, the second half those of the first.
    calibration_pool : int
        How many particles measure the spread of the estimate; 0 if there is nothing to measure.
    refresh_every : int
        In every how many iterations of a chain an estimate given the retained particle is worth its time.
    """

    exact: ClassVar[bool]
    calibration_pool: ClassVar[int]
    refresh_every: ClassVar[int]

    @property
    def antithetic(self) -> bool:
        """Whether particles come in mirror images."""
        ...

    @property
    def draws(self) -> int | str:
        """Number of particles, or "auto" if a scheme has to choose it."""
        ...

    def estimate(
        self,
        rng: np.random.Generator,
        approximation: SiteApproximation,
        likelihood: Likelihood,
        draws: int | None = None,
    ) -> Estimate:
        """Fresh particles and the estimate they make."""
        ...

    def redrawn(self, draws: int) -> int:
        """How many draws of q :meth:`estimate_given` asks for at once; 0 if they are not worth making ahead."""
        ...

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: SiteApproximation,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> Estimate:
        """An estimate from fresh particles and one that is kept."""
        ...
