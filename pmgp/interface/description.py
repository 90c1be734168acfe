"""Descriptions of PyMC models: their latent vectors, hyper-parameters and likelihood, and how each is computed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.distribution import PartialObservedRV
from pymc.distributions.timeseries import AutoRegressiveRV
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, walk
from pytensor.tensor.variable import TensorVariable

from pmgp.core.markov import Part
from pmgp.interface.model.context import current_model
from pmgp.interface.model.effects import PROCESSES, effects, is_correlated, is_normal, is_standard
from pmgp.interface.model.fields import field_of, is_field
from pmgp.interface.model.identification import unidentified
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.latent_variable import below, find_latents, have_rows, is_dense
from pmgp.interface.model.linear_nodes import inputs_read
from pmgp.interface.model.maxima import several_maxima
from pmgp.interface.model.missing import hyperparameters, imputed
from pmgp.interface.model.structure import ModelStructure, structure_of
from pmgp.interface.model.taking_apart import parts_of
from pmgp.interface.model.time_series import is_markov, is_process, parameters_of
from pmgp.interface.steps.chosen import chosen_approximation, chosen_estimators

# Normal vectors with up to this many elements are hyper-parameters like any other.
FEW = 8


@dataclass(frozen=True)
class Description:
    """A description of a model's parts in words, which ``print`` shows.

    Attributes
    ----------
    latent_vectors : dict
        Shape and inputs of each latent variable, by name.
    hyperparameters : dict
        Shape and transform of each hyper-parameter, and the parts of the model that it acts on, by name.
    likelihood : dict
        The distribution of each observed variable that depends on f, by name, and the potentials that do.
    missing : dict
        Shape and distribution of the missing observations, which are drawn given f, by name.
    computation : dict
        How the covariance and the likelihood are computed, the default approximation and estimators, and hints. It is
        empty for a model that is refused.
    refused : str, optional
        The reason why :class:`pmgp.PseudoMarginal` refuses the model.
    """

    latent_vectors: dict[str, str]
    hyperparameters: dict[str, str]
    likelihood: dict[str, str]
    missing: dict[str, str]
    computation: dict[str, str]
    refused: str | None = None

    def __str__(self) -> str:
        """Return one line per part, under a heading for each kind."""
        sections = {
            "latent vectors": self.latent_vectors,
            "hyper-parameters": self.hyperparameters,
            "likelihood": self.likelihood,
            "missing observations": self.missing,
            "computation": self.computation,
            "refused": {} if self.refused is None else {"PseudoMarginal": self.refused},
        }
        return "\n".join(_section(title, parts) for title, parts in sections.items() if parts)


def describe(model: pm.Model | None = None, *, latent: Any = None) -> Description:
    """Describe the parts that pmgp finds in a model, and how it would compute them.

    Parameters
    ----------
    model : pymc.Model, optional
        The model of the ``with`` block by default.
    latent : variable or str, or a sequence of them, optional
        The latent vectors, if other multivariate normal variables are hyper-parameters.

    Returns
    -------
    Description
        A refused model is described too, with the reason for the refusal.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> print(pmgp.describe(model))
    latent vectors
      f  vector of 20; inputs: a constant (20, 1)
    hyper-parameters
      lengthscale  number; Gamma; transform log; acts on the covariance of f
      variance     number; Gamma; transform log; acts on the covariance of f
    likelihood
      y  BernoulliProbit
    computation
      covariance     in blocks of rows, by NumPy
      likelihood     closed form
      approximation  ExpectationPropagation
      estimator      ImportanceSampling or OrthantSampling
    """
    model = current_model(model)
    try:
        structure = structure_of(model, latent)
    except ValueError as error:
        return _unstructured(model, latent, str(error))
    computation: dict[str, str] = {}
    refused = None
    try:
        parts = parts_of(structure)
        computation = _computation(parts) | _identified(model, parts) | _integrable(structure)
    except ValueError as error:
        refused = str(error)
    theta = [model.values_to_rvs[value] for value in structure.theta]
    observed = [rv for rv in structure.terms.variables if rv in (*model.observed_RVs, *model.potentials)]
    return _description(model, structure.latents, theta, observed, structure.missing, computation, refused)


def _unstructured(model: pm.Model, latent: Any, refused: str) -> Description:
    """Describe the variables that can be recognized in a model of an unsupported form."""
    latents: list[TensorVariable] = []
    with suppress(ValueError):
        latents = find_latents(model, latent)
    theta, missing = hyperparameters(model, latents), imputed(model, latents)
    potentials = [potential for potential in model.potentials if set(latents) & set(ancestors([potential]))]
    observed = [*below(model, latents), *potentials]
    return _description(model, latents, theta, observed, missing, {}, refused)


def _description(
    model: pm.Model,
    latents: list[TensorVariable],
    theta: list[TensorVariable],
    observed: list[TensorVariable],
    missing: list[TensorVariable],
    computation: dict[str, str],
    refused: str | None,
) -> Description:
    """Put the parts of a model into words."""
    shapes = model.eval_rv_shapes()
    sizes = {rv: f"{_size(shapes[rv.name])}; {_distribution(rv)}" for rv in (*theta, *missing)}
    return Description(
        {rv.name: _latent_vector(rv, shapes[rv.name]) for rv in latents},
        {rv.name: f"{sizes[rv]}; {_transform(model, rv)}; acts on {_acts_on(model, latents, rv)}" for rv in theta},
        {rv.name: "potential" if rv in model.potentials else _distribution(rv) for rv in observed},
        {rv.name: f"{sizes[rv]}; drawn given f" for rv in missing},
        computation,
        refused,
    )


def _identified(model: pm.Model, parts: LatentGaussianModel) -> dict[str, str]:
    found = {"not identified": unidentified(model, parts), "several maxima": several_maxima(parts)}
    return {name: words for name, words in found.items() if words is not None}


def _integrable(structure: ModelStructure) -> dict[str, str]:
    """Return which long normal vectors are hyper-parameters, if they could be integrated out beside the others."""
    model, shapes = structure.model, structure.model.eval_rv_shapes()
    theta = [model.values_to_rvs[value] for value in structure.theta]
    dense = any(map(is_dense, structure.latents))
    beside = [*effects(model), *filter(is_correlated, model.free_RVs)] if dense else []
    normal = [rv for rv in theta if is_standard(model, rv) or rv in beside]
    found = [str(rv.name) for rv in normal if int(np.prod(shapes[rv.name])) > FEW]
    in_rows = dense or have_rows(structure.latents)
    if not found or not in_rows or any(part in name for part in PROCESSES for name in found):
        return {}
    latent = [*(str(rv.name) for rv in structure.latents), *found]
    try:
        parts_of(structure_of(model, latent))
    except ValueError:  # The likelihood is not a function of linear predictors of them.
        return {}
    return {"hint": f"latent={latent} integrates out {', '.join(found)} too, so that fewer hyper-parameters are left"}


def _section(title: str, parts: dict[str, str]) -> str:
    width = max(map(len, parts))
    return "\n".join([title, *(f"  {name:<{width}}  {text}" for name, text in parts.items())])


def _size(shape: tuple[int, ...]) -> str:
    if not shape:
        return "number"
    return f"vector of {shape[0]}" if len(shape) == 1 else f"array of shape {tuple(map(int, shape))}"


def _latent_vector(rv: TensorVariable, shape: tuple[int, ...]) -> str:
    """Return the shape and kind of a latent variable, or the input matrices of K: those with a row per element."""
    if is_markov(rv):
        return f"{_size(shape)}; {_series(rv)}"
    if is_normal(rv):
        return f"{_size(shape)}; independent normal elements, in linear predictors"
    if is_correlated(rv):
        return f"{_size(shape)}; correlated elements in each row, in linear predictors"
    covariance = rv.owner.op.dist_params(rv.owner)[1]
    data = [v for v in ancestors([covariance]) if isinstance(v, Constant | SharedVariable)]
    found = [(v.name or "a constant", np.shape(v.data if isinstance(v, Constant) else v.get_value())) for v in data]
    inputs = [f"{name} {other}" for name, other in found if len(other) == 2 and other[0] == shape[-1]]
    return f"{_size(shape)}; inputs: {', '.join(inputs) or 'none found'}"


def _series(rv: TensorVariable) -> str:
    """Return the kind of a time series or field in words."""
    if is_field(rv):
        return field_of(rv).described(rv)
    if is_process(rv):
        return f"Matern process in time of order {' + '.join(map(_part, rv.owner.op.parts))}"
    if isinstance(rv.owner.op, AutoRegressiveRV):
        constant = " with a constant" if rv.owner.op.constant_term else ""
        return f"autoregression of order {rv.owner.op.ar_order}{constant}"
    return "random walk"


def _part(part: Part) -> str:
    return " x ".join([f"{round(2 * part.order)}/2", *part.factors])


def _transform(model: pm.Model, rv: TensorVariable) -> str:
    transform = model.rvs_to_transforms[rv]
    return "no transform" if transform is None else f"transform {getattr(transform, 'name', transform)}"


def _acts_on(model: pm.Model, latents: list[TensorVariable], rv: TensorVariable) -> str:
    parts: dict[str, list[TensorVariable]] = {}
    for f in latents:
        if is_markov(f):
            graphs = parameters_of(f)._asdict()
            parts |= {f"the {name.replace('_', ' ')} of {f.name}": [graph] for name, graph in graphs.items()}
            continue
        if is_normal(f):
            mean, deviation, *_ = f.owner.op.dist_params(f.owner)
            parts |= {f"the mean of {f.name}": [mean], f"the standard deviation of {f.name}": [deviation]}
            continue
        mean, covariance, *_ = f.owner.op.dist_params(f.owner)
        parts |= {f"the mean of {f.name}": [mean], f"the covariance of {f.name}": [covariance]}
    others = [v for v in (*model.basic_RVs, *model.potentials) if v not in latents and v.owner is not None]
    parts |= {v.name: v.owner.inputs for v in others}
    return ", ".join(name for name, graphs in parts.items() if rv in _read_by(model, graphs)) or "nothing"


def _read_by(model: pm.Model, graphs: list[TensorVariable]) -> set[Any]:
    """Return the variables whose values graphs read themselves: not shapes alone, nor through a random variable."""

    def inputs(variable: Any) -> list[Any]:
        return [] if variable.owner is None or variable in model.basic_RVs else inputs_read(variable.owner)

    return set(walk(graphs, inputs))


def _distribution(rv: TensorVariable) -> str:
    if isinstance(rv.owner.op, PartialObservedRV):
        # PyMC divides a distribution of ours into what is observed and what is missing.
        rv = rv.owner.inputs[0]
    return getattr(rv.owner.op, "_print_name", [type(rv.owner.op).__name__])[0]


def _computation(model: LatentGaussianModel) -> dict[str, str]:
    names = [type(e).__name__ for group in [chosen_estimators("auto", model)] for e in (group[0], *group[1])]
    return {
        "covariance": model.latent_prior.computed,
        "likelihood": "closed form" if model.terms is None else "from its graph",
        "approximation": type(chosen_approximation("auto", model)).__name__,
        "estimator": " or ".join(names),
    }
