"""The parts of a run that depend on the kind of label: model, predictions, scores and pictures.

May import: app, models, datasets, scores, plots, diagnostics, interface.
"""

from pmgp.app.tasks.base import Drawn, Inducing, Picture, Problem, Scores, Task
from pmgp.app.tasks.binary import BinaryTask
from pmgp.app.tasks.categorical import ClassTask, OrdinalTask
from pmgp.app.tasks.counts import CountTask
from pmgp.app.tasks.measurements import RegressionTask

__all__ = ["TASKS", "Drawn", "Inducing", "Picture", "Problem", "Scores", "Task"]

TASKS: dict[str, Task] = {
    "probit": BinaryTask(),
    "logit": BinaryTask(),
    "poisson": CountTask(),
    "ordinal": OrdinalTask(),
    "multinomial": ClassTask(),
    "normal": RegressionTask(),
}
"""The task of each likelihood."""
