"""A data set made ready to be sampled: loaded, split, standardized, with its model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmgp.app.settings import RunError, Settings
from pmgp.app.tasks import TASKS, Inducing, Task
from pmgp.datasets import Dataset, Standardizer, load, read_csv, train_test_split

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["Problem", "prepare"]


class Problem(NamedTuple):
    """What is to be sampled and predicted.

    ``X_train`` (n, d) and ``X_test`` (m, d) are standardized, and so are the ``inducing`` inputs, which are None for
    the exact chain; ``model`` is that of the training part.
    """

    settings: Settings
    task: Task
    dataset: Dataset
    train: Dataset
    test: Dataset
    X_train: NDArray[np.float64]
    X_test: NDArray[np.float64]
    inducing: Inducing
    model: pm.Model

    @property
    def notices(self) -> list[str]:
        """What a reader has to know of the data and of the model."""
        return [*self.dataset.notices, *_approximated(self)]


def prepare(settings: Settings) -> Problem:
    """Load and split the data, standardize on the training part only, and build the model.

    Raises
    ------
    DatasetError
        As :func:`pmgp.datasets.load`, :func:`pmgp.datasets.read_csv` and the split.
    RunError
        If the data set has a name and no two classes, or fewer different points than there are to be inducing inputs.
    """
    task = TASKS[settings.likelihood]
    dataset = _load(settings, task)
    train, test = train_test_split(dataset, settings.test_fraction, settings.seed)
    standardizer = Standardizer.fit(train.X, train.categories)
    X_train, X_test = standardizer.transform(train.X), standardizer.transform(test.X)
    inducing = _inducing(settings, X_train)
    model = task.model(X_train, train, settings.kernel, settings.likelihood, inducing)
    return Problem(settings, task, dataset, train, test, X_train, X_test, inducing, model)


def _inducing(settings: Settings, X: NDArray[np.float64]) -> Inducing:
    """Centers of clusters; None for the exact chain."""
    from pmgp.interface.recommendation import MANY_POINTS
    from pmgp.interface.sparse import select_inducing, suggested_number

    different = len(np.unique(X, axis=0))
    number = settings.sparse
    if number is None:
        number = 0 if len(X) < MANY_POINTS else min(suggested_number(len(X)), different)
    if number > different:
        raise RunError(f"--sparse {number} asks for more inducing inputs than there are different points, {different}")
    return select_inducing(X, number, random_seed=settings.seed) if number else None


def _approximated(problem: Problem) -> list[str]:
    """Say that the run is an approximation, and why."""
    if problem.inducing is None:
        return []
    settings, n = problem.settings, problem.train.n
    said = f"{n} training points are seen through {len(problem.inducing)} inducing inputs"
    if not settings.sparse:
        said += ", since the exact chain takes more than five minutes for so many (--sparse 0 runs it)"
    said += ": what is sampled is an approximation, and not the posterior"
    if settings.likelihood == "multinomial":
        said += "; classes are by the largest latent value, and not by softmax"
    return [said]


def _load(settings: Settings, task: Task) -> Dataset:
    """Load by name or from a file; what looks like neither gets the error that lists the names."""
    path = Path(settings.data)
    if settings.is_named or not (path.suffix or path.is_file()):
        dataset = load(settings.data)
        if dataset.classes is None:
            what = "has raw outputs, the target of a regression" if dataset.y is not None else "is a point pattern"
            raise RunError(f"{dataset.name} has no two classes: it {what}. Write its model in PyMC")
        return dataset
    return read_csv(
        path,
        settings.label,
        kind=task.kind,
        features=settings.features or None,
        drop=settings.drop,
        order=settings.order or None,
        exposure=settings.exposure,
        header=settings.header,
        missing=settings.missing,
    )
