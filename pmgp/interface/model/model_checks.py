"""The checks of a model that has been taken apart, with its current data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pymc as pm

from pmgp.interface.model.checks import refuse_other_processes
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.model_likelihood import ModelLikelihood
from pmgp.interface.model.model_prior import ModelPrior
from pmgp.interface.model.probes import Probes
from pmgp.interface.model.theta_prior import ThetaPrior
from pmgp.interface.model.theta_vector import ThetaVector


@dataclass(frozen=True)
class ModelChecks:
    """The conditions that a model must fulfill, which also determine the structure of its likelihood.

    `given_theta` says whether only f is updated, so that the likelihood need not factorize over f. `settings` has rows
    of values of the discrete hyper-parameters, at which the structure is found besides the initial ones.
    """

    latent_vector: LatentVector | LatentPieces
    theta: ThetaVector
    theta_prior: ThetaPrior
    latent_prior: ModelPrior
    model_likelihood: ModelLikelihood
    given_theta: bool
    settings: np.ndarray

    @property
    def probes(self) -> Probes:
        """The points at which the likelihood is evaluated."""
        discrete = self.theta.places(self.theta.discrete)
        moments = self.latent_prior.initial_moments
        return Probes(
            self.theta.initial, self.theta_prior, *moments, self.latent_vector.number, discrete, self.settings
        )

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them, and find the structure of the likelihood.

        Data that rule the model out raise a ModelError, and those outside the domain of a closed form a ValueError.
        """
        self.latent_prior.refresh_data()
        probes = self.probes
        self.model_likelihood.refresh_data(probes)
        if not self.given_theta:
            self.model_likelihood.refuse_impossible(probes)
            self.model_likelihood.require_factorizing()

    def refuse_discrete(self) -> None:
        """Refuse discrete hyper-parameters, for methods that move all of theta or integrate it out."""
        self.theta.refuse(self.theta.discrete)

    def refuse_other_processes(self, model: pm.Model) -> None:
        """Refuse a second latent process among the hyper-parameters of the PyMC model."""
        terms = self.model_likelihood.terms
        refuse_other_processes(model, self.latent_vector, self.theta, terms, self.probes)
