"""The parts of a PyMC model, found in its graph without compiling or computing anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.joint_terms import JointTerms, split_terms, theta_values
from pmgp.interface.model.latent_variable import ModelError, are_summed, below, find_latents, names_of
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.missing import imputed
from pmgp.interface.model.model_likelihood import naming_gradients_in_f
from pmgp.interface.model.observations import naming_shapes, refuse_shapes


@dataclass(frozen=True)
class ModelStructure:
    """A PyMC model split into latent vectors, hyper-parameters and terms of its log-density, all as graphs.

    `latent` is f, or None if observations depend on linear predictors, since f then needs compiled functions.
    `theta` are the value variables of the hyper-parameters; `terms` leave out that of f; `missing` observations are
    drawn given f.
    """

    model: pm.Model
    point: dict[str, np.ndarray]
    latents: list[TensorVariable]
    latent: LatentVector | None
    terms: JointTerms
    theta: list[TensorVariable]
    missing: list[TensorVariable]

    @property
    def prior_values(self) -> list[TensorVariable]:
        """The value variables of the free variables on which the distribution of f depends directly."""
        inputs = [one for variable in self.latents for one in variable.owner.inputs]
        read = set(ancestors(inputs, blockers=self.model.basic_RVs))
        return [self.model.rvs_to_values[rv] for rv in self.model.free_RVs if rv in read]

    @contextmanager
    def naming_faults(self) -> Iterator[None]:
        """Raise errors that name wrong shapes and missing gradients in place of PyTensor's errors."""
        shapes = naming_shapes(self.model, self.latents, self.terms.variables, self.point)
        with shapes, naming_gradients_in_f(names_of(self.latents)):
            yield


def structure_of(
    model: pm.Model,
    latent: TensorVariable | str | Sequence[TensorVariable | str] | None = None,
    initial_point: dict[str, np.ndarray] | None = None,
    given_theta: bool = False,
) -> ModelStructure:
    """Return the parts of a model; the arguments and the errors are those of `take_apart`."""
    point = model.initial_point() if initial_point is None else initial_point
    latents = find_latents(model, latent)
    apart = are_summed(latents) or len({np.shape(point[model.rvs_to_values[rv].name])[-1:] for rv in latents}) > 1
    vector = None if apart else LatentVector(model, latents, point)
    refuse_shapes(model, latents, below(model, latents), point, static=True)
    terms = split_terms(model, latents, hierarchical=given_theta)
    theta = theta_values(model, latents)
    if not theta and not given_theta:
        raise ModelError(
            f"the model has no hyper-parameters besides {names_of(latents)!r}, so only the latent values are to be "
            "sampled: use pm.sample(step=pmgp.EllipticalSlice()). pmgp.marginal.log_likelihood(model) gives log p(y). "
            "To learn a parameter of the covariance, give it a prior"
        )
    return ModelStructure(model, point, latents, vector, terms, theta, imputed(model, latents))
