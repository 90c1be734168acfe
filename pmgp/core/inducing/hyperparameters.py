"""Hyper-parameters given whitened values, in the coordinates of the Gaussian at the mode of the whitened values.

With v = m(theta) + L(theta)^-T w the density of theta and w is that of theta and v times |dv/dw|, for any m and L;
if N(m, (L L')^-1) fits, w is independent of theta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.inducing.conditional import GaussianFit, Sites, WhitenedConditional, fitted, fitted_by_sites
from pmgp.core.transitions.base import Point

# Maps theta, on the unconstrained scale, to its log-prior and the density of v.
ConditionalAt = Callable[[np.ndarray], tuple[float, WhitenedConditional]]


class Known(NamedTuple):
    """Results at one theta.

    `start` (k, m): start of the search for the mode.
    """

    log_prior: float
    conditional: WhitenedConditional
    fit: GaussianFit
    start: np.ndarray

    def values(self, w: np.ndarray) -> np.ndarray:
        """Return v at whitened coordinates."""
        return self.fit.mode + self.fit.deviation(w)

    def log_density(self, w: np.ndarray) -> float:
        """Return the log-density of theta and w together."""
        v = self.values(w)
        return self.log_prior + self.conditional.log_density(v, self.conditional.latent(v)) + self.fit.log_jacobian


class ModeSearch(NamedTuple):
    """The start of the search for the mode of v, as a function of theta that is constant while a chain samples.

    - `otherwise` (k, m): start if the predictor knows nothing
    - `sites`: if given, there is no search: they determine the Gaussian at each theta
    """

    predictor: ModePredictor | None
    otherwise: np.ndarray
    sites: Sites | None = None

    def start(self, theta: np.ndarray) -> np.ndarray:
        """Return the first v."""
        predicted = None if self.predictor is None else self.predictor.predict(theta)
        return self.otherwise if predicted is None else predicted.reshape(self.otherwise.shape)

    def fit(self, conditional: WhitenedConditional, start: np.ndarray) -> GaussianFit | None:
        """Return the Gaussian that approximates v; None where the density is not finite."""
        return fitted(conditional, start) if self.sites is None else fitted_by_sites(conditional, self.sites)


class ThetaDensity(NamedTuple):
    """Log-density of theta given w.

    `conditional_at`: maps theta to its log-prior and the density of v; `w` (k, m).
    """

    conditional_at: ConditionalAt
    w: np.ndarray
    search: ModeSearch

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the value at a theta, with the results there as payload."""
        known = known_at(self.conditional_at, position, self.search.start(position), self.search)
        return Point(position, -np.inf if known is None else known.log_density(self.w), known)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Raise an error: the gradient is not known."""
        raise NotImplementedError("theta moves without gradients")


def known_at(conditional_at: ConditionalAt, theta: np.ndarray, start: np.ndarray, search: ModeSearch) -> Known | None:
    """Return the results at one theta; None where its density is zero."""
    log_prior, conditional = conditional_at(theta)
    if not np.isfinite(log_prior):
        return None
    with np.errstate(all="ignore"):
        fit = search.fit(conditional, start)
    return None if fit is None else Known(log_prior, conditional, fit, start)
