"""Ordinary PyMC models of theta, in which an approximation integrates f out."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from pmgp.core import approximations
from pmgp.core.approximations import Differentiable
from pmgp.core.registry import resolve
from pmgp.interface.importance.theta_draws import transformed
from pmgp.interface.integrated.model_copy import copied
from pmgp.interface.integrated.operation import ApproximateEvidence, LogEvidence
from pmgp.interface.maximum import Objective
from pmgp.interface.model.context import current_model
from pmgp.interface.model.latent_gaussian import find_latent
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.model.taking_apart import take_apart

# Name of the variable that holds log p~(y|theta) in a marginalized model; the correction reads it.
LOG_EVIDENCE = "log_marginal_likelihood"


def approximate(
    model: pm.Model | None = None,
    *,
    approximation: Differentiable | str = "ep",
    latent: Any = None,
    compile_kwargs: dict[str, Any] | None = None,
) -> pm.Model:
    """Integrate f out with expectation propagation or Laplace's method, and return a model of theta.

    The result is an ordinary PyMC model with gradients, suitable for NUTS and `pymc.find_MAP`. It has the model's
    hyper-parameters, all other variables that do not depend on f, the potential ``marginal_likelihood``, and the
    potential's value in the trace, ``log_marginal_likelihood``. Its posterior has the error of the approximation;
    :func:`pmgp.marginal.correct` removes that error from draws, and adds draws of f.

    Parameters
    ----------
    model : pymc.Model, optional
        The model on the context stack by default. It is not changed.
    approximation : "ep", "laplace", ExpectationPropagation or Laplace
        The names select tight tolerances, which the gradient needs.
    latent : variable or str, optional
        The variable f, if the model has several multivariate normal variables.
    compile_kwargs : dict, optional
        Passed to PyTensor, as in `pymc.sample`.

    Returns
    -------
    pymc.Model
        The model with the current data. Marginalize again after `pymc.set_data`.

    Raises
    ------
    ModelError
        If the model is not of the form that `PseudoMarginal` needs, or cannot be differentiated.
    ValueError
        If the approximation is unknown.

    Notes
    -----
    Deterministic variables that depend on f are left out; `pymc.compute_deterministics` computes them from corrected
    draws. Gradients in parameters of the likelihood are central differences, which evaluate all sites twice for each
    parameter.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> with pmgp.marginal.approximate(model):
    ...     idata = pm.sample(100, tune=200, chains=2, cores=1, random_seed=1, progressbar=False)
    >>> exact = pmgp.marginal.correct(idata, model=model, random_seed=1, progressbar=False)
    >>> sorted(exact.posterior.data_vars)
    ['f', 'lengthscale', 'variance']
    """
    model = current_model(model)
    method = resolve(approximation, approximations.TIGHT, Differentiable, "approximation")
    f = find_latent(model, latent)
    # The functions are compiled for a copy, so that later changes of the data do not reach them.
    own = copied(model)
    parts = take_apart(own, f.name, compile_kwargs=compile_kwargs)
    parts.checks.refuse_discrete()
    evidence = ApproximateEvidence(Objective(own, parts, method, prior=False), parts.initial_moments[0].size)
    marginal = copied(model, [v for v in _variables(model) if f in set(ancestors([v]))])
    # Theta has the order of the copy, which differs from that of the model.
    theta = [marginal[rv.name] for rv in hyperparameters(own, [own[f.name]])]
    with marginal:
        value = LogEvidence(evidence)(pt.concatenate([part.ravel() for part in transformed(marginal, theta)]))
        pm.Potential("marginal_likelihood", value)
        pm.Deterministic(LOG_EVIDENCE, value)
    return marginal


def _variables(model: pm.Model) -> list[Any]:
    """Return the variables that may depend on f, the later ones first."""
    return [*model.deterministics, *model.potentials, *reversed(model.basic_RVs)]
