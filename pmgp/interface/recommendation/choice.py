"""`recommend`, which finds the scheme for a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pymc as pm
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.context import current_model
from pmgp.interface.model.inducing_process import inducing_process, inducing_processes
from pmgp.interface.model.latent_variable import ModelError, are_summed, find_latents
from pmgp.interface.model.observed_normal import gaussian_observations, observed_values
from pmgp.interface.model.time_series import is_markov
from pmgp.interface.recommendation import schemes
from pmgp.interface.recommendation.result import Recommendation
from pmgp.interface.recommendation.traits import is_latent, number_of_latent_values, traits_of
from pmgp.interface.recommendation.weighted_sums import ADDITIVE_NUTS, number_of_weights
from pmgp.interface.steps.transitions import FEW

MANY_WEIGHTS = 5
MANY_POINTS = 1500
"""The number of latent values from which a chain of 2,000 iterations takes five minutes or more; twice as many take
eight times as long. With 1,372 values and two hyper-parameters an iteration takes 120 milliseconds."""


def recommend(model: pm.Model | None = None, *, latent: Any = None) -> Recommendation:
    """Recommend step methods for a model with a latent Gaussian process, from measured figures.

    Parameters
    ----------
    model : pymc.Model, optional
        The model; by default that of the ``with`` block.
    latent : variable or str, optional
        The latent vector f, if the model has several candidates; without it, each of them gets a step method.

    Returns
    -------
    Recommendation
        It shows the step methods and the reason when printed; its ``steps()`` makes them. If its attribute ``weighted``
        is true, it recommends :func:`pmgp.importance`, and these step methods if the weights cannot be trusted.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), no Gaussian time series and no multivariate normal observations, no
        observed variable depends on it, a hyper-parameter is discrete, there is a second process besides the `latent`
        that was named, or multivariate normal observations are missing or differ in number from the rows of X.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> found = pmgp.recommend(model)
    >>> print(found)
    Pseudo-marginal chain: pm.sample(step=pmgp.PseudoMarginal())
      why: 2 hyper-parameters (elements of theta): theta is updated with f integrated out, ...
      cost: about 3 Cholesky factorizations and 1.2 inversions per iteration
      or: ...
    >>> with model:
    ...     step = found.steps()
    """
    model = current_model(model)
    if len(inducing := inducing_processes(model)) > 1:
        return schemes.several_on_inducing_inputs(model, list(inducing))
    process = inducing_process(model)
    if process is not None:
        return schemes.on_inducing_inputs(model, process)
    if latent is None and (observed := gaussian_observations(model)) is not None:
        # A chain, which comes next if there are no weights, would fail without a reason.
        observed_values(model, observed)
        return schemes.marginal_observations(model)
    if (latents := _summed(model, latent)) is not None:
        return schemes.summed(model, latents, latent)
    exact = _exact(model, latent)
    if any(is_markov(rv) for rv in model.free_RVs):
        return exact
    if number_of_weights(model) >= MANY_WEIGHTS:
        exact = replace(exact, alternatives=(ADDITIVE_NUTS, *exact.alternatives))
    points = number_of_latent_values(model)
    return exact if points < MANY_POINTS else schemes.with_approximation(exact, points)


def _summed(model: pm.Model, latent: Any) -> list[TensorVariable] | None:
    """Return the latent variables of a model whose linear predictors are sums of several."""
    try:
        latents = find_latents(model, latent)
    except ModelError:
        return None
    return latents if are_summed(latents) else None


def _has_outputs(model: pm.Model) -> bool:
    """Return whether f is a matrix, with a row for each output of a process."""
    try:
        return any(rv.ndim > 1 for rv in find_latents(model, None))
    except ModelError:
        return False


def _exact(model: pm.Model, latent: Any) -> Recommendation:
    """Return step methods that sample the posterior exactly."""
    candidates = [rv.name for rv in model.free_RVs if is_latent(model, rv.name)]
    if latent is None and len(candidates) > 1:
        return schemes.processes(model) or schemes.several_latent_vectors(model, candidates)
    if latent is None and _has_outputs(model) and (together := schemes.processes(model)) is not None:
        return together
    traits = traits_of(model, latent)
    if traits.combined:
        return schemes.summed(model, find_latents(model, latent), latent)
    if traits.series:
        return schemes.time_series(model, traits)
    if not traits.dimension:
        return schemes.known_hyperparameters(model, traits)
    if not traits.factorizes:
        return schemes.any_likelihood(model, traits)
    if traits.dimension <= FEW:
        chain, points = schemes.few_hyperparameters(model, traits), number_of_latent_values(model)
        return chain if points < MANY_POINTS else schemes.around_the_maximum(chain, points)
    return schemes.many_hyperparameters(model, traits)
