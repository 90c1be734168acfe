"""A t distribution with two widths along each axis: the proposal about a maximum where the density is skewed.

This is the split t of Geweke (1989). Hyper-parameters that the data determine poorly have skewed posteriors: a large
length-scale is nearly as good as one that is larger still, and the curvature at the maximum does not show that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pmgp.core.importance.student_mixture import log_student

# Distance from the center, in standard deviations, at which the density is looked at to find a width; bounds on widths.
FAR, NARROWEST, WIDEST = 3.0, 1.0 / 3.0, 3.0


@dataclass(frozen=True, eq=False)
class SplitStudent:
    """A t distribution whose axes have one width above the center and one below it.

    `center` (dimension,); `axes` (dimension, dimension): in columns; `widths` (2, dimension): in units of the axes,
    above the center and below it. Along an axis the density is continuous at the center.
    """

    center: np.ndarray
    axes: np.ndarray
    widths: np.ndarray
    degrees_of_freedom: float

    @classmethod
    def symmetric(cls, center: np.ndarray, scale: np.ndarray, degrees_of_freedom: float) -> SplitStudent:
        """Return the t distribution with this scale matrix, whose axes are close to the coordinate axes.

        They are standard deviations times the root of the correlation matrix. Principal axes would mix coordinates that
        have similar deviations, and with them the skewness of one with that of another.
        """
        deviations = np.sqrt(np.diag(scale))
        values, vectors = np.linalg.eigh(scale / np.outer(deviations, deviations))
        axes = deviations[:, None] * ((vectors * np.sqrt(values)) @ vectors.T)
        return cls(center, axes, np.ones((2, len(center))), degrees_of_freedom)

    @property
    def dimension(self) -> int:
        """Length of theta."""
        return len(self.center)

    @property
    def log_volume(self) -> float:
        """Minus the log-density at the center, up to a constant that depends on the degrees of freedom alone."""
        return float(np.linalg.slogdet(self.axes)[1] + np.log(self.widths.mean(axis=0)).sum())

    @property
    def scale(self) -> np.ndarray:
        """The scale matrix of the t that has the same axes, and the same mean squares along them."""
        squares = np.power(self.widths, 3).sum(axis=0) / self.widths.sum(axis=0)
        return (self.axes * squares) @ self.axes.T

    def fitted(self, log_density: Callable[[np.ndarray], float], highest: float) -> SplitStudent:
        """Return this distribution with widths from a log-density on both sides along each axis.

        With each width, the logarithm of a normal density falls as much towards that point as the given log-density.
        `highest` is the log-density at the center; nothing changes if it is not finite.
        """
        if not np.isfinite(highest):
            return self
        shifts = FAR * np.stack([self.axes.T, -self.axes.T])
        values = np.array([[log_density(self.center + one) for one in side] for side in shifts])
        with np.errstate(divide="ignore"):
            widths = FAR / np.sqrt(2.0 * np.maximum(highest - values, 0.0))
        return replace(self, widths=np.clip(widths, NARROWEST, WIDEST))

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw independently: (size, dimension)."""
        nu = self.degrees_of_freedom
        steps = np.abs(rng.standard_normal((size, self.dimension))) / np.sqrt(rng.chisquare(nu, (size, 1)) / nu)
        above = rng.random((size, self.dimension)) < self.widths[0] / self.widths.sum(axis=0)
        return self.center + (steps * np.where(above, self.widths[0], -self.widths[1])) @ self.axes.T

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Return the log-density with its normalizing constant: (size, dimension) -> (size,)."""
        steps = np.linalg.solve(self.axes, (theta - self.center).T).T
        squares = np.square(steps / np.where(steps > 0.0, *self.widths)).sum(axis=1)
        return log_student(squares, self.log_volume, self.dimension, self.degrees_of_freedom)
