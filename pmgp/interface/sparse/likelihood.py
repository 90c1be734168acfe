"""A likelihood with normal latent values: draws, the expected log-density, and the log of the expected density.

The first two make the PyMC distribution of the observations. Its log-density is the expectation of log p(y|f), as in
the variational target, and not the logarithm of its draws' density. The third measures the quality of predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.quadrature import normal_rule
from pmgp.interface.sparse.closed_forms import closed_form

# The maximum of p(y|f) times the density of f is sought within WIDE standard deviations of the mean of f, in an
# interval that is divided into PARTS, SEARCHES times.
WIDE, PARTS, SEARCHES = 12.0, 24, 3
# The distance of nodes, on a scale that is linear around the maximum and logarithmic farther away.
SPACING = 0.1


@dataclass(frozen=True)
class LatentLikelihood:
    """The likelihood p(y|f) with f ~ N(mean, variance), element by element.

    `dist` takes latent values and parameters, and returns a PyMC distribution made with ``.dist``. `order` is the
    number of Gauss-Hermite nodes where there is no closed form. `alike`: whether different outputs have alike variances
    at one input, as they have with one covariance function for all.
    """

    dist: Callable[..., TensorVariable]
    order: int
    alike: bool = True

    def __post_init__(self) -> None:
        normal_rule(self.order)  # An order without a rule is refused here, and not when a chain begins.

    def draw(self, mean: TensorVariable, variance: TensorVariable, *others: Any) -> TensorVariable:
        """Return a random variable y; its parameters are followed by its size, which is that of f."""
        *parameters, _ = others
        return self.dist(pm.Normal.dist(mean, pt.sqrt(variance)), *parameters)

    def log_density(self, value: TensorVariable, f: TensorVariable, *parameters: TensorVariable) -> TensorVariable:
        """Return log p(y|f), as the distribution defines it."""
        return pm.logp(self.dist(f, *parameters), value, warn_rvs=False)

    def expected_log(
        self, value: TensorVariable, mean: TensorVariable, variance: TensorVariable, *parameters: TensorVariable
    ) -> TensorVariable:
        """Return E log p(y|f) for each observation."""
        f = mean.type()
        known = closed_form(self.dist(f, *parameters), f, self.order, self.alike)
        if known is not None:
            return known.expected_log(value, mean, variance)
        weights, terms = self._at_nodes(value, mean, variance, parameters)
        return pt.tensordot(weights, terms, axes=1)

    def log_expected(
        self, value: TensorVariable, mean: TensorVariable, variance: TensorVariable, *parameters: TensorVariable
    ) -> TensorVariable:
        """Return log E p(y|f) for each observation."""
        f = mean.type()
        known = closed_form(self.dist(f, *parameters), f, self.order, self.alike)
        if known is not None and known.log_expected is not None:
            return known.log_expected(value, mean, variance)
        terms, deviation = self.log_density(value, f, *parameters), pt.sqrt(variance)

        def log_integrand(z: TensorVariable) -> TensorVariable:
            logs = vectorize_graph(terms, {f: mean + deviation * z}) - 0.5 * pt.square(z)
            # Far away a rate may overflow.
            return pt.switch(pt.isnan(logs), -np.inf, logs)

        # p(y|f) may be much narrower than the normal density, and far from its mean.
        center, half = pt.zeros_like(mean), WIDE
        for _ in range(SEARCHES):
            best = pt.argmax(log_integrand(center + _along_first(np.linspace(-half, half, PARTS + 1), mean)), axis=0)
            center, half = center + half * (2.0 * best / PARTS - 1.0), 2.0 * half / PARTS
        # The trapezoidal rule in t, where z is at `center` + `half` sinh t: it resolves both densities.
        end = np.arcsinh(2.0 * WIDE / half)
        t = np.linspace(-end, end, 2 * int(np.ceil(end / SPACING)) + 1)
        logs = log_integrand(center + half * _along_first(np.sinh(t), mean))
        log_weights = np.log(half * np.cosh(t) * (t[1] - t[0])) - 0.5 * np.log(2.0 * np.pi)
        return pt.logsumexp(_along_first(log_weights, mean) + logs, axis=0)

    def _at_nodes(
        self, value: TensorVariable, mean: TensorVariable, variance: TensorVariable, parameters: tuple[Any, ...]
    ) -> tuple[np.ndarray, TensorVariable]:
        """Return the weights of the nodes, and the log-density at each node along the first axis."""
        nodes, weights = normal_rule(self.order)
        f = mean.type()
        terms = self.log_density(value, f, *parameters)
        points = mean + pt.sqrt(variance) * _along_first(nodes, mean)
        return weights, vectorize_graph(terms, {f: points})


def _along_first(numbers: np.ndarray, mean: TensorVariable) -> np.ndarray:
    """Return numbers along an axis before those of `mean`."""
    return numbers.reshape(-1, *([1] * mean.ndim))
