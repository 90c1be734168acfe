"""An emulator of a log-density: a Gaussian process over theta, fitted to the values that tuning has computed.

Rasmussen (2003) uses such a process to guide trajectories through a density that is expensive to evaluate. With few
elements of theta its error is some hundredths after a few hundred values. It only shapes proposals. They are accepted
with the density itself, so the emulator's error costs acceptance but not exactness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpstrf

from pmgp.core.numerics.storable import storable

# Largest number of visited values that are kept.
VISITED = 800
# Largest number of values that the emulator interpolates: per element of theta, and in total.
NODES_AN_ELEMENT, NODES = 75, 300
# Largest share of the visited values that it interpolates; the others measure its error.
INTERPOLATED = 2.0 / 3.0
FEWEST = 30
# In nats below the highest value: values below DEPTH are not fitted, and values below BULK do not measure the error.
DEPTH, BULK = 12.0, 6.0
# In standard deviations of the posterior; the first one chooses the nodes.
LENGTHSCALES = (2.0, 1.0, 3.0, 4.5)
# Relative to the kernel's variance. Values are noisy, because fits stop at a tolerance.
NUGGET = 1e-5
# Largest accepted error in nats, at which about half of the proposals would be accepted.
LARGEST_SPREAD = 1.0


@storable
@dataclass
class Visited:
    """The last visited positions, with their log-densities.

    `count`: number of all values that were added; `table` (size, dimension + 1): positions, and the log-density in the
    last column.
    """

    dimension: int
    count: int = 0
    table: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.table = np.empty((VISITED, self.dimension + 1))

    def add(self, position: np.ndarray, log_density: float) -> None:
        """Add one value, if it is finite."""
        if np.isfinite(log_density):
            row = self.table[self.count % VISITED]
            row[:-1], row[-1] = position, log_density
            self.count += 1

    @property
    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions (size, dimension) and log-densities (size,)."""
        known = self.table[: min(self.count, VISITED)]
        return known[:, :-1], known[:, -1]


@storable
@dataclass(frozen=True, eq=False)
class Emulator:
    """A quadratic, and a Gaussian process with a squared exponential kernel, in whitened coordinates.

    `location` (dimension,); `inverse_factor` (dimension, dimension): z = inverse_factor (theta - location); `linear`
    (dimension,); `square` (dimension, dimension): the quadratic is constant + z' linear + z' square z; `nodes` (m,
    dimension): whitened coordinates divided by the length-scale; `weights` (m,).
    """

    location: np.ndarray
    inverse_factor: np.ndarray
    constant: float
    linear: np.ndarray
    square: np.ndarray
    nodes: np.ndarray
    weights: np.ndarray
    lengthscale: float

    def at(self, theta: np.ndarray) -> np.ndarray:
        """Return the log-density up to a constant: (size, dimension) -> (size,)."""
        z = (theta - self.location) @ self.inverse_factor.T
        quadratic = self.constant + (z @ self.square * z + z * self.linear).sum(axis=1)
        return quadratic + _kernel(z / self.lengthscale, self.nodes) @ self.weights


def fitted(visited: Visited, location: np.ndarray, inverse_factor: np.ndarray) -> Emulator | None:
    """Fit an emulator to the visited points; return None if there are too few, or if its error is large.

    The nodes are pivots of the kernel's Cholesky factor, which lie apart. The length-scale is the one with the smallest
    error at the other points.

    `location`, `inverse_factor` arrays of shapes (dimension,) and (dimension, dimension): whitening: z = inverse_factor
    (theta - location).
    """
    positions, values = visited.values
    if len(values) < FEWEST:
        return None
    high = values > values.max() - DEPTH
    z, values = (positions[high] - location) @ inverse_factor.T, values[high]
    nodes, others = _nodes_and_others(z / LENGTHSCALES[0])
    others = others[values[others] > values.max() - BULK]
    monomials = _monomials(z)
    if len(nodes) < 2 * monomials.shape[1] or len(others) < FEWEST // 3:
        return None
    quadratic = np.linalg.lstsq(monomials, values, rcond=None)[0]
    residuals = values - monomials @ quadratic
    spread, lengthscale, weights = min(
        (_interpolated(z / lengthscale, residuals, nodes, others, lengthscale) for lengthscale in LENGTHSCALES),
        key=itemgetter(0),
    )
    if not spread < LARGEST_SPREAD:
        return None
    parts = _parts(quadratic, z.shape[1])
    return Emulator(location, inverse_factor, *parts, z[nodes] / lengthscale, weights, lengthscale)


def _interpolated(
    scaled: np.ndarray, residuals: np.ndarray, nodes: np.ndarray, others: np.ndarray, lengthscale: float
) -> tuple[float, float, np.ndarray]:
    """Return the error at the other points, the length-scale, and the weights of the nodes."""
    kernel = _kernel(scaled[nodes], scaled[nodes]) + NUGGET * np.eye(len(nodes))
    weights = cho_solve(cho_factor(kernel), residuals[nodes])
    spread = float(np.std(residuals[others] - _kernel(scaled[others], scaled[nodes]) @ weights))
    return spread, lengthscale, weights


def _nodes_and_others(scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the nodes and of all other points."""
    number = min(NODES, NODES_AN_ELEMENT * scaled.shape[1], int(INTERPOLATED * len(scaled)))
    kernel = _kernel(scaled, scaled)
    # The diagonal is exactly one, so that the last bits of a value do not choose the nodes.
    np.fill_diagonal(kernel, 1.0)
    _, pivots, rank, _ = dpstrf(kernel, tol=NUGGET)
    order = pivots - 1
    number = min(number, rank)
    return order[:number], order[number:]


def _monomials(z: np.ndarray) -> np.ndarray:
    """Return monomials up to squares: (size, dimension) -> (size, p)."""
    first, second = np.triu_indices(z.shape[1])
    return np.hstack([np.ones((len(z), 1)), z, z[:, first] * z[:, second]])


def _parts(quadratic: np.ndarray, dimension: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Return coefficients of the monomials as a constant, a vector, and a triangular matrix."""
    square = np.zeros((dimension, dimension))
    square[np.triu_indices(dimension)] = quadratic[1 + dimension :]
    return float(quadratic[0]), quadratic[1 : 1 + dimension], square


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the kernel of positions measured in length-scales: (k, dimension), (m, dimension) -> (k, m)."""
    halves = a @ b.T
    halves -= 0.5 * np.einsum("ij,ij->i", a, a)[:, None]
    halves -= 0.5 * np.einsum("ij,ij->i", b, b)
    return np.exp(halves, out=halves)
