"""A data set prepared for sampling: loaded, split, standardized, with its model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pmgp.app.settings import RunError, Settings
from pmgp.app.tasks import TASKS, Inducing, Problem, Task
from pmgp.datasets import Dataset, Standardizer, load, read_csv, read_new_rows, train_test_split


def prepare(settings: Settings) -> Problem:
    """Load and split the data, standardize on the training part only, and build the model."""
    task = TASKS[settings.likelihood]
    dataset = _load(settings, task)
    new = _new_rows(settings, dataset)
    in_time = settings.time is not None
    if in_time:
        train, test = _divided_in_time(dataset, settings.test_fraction)
    else:
        train, test = train_test_split(dataset, settings.test_fraction, settings.seed)
    standardizer = Standardizer.fit(train.X, train.categories)
    X_train = standardizer.transform(train.X)
    inducing = None if in_time or task.kind == "measurements" else _inducing(settings, X_train)
    model = task.model(X_train, train, settings, inducing)
    return Problem(settings, task, dataset, train, test, new, X_train, inducing, model, standardizer)


def _new_rows(settings: Settings, dataset: Dataset) -> Dataset | None:
    if settings.predict is None:
        return None
    missing = None if settings.missing == "median" and settings.time is not None else settings.missing
    return read_new_rows(settings.predict, dataset, exposure=settings.exposure, header=settings.header, missing=missing)


def _divided_in_time(dataset: Dataset, test_fraction: float) -> tuple[Dataset, Dataset]:
    """Divide a data set at a time: the last points are the test part."""
    times = dataset.X[:, 0]
    if len(np.unique(times)) < 3:
        raise RunError(f"column {dataset.feature_names[0]!r} has fewer than three different times")
    order, size = np.argsort(times, kind="stable"), round(test_fraction * dataset.n)
    if size == dataset.n or (test_fraction and not size):
        raise RunError(f"--test-fraction {test_fraction} of {dataset.n} points leaves one of the parts empty")
    return dataset.take(np.sort(order[: dataset.n - size])), dataset.take(np.sort(order[dataset.n - size :]))


def _inducing(settings: Settings, X: NDArray[np.float64]) -> Inducing:
    """Return centers of clusters, or None for the exact chain."""
    from pmgp.interface.recommendation import MANY_POINTS
    from pmgp.interface.sparse import select_inducing, suggested_number

    different = len(np.unique(X, axis=0))
    number = settings.sparse
    if number is None:
        number = 0 if len(X) < MANY_POINTS else min(suggested_number(len(X)), different)
    if number > different:
        raise RunError(f"--sparse {number} asks for more inducing inputs than the {different} different points")
    return select_inducing(X, number, random_seed=settings.seed) if number else None


def _load(settings: Settings, task: Task) -> Dataset:
    """Load a data set by name or from a file; an argument that is neither gets the error that lists the names."""
    path = Path(settings.data)
    if settings.is_named or not (path.suffix or path.is_file()):
        dataset = load(settings.data)
        if dataset.y is None:
            raise RunError(f"{dataset.name} does not have two classes: it is a point pattern. Write its model in PyMC")
        if (task.kind == "measurements") != (dataset.classes is None):
            what, other = (
                ("has two classes", "probit or logit")
                if dataset.classes
                else ("does not have two classes: it has measurements, the target of a regression", "normal")
            )
            raise RunError(f"{dataset.name} {what}. Use --likelihood {other}")
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
        time=settings.time,
    )
