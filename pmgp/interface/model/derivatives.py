"""Derivatives of a PyMC model's parts with respect to theta, for any covariance of `pymc.gp`.

The gradient is a sum over the parts: NumPy computes the term through K in blocks of rows, and only the parameters of a
likelihood need a function that PyTensor compiles. Metrics are compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import jacobian, pushforward
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import Prior
from pmgp.core.likelihoods import Likelihood
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.missing_gradients import naming_missing_gradients

# Elements of derivatives of K that are computed together, which saves calls where matrices are small.
LARGEST = 2**20


class DifferentiableLatentModel:
    """The parts of a model and their derivatives, for schemes that move theta.

    `gradient` and `metric` say whether to compile :meth:`theta_gradient`, and whether :meth:`pushforward` and
    :meth:`curvature`. An operation without a gradient raises a ModelError.
    """

    def __init__(self, parts: LatentGaussianModel, gradient: bool = True, metric: bool = True) -> None:
        self.parts = parts
        with naming_missing_gradients("the hyper-parameters", 'operator="metropolis", the default, needs none'):
            if gradient:
                parts.compile_theta_gradient()
                self._likelihood_gradient = self._compile_likelihood_gradient()
            if metric:
                self._pushforward = self._compile_pushforward()
                self._together = max(1, LARGEST // self.parts.initial_moments[0].size ** 2)
                self._curvature = self._compile_curvature()

    def log_prior(self, theta: np.ndarray) -> float:
        """Return log p(theta) on the unconstrained scale."""
        return self.parts.log_prior(theta)

    def prior(self, theta: np.ndarray) -> Prior:
        """Return p(f|theta)."""
        return self.parts.prior(theta)

    def likelihood(self, theta: np.ndarray) -> Likelihood:
        """Return p(y|f, theta)."""
        return self.parts.likelihood(theta)

    def theta_gradient(
        self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray, f: np.ndarray
    ) -> np.ndarray:
        """Return the gradient of log p(theta) + log p(y|f, theta) + <covariance_bar, K> + mean_bar' m in theta.

        f is fixed. `covariance_bar` is symmetric, so its order in memory does not matter.
        """
        total = self.parts.log_prior_gradient(theta) + self.parts.covariance_pullback(theta, covariance_bar, mean_bar)
        if self._likelihood_gradient is not None:
            total = total + self._likelihood_gradient(np.ascontiguousarray(f), theta)[1]
        return total

    def pushforward(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return derivatives of m and K in each element of theta: (dimension, n) and (dimension, n, n)."""
        directions = np.split(np.eye(theta.size), range(self._together, theta.size, self._together))
        means, covariances = zip(*[self._pushforward(some, theta) for some in directions], strict=True)
        return np.concatenate(means), np.concatenate(covariances)

    def curvature(self, theta: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return minus the Hessian of log p(theta) + log p(y|f, theta) in theta, f fixed: (dimension, dimension)."""
        return self._curvature(np.ascontiguousarray(f), theta)[0]

    def _likelihood_of_parameters(self) -> list[TensorVariable]:
        """Return the sums of the likelihood's terms that depend on theta."""
        values = set(self.parts.theta.values)
        return [term.sum() for term in self.parts.graphs.likelihood if values & set(ancestors([term]))]

    def _compile_likelihood_gradient(self) -> Any:
        """Return the likelihood and its gradient as a function of f and theta; None if it has no parameters."""
        terms = self._likelihood_of_parameters()
        return self.parts.theta.compile_gradient([self.parts.latent_value], pt.add(*terms, 0.0)) if terms else None

    def _compile_pushforward(self) -> Any:
        graphs = self.parts.graphs
        [mean, covariance], theta = self.parts.theta.write([graphs.mean, graphs.covariance])
        direction = pt.vector("direction")
        # 0 * theta gives a mean that does not depend on theta a derivative, which PyTensor requires.
        changes = pushforward(
            [mean + 0.0 * theta.sum(), covariance + 0.0 * theta.sum()], [theta], [direction], use_op_pushforward=False
        )
        directions = pt.matrix("directions")
        return self.parts.compile_function([directions, theta], vectorize_graph(changes, {direction: directions}))

    def _compile_curvature(self) -> Any:
        terms = [self.parts.graphs.log_prior, *self._likelihood_of_parameters()]
        [total], theta = self.parts.theta.write([pt.add(*terms, 0.0)])
        # PyTensor's `hessian` would be a loop, which takes longer to compile. A flat prior does not depend on theta.
        gradient = pt.grad(total, theta, disconnected_inputs="ignore")
        curvature = -jacobian(gradient, theta, vectorize=True, disconnected_inputs="ignore")
        return self.parts.compile_function([self.parts.latent_value, theta], [curvature])
