"""Missing observations: the likelihood leaves out their terms, and they are drawn from their distribution given f.

If ``observed`` has missing values, PyMC makes three variables: ``y_observed``, ``y_unobserved``, which is free, and
``y``, which joins the two. Integrating ``y_unobserved`` out of the joint density leaves only the terms of
``y_observed``, so theta and f are sampled as if there were no missing rows. With a draw of ``y_unobserved`` given theta
and f, they are a draw from the joint posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.utils import replace_rvs_by_values
from pymc.pytensorf import collect_default_updates, reseed_rngs
from pymc.pytensorf import compile as compile_pytensor
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_variable import ModelError

SUFFIX = "_unobserved"


def imputed(model: pm.Model, latents: list[TensorVariable]) -> list[TensorVariable]:
    """Return the free variables for missing observations that depend on f."""
    names = {rv.name for rv in model.observed_RVs}
    parts = [rv for rv in model.free_RVs if rv.name.endswith(SUFFIX)]
    parts = [rv for rv in parts if f"{rv.name.removesuffix(SUFFIX)}_observed" in names]
    return [rv for rv in parts if set(latents) & set(ancestors([rv]))]


def hyperparameters(model: pm.Model, latents: list[TensorVariable]) -> list[TensorVariable]:
    """Return the free variables that make up theta: neither f nor missing observations."""
    others = {*latents, *imputed(model, latents)}
    return [rv for rv in model.free_RVs if rv not in others]


def without_missing(
    model: pm.Model, missing: list[TensorVariable], terms: dict[TensorVariable, TensorVariable]
) -> dict[TensorVariable, TensorVariable]:
    """Return the terms of the log-density of each variable, without those of missing observations.

    PyMC may compute the terms of ``y_observed`` and ``y_unobserved`` together and select the former: its value does not
    depend on the placeholder for the latter.
    """
    if not missing:
        return terms
    point = model.initial_point()
    values = {model.rvs_to_values[rv]: rv for rv in missing}
    placeholders = {value: pt.constant(point[value.name]).astype(value.dtype) for value in values}
    kept = {variable: term for variable, term in terms.items() if variable not in missing}
    own = {f"{rv.name.removesuffix(SUFFIX)}_observed" for rv in missing}
    for variable, term in kept.items():
        found = set(values) & set(ancestors([term]))
        if found and variable.name not in own:
            names = ", ".join(values[value].name.removesuffix(SUFFIX) for value in found)
            raise ModelError(
                f"{variable.name!r} depends on missing observations of {names}, so these cannot be integrated out; "
                "leave out these rows, or let it depend on the latent values"
            )
    replaced = clone_replace(list(kept.values()), placeholders)
    return dict(zip(kept, _folded(replaced), strict=True))


def _folded(graphs: list[TensorVariable]) -> list[TensorVariable]:
    """Return graphs with nodes that depend only on constants replaced with their values.

    Such nodes are, for example, observations joined to placeholders. PyTensor's own rewrites do not fold those that
    write into empty arrays.
    """
    nodes = list(io_toposort([], graphs))
    constant: dict[Any, bool] = {}
    for node in nodes:
        fixed = all(isinstance(one, Constant) or constant.get(one, False) for one in node.inputs)
        constant |= dict.fromkeys(node.outputs, fixed)
    used = [one for node in nodes for one in node.inputs if not constant[node.outputs[0]]]
    computed = [one for one in used if constant.get(one) and isinstance(one, TensorVariable)]
    values = compile_pytensor([], computed, mode=INTERPRETED)()
    found = {one: pt.constant(value, dtype=one.dtype) for one, value in zip(computed, values, strict=True)}
    return clone_replace(graphs, found)


class Imputation:
    """A sampler of the missing observations that `imputed` finds, given f and theta."""

    def __init__(self, model: pm.Model, missing: list[TensorVariable]) -> None:
        self.values = [model.rvs_to_values[rv] for rv in missing]
        others = {rv: model.rvs_to_values[rv] for rv in model.free_RVs if rv not in missing}
        graphs = [_on_the_line(model, rv) for rv in missing]
        graphs = replace_rvs_by_values(graphs, rvs_to_values=others, rvs_to_transforms=model.rvs_to_transforms)
        self._inputs = [value.name for value in others.values()]
        self._rngs = list(collect_default_updates(graphs))
        self._draw: Callable[..., list[Any]] = compile_pytensor(
            list(others.values()), graphs, on_unused_input="ignore", mode=INTERPRETED
        )

    def drawn(self, rng: np.random.Generator, point: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return draws of the missing observations by name.

        Their seed is the generator's next number, but the generator itself does not advance, so the chain moves as
        it would without the missing rows.
        """
        reseed_rngs(self._rngs, deepcopy(rng).integers(2**63))
        values = self._draw(*[point[name] for name in self._inputs])
        return {value.name: np.asarray(found, value.dtype) for value, found in zip(self.values, values, strict=True)}


def _on_the_line(model: pm.Model, rv: TensorVariable) -> TensorVariable:
    transform = model.rvs_to_transforms[rv]
    return rv if transform is None else transform.forward(rv, *rv.owner.inputs)
