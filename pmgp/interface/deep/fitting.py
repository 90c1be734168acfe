"""Training in blocks of steps, each followed by an evaluation of the held-out density and a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from pmgp.core.deep.likelihoods import JaxLikelihood
from pmgp.core.deep.network import Network
from pmgp.core.deep.training import Stage, advance, begin, predictive_density
from pmgp.core.tiles.devices import by_rows, everywhere, here
from pmgp.interface.deep.checkpoint import load, store
from pmgp.interface.deep.configuration import starts_of, value_at

HELDOUT_SAMPLES = 50


@dataclass(frozen=True)
class Plan:
    """The settings and the length of training, named as in `RandomFeatureGP`."""

    steps: int
    batch_size: int
    learning_rate: float | Mapping[int, float]
    frozen_steps: int
    samples: int | Mapping[int, int]
    evaluate_every: int
    patience: int | None

    def stage(self, step: int) -> Stage:
        """Return the steps from one step to the next evaluation, or to a change of the samples or the rate."""
        changes = [*starts_of(self.samples), *starts_of(self.learning_rate), self.next_evaluation(step)]
        length = min(change for change in changes if change > step) - step
        samples, rate = value_at(step, self.samples), value_at(step, self.learning_rate)
        return Stage(length, samples, self.batch_size, rate, self.frozen_steps)

    def next_evaluation(self, step: int) -> int:
        """Return the step after which the held-out density is evaluated next."""
        return min(step + self.evaluate_every - step % self.evaluate_every, self.steps)

    def ends(self, history: list[dict[str, float]]) -> bool:
        """Return whether all steps are taken, or the held-out density has not risen for `patience` evaluations.

        Evaluations are counted from the step at which the hyper-parameters begin to move. Without observations that are
        held out, all steps are taken.
        """
        if not history:
            return False
        if history[-1]["step"] >= self.steps:
            return True
        free = [one["heldout"] for one in history if one["step"] > self.frozen_steps and not np.isnan(one["heldout"])]
        return self.patience is not None and len(free) > self.patience + int(np.argmax([*free, -np.inf]))


@dataclass(frozen=True)
class Problem:
    """A network, its likelihood, and the arrays for its training and evaluation."""

    network: Network
    likelihood: JaxLikelihood
    frozen: list[Any]
    X: Any
    y: Any
    X_heldout: Any
    y_heldout: Any
    key: Any
    mesh: Any = None

    def everywhere(self) -> Problem:
        """Return the problem with its arrays on all devices of the mesh."""
        names = ("frozen", "X", "y", "X_heldout", "y_heldout", "key")
        return replace(self, **everywhere({name: getattr(self, name) for name in names}, self.mesh))

    def heldout(self, parameters: Any) -> Any:
        """Return the mean log predictive density of the held-out data, or NaN without such data."""
        if not len(self.y_heldout):
            return jnp.nan
        held = (self.X_heldout, self.y_heldout, jax.random.fold_in(self.key, 2**32 - 1))
        return jnp.mean(
            predictive_density(self.network, self.likelihood, parameters, self.frozen, *held, HELDOUT_SAMPLES)
        )


def train(
    problem: Problem, plan: Plan, checkpoint: Path | None, mark: str, progressbar: bool
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """Return the best parameters on held-out data, or the last ones without such data, and the history.

    An entry of the history has the step, and the bound and the held-out log density in nats per observation.
    """
    state = begin(problem.network, problem.likelihood, problem.X)
    carried: dict[str, Any] = {"state": state, "best": state.parameters, "score": jnp.asarray(-jnp.inf)}
    problem, carried = problem.everywhere(), everywhere(carried, problem.mesh)
    history: list[dict[str, float]] = []
    if checkpoint is not None and checkpoint.exists():
        carried, history = load(checkpoint, carried, mark)
        carried = everywhere(carried, problem.mesh)
    with _progress(progressbar) as progress:
        report = _reporter(progress, plan.steps)
        while not plan.ends(history):
            carried, entry = _block(problem, plan, carried)
            history.append(entry)
            if checkpoint is not None:
                store(checkpoint, carried, history, mark)
            report(entry)
    return here(carried["best"], problem.mesh), history


def _block(problem: Problem, plan: Plan, carried: dict[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    state, data, total = carried["state"], (problem.X, problem.y, problem.key), 0.0
    first = step = int(state.step)
    while step < plan.next_evaluation(first):
        stage = plan.stage(step)._replace(sharding=by_rows(problem.mesh))
        state, bound = advance(problem.network, problem.likelihood, stage, state, problem.frozen, *data)
        step, total = step + stage.length, total + stage.length * float(bound)
    heldout = problem.heldout(state.parameters)
    entry = {"step": step, "bound": total / (step - first) / len(problem.y), "heldout": float(heldout)}
    if not np.isfinite(entry["bound"]):
        raise FloatingPointError(
            f"the bound is {entry['bound']} in the steps before {entry['step']}: "
            f"lower learning_rate={plan.learning_rate}, standardize X and y, or use dtype='float64'"
        )
    # Without held-out data, or before it has a density, the last parameters are the best.
    if heldout > carried["score"] or not jnp.isfinite(carried["score"]):
        carried = carried | {"best": state.parameters, "score": heldout}
    return carried | {"state": state}, entry


def _reporter(progress: Progress, steps: int) -> Callable[[dict[str, float]], None]:
    task = progress.add_task("fit", total=steps, bound=np.nan, heldout=np.nan)
    return lambda entry: progress.update(task, completed=entry["step"], bound=entry["bound"], heldout=entry["heldout"])


class _Speed(ProgressColumn):
    """A column that shows steps per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f} steps/s" if task.speed else "")


def _progress(shown: bool) -> Progress:
    """Return rich's progress bar, whose tasks have the fields `bound` and `heldout`, in nats per observation."""
    return Progress(
        TextColumn("bound {task.fields[bound]:.3f}, held out {task.fields[heldout]:.3f}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Speed(),
        TimeRemainingColumn(),
        disable=not shown,
    )
