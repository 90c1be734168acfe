"""What predictions and draws at new inputs have in common: the model at the new inputs, and the draws to average."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.distribution import PartialObservedRV
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable
from rich.progress import track

from pmgp.core.numerics.threads import threads_limited
from pmgp.interface.model.latent_gaussian import find_latent
from pmgp.interface.prediction.covariates import check_at, check_inputs
from pmgp.interface.prediction.latent_process import Conditional, LatentProcess
from pmgp.interface.prediction.point_function import PointModel
from pmgp.interface.prediction.posterior import Draws, check_variables, evenly_spaced
from pmgp.interface.prediction.rules import NotPointwiseError

__all__ = ["Setting", "prepare"]


@dataclass
class Setting:
    """A model at new inputs, and draws of its posterior.

    Attributes
    ----------
    process : LatentProcess
    points : PointModel
    observed : dict
        The observed variables that depend on f, by name.
    draws : Draws
    coordinates : dict
        The draws' chains and numbers.
    """

    process: LatentProcess
    points: PointModel
    observed: dict[str, TensorVariable]
    draws: Draws
    coordinates: dict[str, np.ndarray]

    def conditionals(
        self, block_size: int | None, progressbar: bool
    ) -> Iterator[tuple[np.ndarray, Conditional, np.ndarray]]:
        """For each theta: the draws that have it, the process given it, and their whitened latent values."""
        if block_size is not None and block_size < 1:
            raise ValueError(f"block_size must be at least 1, not {block_size}")
        Xnew = self.points.Xnew
        places = [self.points.theta.index(rv) for rv in self.process.theta]
        groups = self.draws.grouped(places)
        size = self.process.block_size(len(Xnew)) if block_size is None else block_size
        for indices in track(groups, "Predicting", disable=not progressbar):
            theta = self.draws.theta[indices[0]]
            conditional = self.process.given_theta([theta[place] for place in places], Xnew, size)
            yield indices, conditional, conditional.whiten(self.draws.f[indices])

    def understood[T](self, what: str, find: Callable[[TensorVariable], T]) -> dict[str, T]:
        """What can be found for each observed variable; one warning says of which it cannot, and why."""
        found, reasons = {}, []
        for name, variable in self.observed.items():
            try:
                found[name] = find(variable)
            except NotPointwiseError as error:
                reasons.append(f"of {name!r}, {error}")
        if not self.observed:
            reasons = [f"no observed variable depends on {self.points.f.name!r}"]
        if reasons:
            which = "for some variables" if found else f"only {self.points.f.name!r}"
            warnings.warn(f"{what} cannot be given at the new inputs, {which}: {'; '.join(reasons)}", stacklevel=3)
        return found


@threads_limited(1)
def prepare(
    idata: Any,
    Xnew: Any,
    model: pm.Model | None,
    latent: Any,
    at: Any,
    draws: int | None,
    by_chain: bool = False,
) -> Setting:
    """Check all arguments, and take the model apart."""
    model = pm.modelcontext(model)
    f = find_latent(model, latent)
    observed = _observed(model, f)
    needed = set(ancestors([f, *observed.values()]))
    theta = [rv for rv in model.free_RVs if rv is not f and rv in needed]
    process = LatentProcess(f, [rv for rv in theta if rv in set(ancestors([f]))])
    Xnew = check_inputs(Xnew, process.X)
    given = check_at(at, model, f, process.inputs, list(observed.values()))
    check_variables(idata, f, process.size, theta)
    chosen, coordinates = evenly_spaced(idata, f, theta, draws, by_chain)
    places = [theta.index(rv) for rv in process.theta]
    process.compile(Xnew, [chosen.theta[0][place] for place in places])
    points = PointModel(model, f, process.size, process.inputs, Xnew, given, theta)
    return Setting(process, points, observed, chosen, coordinates)


def _observed(model: pm.Model, f: TensorVariable) -> dict[str, TensorVariable]:
    """The observed variables that depend on f, by name; where observations are missing, the complete ones."""
    found = {}
    for variable in model.observed_RVs:
        if f not in set(ancestors([variable])):
            continue
        name = str(variable.name)
        if isinstance(variable.owner.op, PartialObservedRV):
            found[name.removesuffix("_observed")] = variable.owner.inputs[0]
        else:
            found[name] = variable
    return found
