"""Derivatives of a PyMC model's parts with respect to theta, for any covariance of `pymc.gp`, compiled by PyTensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad, hessian, pushforward
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import Prior
from pmgp.core.likelihoods import Likelihood
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.missing_gradients import naming_missing_gradients


class DifferentiableLatentModel:
    """The parts of a model and their derivatives, for schemes that move theta.

    `gradient` and `metric` say whether to compile :meth:`theta_gradient`, and whether :meth:`pushforward` and
    :meth:`curvature`. An operation without a gradient raises a ModelError.
    """

    def __init__(self, parts: LatentGaussianModel, gradient: bool = True, metric: bool = True) -> None:
        self.parts = parts
        with naming_missing_gradients("the hyper-parameters", 'operator="metropolis", the default, needs none'):
            if gradient:
                self._gradient = self._compile_gradient()
            if metric:
                self._pushforward = self._compile_pushforward()
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
        fortran = covariance_bar.ndim == 2 and covariance_bar.flags.f_contiguous
        bar = covariance_bar.T if fortran else np.ascontiguousarray(covariance_bar)
        return self._gradient(bar, np.ascontiguousarray(mean_bar), np.ascontiguousarray(f), theta)[0]

    def pushforward(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return derivatives of m and K in each element of theta: (dimension, n) and (dimension, n, n)."""
        changes = [self._pushforward(direction, theta) for direction in np.eye(theta.size)]
        means, covariances = zip(*changes, strict=True)
        return np.array(means), np.array(covariances)

    def curvature(self, theta: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return minus the Hessian of log p(theta) + log p(y|f, theta) in theta, f fixed: (dimension, dimension)."""
        return self._curvature(np.ascontiguousarray(f), theta)[0]

    def _log_density_of_parameters(self) -> TensorVariable:
        """Return the graph of log p(theta), plus the terms of the likelihood that depend on theta."""
        graphs, values = self.parts.graphs, set(self.parts.theta.values)
        terms = [term.sum() for term in graphs.likelihood if values & set(ancestors([term]))]
        return pt.add(graphs.log_prior, *terms) if terms else graphs.log_prior

    def _compile_gradient(self) -> Any:
        graphs, f = self.parts.graphs, self.parts.latent_value
        covariance_bar = pt.tensor("covariance_bar", shape=(None,) * graphs.covariance.ndim)
        mean_bar = pt.vector("mean_bar")
        inner = (covariance_bar * graphs.covariance).sum() + (mean_bar * graphs.mean).sum()
        [total], theta = self.parts.theta.write([self._log_density_of_parameters() + inner])
        return self.parts.compile_function([covariance_bar, mean_bar, f, theta], [grad(total, theta)])

    def _compile_pushforward(self) -> Any:
        graphs = self.parts.graphs
        [mean, covariance], theta = self.parts.theta.write([graphs.mean, graphs.covariance])
        direction = pt.vector("direction")
        # 0 * theta gives a mean that does not depend on theta a derivative, which PyTensor requires.
        changes = pushforward(
            [mean + 0.0 * theta.sum(), covariance + 0.0 * theta.sum()], [theta], [direction], use_op_pushforward=False
        )
        return self.parts.compile_function([direction, theta], changes)

    def _compile_curvature(self) -> Any:
        [total], theta = self.parts.theta.write([self._log_density_of_parameters()])
        # 0 * theta gives a flat prior, which does not depend on theta, a derivative, which PyTensor requires.
        curvature = -hessian(total + 0.0 * theta.sum(), theta)
        return self.parts.compile_function([self.parts.latent_value, theta], [curvature])
