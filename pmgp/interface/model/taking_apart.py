"""Taking a PyMC model apart: its parts are found in the graph, turned into functions, and checked with the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods.base import Divisible
from pmgp.core.numerics.threads import threads_limited
from pmgp.interface.distributions.closed_forms import ClosedForm, find_closed_form
from pmgp.interface.graphs.compilation import Compiler, announced, making_graphs
from pmgp.interface.model.discrete_values import discrete_values
from pmgp.interface.model.identification import unidentified
from pmgp.interface.model.indexed_first import indexed_first
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_variable import ModelError, NotFactorizingError
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.missing import Imputation
from pmgp.interface.model.model_checks import ModelChecks
from pmgp.interface.model.model_likelihood import (
    ClosedFormLikelihood,
    GraphLikelihood,
    ModelLikelihood,
    SummedLikelihood,
)
from pmgp.interface.model.model_prior import model_prior
from pmgp.interface.model.observations import Observations
from pmgp.interface.model.structure import ModelStructure, structure_of
from pmgp.interface.model.theta_prior import ThetaPrior
from pmgp.interface.model.theta_vector import ThetaVector

type PriorMaker = Callable[[pm.Model, LatentVector | LatentPieces, ThetaVector], Any]


def take_apart(
    model: pm.Model,
    latent: TensorVariable | str | Sequence[TensorVariable | str] | None = None,
    initial_point: dict[str, np.ndarray] | None = None,
    compile_kwargs: dict[str, Any] | None = None,
    given_theta: bool = False,
    priors: PriorMaker = model_prior,
    factorizing: bool | None = None,
) -> LatentGaussianModel:
    """Split a PyMC model into the parts of its joint density, as functions of theta and f.

    Parameters
    ----------
    model : pymc.Model
    latent : variable or str, or a sequence of them, optional
        The latent vectors, if other multivariate normal variables are hyper-parameters.
    initial_point : dict, optional
        Values of all variables, for their shapes.
    compile_kwargs : dict, optional
        For PyTensor, as in `pymc.sample`.
    given_theta : bool
        Whether only f is updated. Then there may be no hyper-parameters, and other free variables may depend on f.
    priors : callable
        Makes p(f|theta) as a function of theta from the model, the latent vector and theta.
    factorizing : bool, optional
        Whether the likelihood must factorize over f, or over linear predictors; it must unless `given_theta`.

    Raises
    ------
    ModelError
        If the model is not of this form; the message says why.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> from pmgp.interface.model.taking_apart import take_apart
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> parts = take_apart(pmgp.models.classifier(X, X[:, 0] > 0.5))
    >>> parts.prior(parts.initial_theta).size
    20
    """
    with making_graphs():
        structure = structure_of(model, latent, initial_point, given_theta)
    return parts_of(structure, compile_kwargs, given_theta, priors, factorizing)


def parts_of(
    structure: ModelStructure,
    compile_kwargs: dict[str, Any] | None = None,
    given_theta: bool = False,
    priors: PriorMaker = model_prior,
    factorizing: bool | None = None,
) -> LatentGaussianModel:
    """Return a model's parts as functions, checked with the model's data.

    If observations depend on several values of processes, these are parts of linear predictors. The other arguments are
    those of :func:`take_apart`.
    """
    others = compile_kwargs, given_theta, priors, not given_theta if factorizing is None else factorizing
    try:
        return _checked(structure, *others)
    except NotFactorizingError:
        if structure.latent is None:
            raise
        try:
            return _checked(replace(structure, latent=None), *others)
        except ModelError:
            # Predictors are not linear either.
            pass
        raise


@threads_limited(1)
@announced()
def _checked(
    structure: ModelStructure,
    compile_kwargs: dict[str, Any] | None,
    given_theta: bool,
    priors: PriorMaker,
    factorizing: bool,
) -> LatentGaussianModel:
    """Return a model's parts, whose likelihood factorizes if that is needed."""
    with making_graphs():
        parts = _computed(structure, Compiler(compile_kwargs), given_theta, priors)
    # Closed forms name their own faults.
    with nullcontext() if parts.terms is None else structure.naming_faults():
        parts.refresh_data()
    if factorizing:
        parts.require_factorizing()
    if not given_theta:
        parts.checks.refuse_other_processes(structure.model)
        unidentified(structure.model, parts)
    return parts


def _computed(
    structure: ModelStructure, compiler: Compiler, given_theta: bool, priors: PriorMaker
) -> LatentGaussianModel:
    """Return the parts of a model as functions."""
    model, theta = structure.model, ThetaVector(structure.theta, structure.point, compiler)
    structure, latent = _with_latent(structure, theta)
    terms = structure.terms
    theta_prior = ThetaPrior(terms.prior, theta)
    prior = priors(model, latent, theta)
    if not given_theta:
        theta.refuse([value for value in theta.discrete if value in structure.prior_values])
    observations = Observations(model, latent.name, terms.variables)
    likelihood = _likelihood(structure, latent, theta, observations, prior.markov)
    discrete = theta.initial[theta.places(theta.discrete)]
    settings = discrete_values(model, theta.discrete, discrete)
    return LatentGaussianModel(
        latent,
        theta,
        theta_prior,
        prior,
        likelihood,
        observations,
        latent.write(terms.likelihood),
        theta.elements_of(terms.likelihood),
        structure.prior_values,
        Imputation(model, structure.missing) if structure.missing else None,
        ModelChecks(latent, theta, theta_prior, prior, likelihood, given_theta, settings),
    )


def _with_latent(structure: ModelStructure, theta: ThetaVector) -> tuple[ModelStructure, LatentVector | LatentPieces]:
    """Return f, and the structure, in which indices come first if only then an observation's predictors are found."""
    if structure.latent is not None:
        return structure, structure.latent
    of_pieces = structure.model, structure.latents, structure.point
    latent = LatentPieces(*of_pieces, structure.terms.likelihood, theta)
    if latent.unmatched:
        terms = structure.terms._replace(likelihood=indexed_first(structure.terms.likelihood))
        found = LatentPieces(*of_pieces, terms.likelihood, theta)
        if not found.unmatched:
            return replace(structure, terms=terms), found
        latent.require_factorizing(separate=not latent.dense)
    return structure, latent


def _likelihood(
    structure: ModelStructure,
    latent: LatentVector | LatentPieces,
    theta: ThetaVector,
    observations: Observations,
    divided: bool,
) -> ModelLikelihood:
    """Return the likelihood in closed form if it has one, and from its graph otherwise."""
    model, terms, point = structure.model, structure.terms, structure.point
    closed_form = find_closed_form(model, latent.variables, terms.variables, theta.compile_small, point)
    if closed_form is not None and (not divided or _is_divisible(closed_form, theta)):
        return ClosedFormLikelihood(closed_form, observations)
    with structure.naming_faults():
        values = latent.predictors.of(latent.ravel(point))
        graphs = GraphLikelihood(terms, latent.predictors, theta, observations, values, divided)
    return SummedLikelihood(graphs, latent) if isinstance(latent, LatentPieces) else graphs


def _is_divisible(closed_form: ClosedForm, theta: ThetaVector) -> bool:
    """Return whether a closed form can compute the terms of some latent values without the others."""
    closed_form.refresh(theta.initial)
    return isinstance(closed_form(theta.initial), Divisible)
