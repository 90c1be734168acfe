"""p(f|theta) of a time series, with a banded precision in O(n) and without a covariance matrix."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, NoReturn

import numpy as np
import pymc as pm

from pmgp.core.markov import ChainPattern, PrecisionPrior
from pmgp.core.markov.banded import autoregression, expected_values
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.theta_vector import ThetaVector
from pmgp.interface.model.time_series import Autoregression, parameters_of

# Step of central differences in theta.
STEP = 1e-5
REMEDY = "give other initvals, or other constants"


class SeriesPrior:
    """The function from theta to p(f|theta) for an autoregression or a random walk; the base class for others.

    It depends on some `elements` of theta. `needs` is the condition on its parameters under which it has a density.
    """

    markov: ClassVar[bool] = True
    kind: ClassVar[str] = "time series"
    needs: str = "the standard deviations must be positive, and the coefficients must not make its mean overflow"
    computed: ClassVar[str] = "not needed: the series has a banded precision, in O(n)"
    initial_moments: tuple[np.ndarray, np.ndarray]

    def __init__(self, model: pm.Model, latent: LatentVector, theta: ThetaVector) -> None:
        [rv] = latent.variables
        self.name = latent.name
        graphs = model.replace_rvs_by_values(list(parameters_of(rv)))
        self._parameters_at = theta.compile_small(graphs)
        self.elements = theta.elements_of(graphs)
        self._theta = theta

    def __call__(self, theta: np.ndarray) -> PrecisionPrior:
        """Return p(f|theta), with NaN in its precision where parameters are impossible."""
        given = Autoregression(*self._parameters_at(theta))
        coefficients, length = np.asarray(given.coefficients, dtype=float), int(given.length)
        mean = expected_values(coefficients, float(given.drift), given.initial_mean, length)
        initial, variance = precision_of(np.atleast_2d(given.initial_covariance)), _variance(float(given.deviation))
        pattern = _pattern(length, len(coefficients))
        if not (np.isfinite(mean).all() and np.isfinite(initial).all() and np.isfinite(variance)):
            impossible = np.full((2, *pattern.shape, len(coefficients)), np.nan)
            return PrecisionPrior.centered(pattern, impossible)
        state_mean = np.zeros(pattern.shape)
        state_mean.ravel()[:length] = mean
        values = autoregression(coefficients, variance, initial, length)
        return PrecisionPrior(pattern, values, state_mean, np.zeros(length))

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them."""
        self._parameters_at.refresh_data()
        prior = self(self._theta.initial)
        self.initial_moments = prior.mean, prior.variance

    def pullback(self, theta: np.ndarray, precision_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient of <precision_bar, Q(theta)> + mean_bar' m(theta) in theta, by central differences.

        The gradient for the values of Q on its pattern is (2, T, p, p).
        """
        total = np.zeros_like(theta)
        for element in self.elements:
            shift = np.zeros_like(theta)
            shift[element] = STEP
            above, below = self(theta + shift), self(theta - shift)
            total[element] = (self._change(precision_bar, above, below) + mean_bar @ (above.mean - below.mean)) / (
                2.0 * STEP
            )
        return total

    @staticmethod
    def _change(precision_bar: np.ndarray, above: PrecisionPrior, below: PrecisionPrior) -> float:
        return float(np.vdot(precision_bar, above.values - below.values))

    def compile_pullback(self) -> None:
        """Do nothing: there is nothing to compile."""

    def fault(self, name: str, theta: np.ndarray) -> str | None:
        """Return why a chain cannot start with p(f|theta), or None if it can; `name` is that of f."""
        if self(theta).factorized() is not None:
            return None
        return f"the {self.kind} {name!r} has no density there: {self.needs}; {REMEDY}"

    @property
    def mean(self) -> NoReturn:
        """Refuse to give the mean as a graph."""
        self.require_matrix()

    @property
    def covariance(self) -> NoReturn:
        """Refuse to give the covariance as a graph, which has none."""
        self.require_matrix()

    def require_matrix(self) -> NoReturn:
        """Refuse to give the covariance as a matrix."""
        raise ModelError(
            f"{self.name!r} is a {self.kind}, whose covariance matrix is never formed; use pmgp.PseudoMarginal, or "
            "pmgp.EllipticalSlice for known hyper-parameters, which work without it"
        )


@lru_cache(maxsize=4)
def _pattern(length: int, order: int) -> ChainPattern:
    return ChainPattern.elements(length, order)


def _variance(deviation: float) -> float:
    # A power of a float that is too large raises an error; a product is infinite.
    return deviation * deviation if deviation > 0.0 else np.nan


def precision_of(covariance: np.ndarray) -> np.ndarray:
    """Return the inverse of a positive definite matrix, and an array of NaN for other matrices."""
    try:
        root: Any = np.linalg.inv(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        return np.full(covariance.shape, np.nan)
    return root.T @ root
