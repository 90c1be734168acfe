"""Laplace's log p(y|theta) of a model with latent values, from products with the covariance alone."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import pymc as pm

from pmgp.core.iterative.gaussian import EvidenceEstimate
from pmgp.core.iterative.laplace import IterativeLaplace
from pmgp.core.iterative.preconditioners.random_pivots import random_points
from pmgp.core.iterative.settings import suitable_rank
from pmgp.core.likelihoods.base import SiteLikelihood
from pmgp.interface.backends import NumpyTiles
from pmgp.interface.covariance.tiled import Backend
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.model.tiled_prior import TiledPrior, refuse_constant_inputs


class LaplaceDensity:
    """Laplace's approximation of log p(y|theta) as a function of theta, in O(n) memory beside elements of K.

    The model has one latent vector, and a likelihood that factorizes over it and has no hyper-parameters. The default
    rank of the preconditioner is a tenth of the number of points, and at most 500. The backend computes products, NumPy
    by default.
    """

    def __init__(
        self,
        model: pm.Model,
        rank: int | None,
        method: IterativeLaplace,
        backend: Backend | None = None,
        compile_kwargs: dict[str, Any] | None = None,
    ) -> None:
        refuse_constant_inputs(model)
        priors = partial(TiledPrior, backend=NumpyTiles() if backend is None else backend)
        self._parts = take_apart(model, compile_kwargs=compile_kwargs, priors=priors)
        self._parts.checks.refuse_discrete()
        theta, elements = self._parts.theta, set(self._parts.likelihood_elements)
        names = [value.name for value in theta.values if elements & set(theta.places([value]))]
        if names:
            raise ModelError(
                f"the likelihood has hyper-parameters ({', '.join(names)}), and the iterative approximation has no "
                "gradient in these: fix them, or use pmgp.marginal.log_likelihood"
            )
        self.theta = theta
        self.rank, self._method = suitable_rank(rank, self.size), method

    @property
    def size(self) -> int:
        """The number of latent values n."""
        return len(self._parts.initial_moments[0])

    @property
    def computed(self) -> str:
        """How products are computed, in words."""
        return cast("TiledPrior", self._parts.latent_prior).computed

    def estimate(self, rng: np.random.Generator, theta: np.ndarray) -> EvidenceEstimate:
        """Estimate the approximation's log-evidence, with points for the preconditioner drawn at theta.

        There is no value if a solver or Newton's method fails.
        """
        moments = cast("Any", self._parts.prior(theta))
        likelihood = cast("SiteLikelihood", self._parts.likelihood(theta))
        points = random_points(moments.kernel, self.rank, rng)
        return self._method.estimate(rng, moments.total, moments.mean, likelihood, points)

    def gradient(self, theta: np.ndarray, found: EvidenceEstimate) -> np.ndarray:
        """Return the gradient in theta that belongs to an estimate at theta, of shape (dimension,)."""
        # The last additions to the diagonal, a jitter as a rule, are a part of the covariance of f.
        bar = found.covariance._replace(noise=found.covariance.diagonal)
        return self._parts.covariance_pullback(theta, cast("Any", bar), found.mean)
