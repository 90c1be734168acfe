"""A likelihood under latent values that are normal: draws, expected log-density, and log of the expected density.

The first two make the PyMC distribution of the observations. Its log-density is the expectation of log p(y|f), the
variational target's, and not the logarithm of a density that its draws have; the third is what predictions are judged
by.

The target may take less variance than the inducing inputs leave. Given u, the values at all observations are then
N(mu, S) in place of N(mu, K), S = W^(-1/2) B V B W^(-1/2) with B the square root of W^(1/2) K W^(1/2), and V and W
diagonal. For v_n <= 1 the divergence of the one from the other is at most sum_n (v_n - 1 - log v_n) / 2, S_nn <= K_nn,
and the trace of W S is sum_n v_n w_n K_nn. An expectation that is concave in the variance is no lower than its chord,
which falls by delta_n from no variance to K_nn. With w_n = 2 delta_n / K_nn all chords together fall by
sum_n v_n delta_n, and the best v_n is 1 / (1 + 2 delta_n), by which delta_n becomes log(1 + 2 delta_n) / 2. For
Gaussian noise that is the bound of Titsias (2025).
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

__all__ = ["LatentLikelihood"]


@dataclass(frozen=True)
class LatentLikelihood:
    """p(y|f), with f ~ N(mean, variance) element by element.

    Parameters
    ----------
    dist : callable
        From latent values, and parameters, to a PyMC distribution made by ``.dist``.
    order : int
        Number of Gauss-Hermite nodes where there is no closed form.
    scaled : bool
        Whether the target takes less variance than is left where the observations tell of it.
    """

    dist: Callable[..., TensorVariable]
    order: int
    scaled: bool = False

    def draw(self, mean: TensorVariable, variance: TensorVariable, *others: Any) -> TensorVariable:
        """A random variable y; its parameters are followed by its size, which is that of f."""
        *parameters, _ = others
        return self.dist(pm.Normal.dist(mean, pt.sqrt(variance)), *parameters)

    def log_density(self, value: TensorVariable, f: TensorVariable, *parameters: TensorVariable) -> TensorVariable:
        """Log p(y|f), as the distribution has it."""
        return pm.logp(self.dist(f, *parameters), value, warn_rvs=False)

    def term(
        self,
        value: TensorVariable,
        mean: TensorVariable,
        left: TensorVariable,
        *parameters: TensorVariable,
        spread: TensorVariable | None = None,
    ) -> TensorVariable:
        """Terms of the target, one for each observation.

        Parameters
        ----------
        value : tensor
            The observations.
        mean, left : tensor
            Of f given the values at the inducing inputs: means, and the variances that are left.
        *parameters : tensor
        spread : tensor, optional
            Variances of the means, where these are normal: a lower bound of the terms' expectations.
        """
        expected = self.expected_log(value, mean, left if spread is None else left + spread, *parameters)
        if not self.scaled:
            return expected
        known = pt.zeros_like(left) if spread is None else spread
        return expected + _gain(self.expected_log(value, mean, known, *parameters) - expected)

    def scalable(self, f: TensorVariable, *parameters: TensorVariable) -> bool:
        """Whether it is known that the variance may be scaled."""
        known = closed_form(self.dist(f, *parameters), f, self.order)
        return known is not None and known.concave

    def expected_log(
        self, value: TensorVariable, mean: TensorVariable, variance: TensorVariable, *parameters: TensorVariable
    ) -> TensorVariable:
        """E log p(y|f), one for each observation."""
        f = mean.type()
        known = closed_form(self.dist(f, *parameters), f, self.order)
        if known is not None:
            return known.expected_log(value, mean, variance)
        weights, terms = self._at_nodes(value, mean, variance, parameters)
        return pt.tensordot(weights, terms, axes=1)

    def log_expected(
        self, value: TensorVariable, mean: TensorVariable, variance: TensorVariable, *parameters: TensorVariable
    ) -> TensorVariable:
        """Log E p(y|f), one for each observation."""
        f = mean.type()
        known = closed_form(self.dist(f, *parameters), f, self.order)
        if known is not None and known.log_expected is not None:
            return known.log_expected(value, mean, variance)
        weights, terms = self._at_nodes(value, mean, variance, parameters)
        log_weights = np.log(weights).reshape(-1, *([1] * mean.ndim))
        return pt.logsumexp(log_weights + terms, axis=0)

    def _at_nodes(
        self, value: TensorVariable, mean: TensorVariable, variance: TensorVariable, parameters: tuple[Any, ...]
    ) -> tuple[np.ndarray, TensorVariable]:
        """Weights of the nodes, and the log-density at each, along the first axis."""
        nodes, weights = normal_rule(self.order)
        f = mean.type()
        terms = self.log_density(value, f, *parameters)
        points = mean + pt.sqrt(variance) * nodes.reshape(-1, *([1] * mean.ndim))
        return weights, vectorize_graph(terms, {f: points})


def _gain(fall: TensorVariable) -> TensorVariable:
    """By how much scales raise the bound, given how far expectations fall with the variance that is left."""
    return fall - 0.5 * pt.log1p(2.0 * fall)
