"""The common part of predictions and draws at new inputs: the model there, and the posterior draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import PartialObservedRV
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.type_other import NoneConst
from pytensor.tensor.variable import TensorVariable
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from pmgp.core.iterative.settings import Iterative, solver_of
from pmgp.core.iterative.solvers import watched
from pmgp.core.numerics.threads import threads_limited
from pmgp.interface.covariance.tiled import LARGEST_WHOLE
from pmgp.interface.graphs.compilation import making_graphs
from pmgp.interface.model.context import current_model
from pmgp.interface.model.latent_variable import find_latents, have_rows, is_dense, refuse_time_series
from pmgp.interface.model.observed_normal import gaussian_observations, observed_values
from pmgp.interface.model.posterior import check_inputs_unchanged
from pmgp.interface.model.tiled_prior import refuse_constant_inputs
from pmgp.interface.model.time_series import is_process
from pmgp.interface.prediction.covariates import check_at, check_inputs
from pmgp.interface.prediction.known_process import known_processes
from pmgp.interface.prediction.latent_processes import GivenTheta, LatentProcesses
from pmgp.interface.prediction.latent_rows import LatentRows
from pmgp.interface.prediction.point_function import PointModel
from pmgp.interface.prediction.posterior import Draws, checked_posterior, evenly_spaced
from pmgp.interface.prediction.rules import NotPointwiseError

FORECAST = (
    "make it longer, with missing observations (NaN) where there are none yet; its values there, and the observations, "
    "are drawn with the others. A map on a lattice is drawn as a whole, and at points if they are given to its prior"
)


@dataclass
class PredictionTask:
    """Draws of a posterior, with their chains and numbers, the model at new inputs, and its observed variables."""

    processes: LatentProcesses
    points: PointModel
    observed: dict[str, TensorVariable]
    draws: Draws
    coordinates: dict[str, np.ndarray]

    @property
    def rows(self) -> LatentRows:
        """The latent vectors."""
        return self.processes.rows

    def groups(self) -> list[np.ndarray]:
        """Return the indices of draws with equal theta, as far as the processes depend on it."""
        return self.draws.grouped(self._places)

    def noise(self, theta: list[np.ndarray], Xnew: np.ndarray) -> np.ndarray:
        """Return the variances of the noise of multivariate normal observations at new inputs: (m,)."""
        return self.processes.noise([theta[place] for place in self._places], Xnew)

    @property
    def _places(self) -> list[int]:
        """The places of the processes' variables among those of theta."""
        return [self.points.theta.index(rv) for rv in self.processes.theta]

    def conditionals(self, block_size: int | None, progressbar: bool) -> Iterator[tuple[np.ndarray, GivenTheta]]:
        """Yield, for each theta, the indices of its draws, and the processes given it with their latent values.

        The display shows how many are done, and the residual of an iterative solver.
        """
        if block_size is not None and block_size < 1:
            raise ValueError(f"block_size must be at least 1, not {block_size}")
        Xnew = self.points.Xnew
        places = self._places
        size = self.processes.block_size(len(Xnew)) if block_size is None else block_size
        groups = self.groups()
        columns = TextColumn("{task.description}"), BarColumn(20), TaskProgressColumn(), TimeRemainingColumn()
        with Progress(*columns, disable=not progressbar) as progress:
            task = progress.add_task("Predicting", total=len(groups))
            with watched(lambda residual: progress.update(task, description=f"Predicting: {residual}")):
                for indices in groups:
                    theta = self.draws.theta[indices[0]]
                    f = self.draws.f.take(indices, axis=1)
                    yield indices, self.processes.given([theta[place] for place in places], f, Xnew, size)
                    progress.advance(task)

    def understood[T](self, what: str, find: Callable[[TensorVariable], T]) -> dict[str, T]:
        """Find a result for each observed variable; a single warning names the variables without one, and why."""
        found, reasons = {}, []
        for name, variable in self.observed.items():
            try:
                found[name] = find(variable)
            except NotPointwiseError as error:
                reasons.append(f"of {name!r}, {error}")
        if not self.observed:
            reasons = [f"no observed variable depends on {self.rows.name}"]
        if reasons:
            which = "for some variables" if found else f"only {self.rows.name}"
            warnings.warn(f"{what} cannot be given at the new inputs, {which}: {'; '.join(reasons)}", stacklevel=3)
        return found


@threads_limited(1)
@making_graphs()
def prepare(
    idata: Any,
    Xnew: Any,
    model: pm.Model | None,
    latent: Any,
    at: Any,
    draws: int | None,
    gp: Any,
    by_chain: bool = False,
    solver: Iterative | str = "auto",
) -> PredictionTask:
    """Check all arguments, and take the model apart."""
    model = current_model(model)
    latents = find_predicted(model, latent)
    refuse_time_series([rv for rv in latents if not is_process(rv)], "predictions at new inputs", FORECAST)
    known = latents[0] not in model.observed_RVs
    rows = LatentRows(latents) if known else LatentRows(latents, observed_values(model, latents[0]))
    observed = observed_below(model, rows.variables) if known else {}
    chosen_solver = _solver(solver, rows)
    if chosen_solver is not None:
        refuse_constant_inputs(model)
    needed = set(ancestors([*rows.variables, *observed.values()]))
    theta = [rv for rv in model.free_RVs if rv not in rows.variables and rv in needed]
    posterior = checked_posterior(idata, rows, theta, model)
    of_processes = set(ancestors(rows.variables))
    of_theta = [rv for rv in theta if rv in of_processes]
    processes = LatentProcesses(rows, of_theta, known_processes(gp), chosen_solver)
    check_inputs_unchanged(idata, processes.sources)
    vector_of_times = is_process(latents[0]) and np.ndim(Xnew) == 1
    Xnew = check_inputs(np.reshape(Xnew, (-1, 1)) if vector_of_times else Xnew, processes.X)
    given = check_at(at, model, rows.name, processes.inputs, list(observed.values()))
    chosen, coordinates = evenly_spaced(posterior, rows, theta, draws, by_chain)
    places = [theta.index(rv) for rv in processes.theta]
    processes.compile(Xnew, [chosen.theta[0][place] for place in places])
    points = PointModel(model, rows, processes.inputs, Xnew, given, theta)
    return PredictionTask(processes, points, observed, chosen, coordinates)


def find_predicted(model: pm.Model, latent: Any) -> list[TensorVariable]:
    """Return the latent variables that are predicted, or else multivariate normal observations of a process."""
    observed = gaussian_observations(model) if latent is None else None
    return find_latents(model, latent) if observed is None else [observed]


def of_rows(model: pm.Model, latents: list[TensorVariable], Xnew: Any) -> bool:
    """Return whether predictions are made for the rows of the model's data: without Xnew, or without inputs."""
    return have_rows(latents) or (Xnew is None and all(is_dense(rv) and rv in model.free_RVs for rv in latents))


def _solver(given: Iterative | str, rows: LatentRows) -> Iterative | None:
    """Return settings of iterative solvers, or None for a factorization."""
    solver = solver_of(given, rows.size, LARGEST_WHOLE)
    if rows.observed is not None:
        return solver
    if solver is None or given == "auto":
        return None
    raise ValueError(
        f"the model has draws of {rows.name} in its posterior, whose covariance has no noise, so linear systems with "
        'it are not solved iteratively: solver="iterative" is for multivariate normal observations'
    )


def observed_below(model: pm.Model, latents: list[TensorVariable]) -> dict[str, TensorVariable]:
    """Return the observed variables that depend on f, by name; with missing observations, the complete variable."""
    found = {}
    for variable in model.observed_RVs:
        if not set(latents) & set(ancestors([variable])):
            continue
        name = str(variable.name)
        # A mask of the user's own stays: only here are there rows that PyMC has taken out.
        if f"{name.removesuffix('_observed')}_unobserved" in model.named_vars:
            found[name.removesuffix("_observed")] = _complete(variable)
        else:
            found[name] = variable
    return found


def _complete(observed: TensorVariable) -> TensorVariable:
    """Return an observed variable with the rows that PyMC has taken out of it."""
    op = observed.owner.op
    if isinstance(op, PartialObservedRV):
        return observed.owner.inputs[0]
    parameters = [_without_mask(parameter) for parameter in op.dist_params(observed.owner)]
    return op.make_node(pt.random.shared_rng(seed=None), NoneConst, *parameters).outputs[1]


def _without_mask(parameter: TensorVariable) -> TensorVariable:
    """Return what a parameter of the observed rows was selected from, if a mask has selected it."""
    node = parameter.owner
    if node is None or not isinstance(node.op, AdvancedSubtensor) or len(node.inputs) != 2:
        return parameter
    return node.inputs[0] if node.inputs[1].type.dtype == "bool" else parameter
