"""A posterior that chains of theta and f sample: a PyMC model taken apart, and where its chains start."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pymc as pm

from pmgp.core.gaussians import DensePrior
from pmgp.core.theta_updates.densities import JointState, LatentPart
from pmgp.core.theta_updates.variance import ConjugateVariance
from pmgp.interface.model.conjugacy import find_conjugate_variance
from pmgp.interface.model.derivatives import DifferentiableLatentModel
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.steps import PseudoMarginal

__all__ = ["Problem", "latent_from_prior"]

DrawLatent = Callable[[np.random.Generator, DensePrior], np.ndarray]
DrawLengthscales = Callable[[np.random.Generator, int], np.ndarray]


class Problem:
    """A posterior, and where chains start.

    Parameters
    ----------
    model : pymc.Model
    lengthscales : callable
        From a random generator and d to the logarithms of length-scales.
    latent : callable
        From a random generator and the prior of f to f.
    derivatives : bool
        Whether to compile the gradient and the metric of theta.

    Attributes
    ----------
    model : DifferentiableLatentModel
    variance : ConjugateVariance or None
        Sigma's full conditional given f.
    """

    def __init__(
        self, model: pm.Model, lengthscales: DrawLengthscales, latent: DrawLatent, derivatives: bool = False
    ) -> None:
        self.pymc_model = model
        parts = take_apart(model)
        self.model = DifferentiableLatentModel(parts, gradient=derivatives, metric=derivatives)
        self.variance: ConjugateVariance | None = find_conjugate_variance(model, parts)
        self._lengthscales = lengthscales
        self._latent = latent

    @property
    def dimension(self) -> int:
        """Length of theta."""
        return self.model.parts.dimension

    @cached_property
    def pseudo_marginal(self) -> PseudoMarginal:
        """The step method that samples theta and f together; it forgets one chain when the next one starts."""
        return PseudoMarginal(model=self.pymc_model)

    def start(self, rng: np.random.Generator) -> JointState:
        """Draw where a chain starts; sigma, if it is not known, from its prior."""
        parts = self.model.parts
        log_variance = -np.log(rng.gamma(1.0))
        count = self.dimension - ("variance_log__" in parts.theta_names)
        values = {"lengthscale_log__": self._lengthscales(rng, count), "variance_log__": np.array(log_variance)}
        theta = parts.ravel(values)
        prior = parts.prior(theta)
        return JointState(theta, LatentPart(prior, self._latent(rng, prior)))


def latent_from_prior(rng: np.random.Generator, prior: DensePrior) -> np.ndarray:
    """F given theta."""
    return prior.sample(rng, 1)[0]
