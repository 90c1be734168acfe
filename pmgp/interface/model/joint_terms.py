"""The joint density of a model as graphs: its terms, split into those that depend on f and those that do not."""

from __future__ import annotations

from typing import NamedTuple

import pymc as pm
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.addends import addends
from pmgp.interface.model.latent_variable import ModelError, refuse_children
from pmgp.interface.model.missing import hyperparameters, imputed, without_missing


class Graphs(NamedTuple):
    """The parts of the joint density as PyTensor graphs of the model's value variables.

    The moments of f are a vector and a matrix; for several latent vectors, a vector of all means, and all covariances
    along a first axis.
    """

    log_prior: TensorVariable
    mean: TensorVariable
    covariance: TensorVariable
    likelihood: list[TensorVariable]


class JointTerms(NamedTuple):
    """Terms of the joint log-density without the prior of f, as graphs of the value variables.

    `variables` are those that depend on f: observed ones, potentials and, in a hierarchical model, free ones.
    `likelihood` has the term of each.
    """

    variables: list[TensorVariable]
    likelihood: list[TensorVariable]
    prior: list[TensorVariable]


def split_terms(model: pm.Model, latents: list[TensorVariable], hierarchical: bool) -> JointTerms:
    """Split the joint log-density without the prior of f into terms that depend on f and terms that do not.

    In a hierarchical model free variables may depend on f; otherwise that raises a ModelError, as does a model in which
    no observed variable depends on f.
    """
    variables = [v for v in (*model.basic_RVs, *model.potentials) if v not in latents]
    densities = dict(zip(variables, model.logp(vars=variables, sum=False), strict=True))
    densities |= {potential: addends(densities[potential]) for potential in model.potentials}
    densities = without_missing(model, imputed(model, latents), densities)
    variables, terms = list(densities), list(densities.values())
    values = {model.rvs_to_values[latent] for latent in latents}
    depends = [bool(values & set(ancestors([term]))) for term in terms]
    names = ", ".join(latent.name for latent in latents)
    likelihood_variables = [v for v, d in zip(variables, depends, strict=True) if d]
    children = [v for v in likelihood_variables if v in model.free_RVs]
    if children and not hierarchical:
        refuse_children(model, names, children)
    if not likelihood_variables:
        raise ModelError(f"no observed variable depends on {names!r}")
    return JointTerms(
        likelihood_variables,
        [t for t, d in zip(terms, depends, strict=True) if d],
        [t for t, d in zip(terms, depends, strict=True) if not d],
    )


def theta_values(model: pm.Model, latents: list[TensorVariable]) -> list[TensorVariable]:
    """Return the value variables of theta, which is all free variables except f and missing observations."""
    return [model.rvs_to_values[rv] for rv in hyperparameters(model, latents)]
