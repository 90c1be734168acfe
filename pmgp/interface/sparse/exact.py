"""The exact model that inducing inputs approximate: the same hyper-parameters and likelihood, all latent values."""

from __future__ import annotations

from typing import Any

import pymc as pm
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.inducing_process import drawn_afterwards
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.sparse.likelihood import LatentLikelihood


def whole_model(
    model: pm.Model,
    v: Any,
    mean: TensorVariable,
    covariance: TensorVariable,
    observations: dict[str, tuple[LatentLikelihood, list[TensorVariable]]],
    name: str,
) -> pm.Model:
    """Return a copy of the model with f ~ N(mean, covariance) in place of v.

    `observations` has the likelihood of each observed variable, by name, with its arguments after the moments of f. Of
    the other variables only conditionals at new inputs, which are left out, may depend on v.
    """
    copies: dict[Any, Any] = {}
    afterwards = drawn_afterwards(model)

    def copied(graph: Any) -> Any:
        known = {old: new for old, new in copies.items() if old in set(ancestors([graph]))}
        # Other ways of replacing copy random variables, and the copies are different variables.
        return copies[graph] if graph in copies else graph_replace([graph], known)[0] if known else graph

    # Within `with model:` it would otherwise become a part of that model, which has variables of these names.
    with pm.Model(coords=model.coords, model=None) as whole:
        for rv in model.basic_RVs:
            if rv is v or rv.name in observations or rv in afterwards:
                continue
            if v in set(ancestors([rv])):
                raise ModelError(f"{rv.name!r} depends on the whitened values, which the exact model does not have")
            node = rv.owner.clone_with_new_inputs([copied(part) for part in rv.owner.inputs])
            copy = node.outputs[rv.owner.outputs.index(rv)]
            settings = {"default_transform": model.rvs_to_transforms[rv]} if rv in model.free_RVs else {}
            observed = model.rvs_to_values[rv] if rv in model.observed_RVs else None
            copies[rv] = whole.register_rv(copy, rv.name, observed=observed, **settings)
        for potential in model.potentials:
            pm.Potential(potential.name, copied(potential))
        f = pm.MvNormal(name, copied(mean), copied(covariance))
        for observed_name, (likelihood, [_, _, *others]) in observations.items():
            value = model.rvs_to_values[model[observed_name]]
            whole.register_rv(likelihood.dist(f, *[copied(other) for other in others]), observed_name, observed=value)
    return whole
