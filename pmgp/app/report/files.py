"""The files that a run writes: draws, tables, figures, settings and the HTML page."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt

from pmgp.app.folder import NEW, RUN
from pmgp.app.report import html, tables
from pmgp.app.report.figures import pictures

if TYPE_CHECKING:
    import xarray as xr

    from pmgp.app.outcome import Outcome
    from pmgp.datasets import Category, Dataset

RESOLUTION = 140
"""Dots per inch of the figures, sharp at the width of the page on high-resolution screens."""

PACKAGES = ("pmgp", "pymc", "pytensor", "arviz", "numpy", "scipy")


def save_posterior(idata: xr.DataTree, folder: Path) -> None:
    """Write all draws as ``posterior.nc``; ``xarray.open_datatree`` reads them."""
    idata.to_netcdf(folder / "posterior.nc", engine="h5netcdf")


def write(outcome: Outcome, folder: Path) -> None:
    """Write everything except the draws into a folder."""
    tables.summary(outcome, rounded=False).to_csv(folder / "summary.csv", index_label="variable")
    if outcome.predictions is not None:
        outcome.predictions.to_csv(folder / "predictions.csv", index=False)
    if outcome.new is not None:
        outcome.new.to_csv(folder / NEW, index=False)
    if outcome.trend is not None:
        outcome.trend.to_csv(folder / "trend.csv", index=False)
    (folder / RUN).write_text(json.dumps(_finite(record(outcome)), indent=2, allow_nan=False) + "\n")
    figures = []
    for picture in pictures(outcome):
        path = folder / f"{picture.name}.png"
        figure = picture.draw()
        figure.savefig(path, dpi=RESOLUTION)
        plt.close(figure)
        figures.append(html.Embedded(picture.name, picture.title, picture.caption, path))
    page = html.render(outcome, figures, versions())
    (folder / "report.html").write_text(page, encoding="utf-8")


def record(outcome: Outcome) -> dict[str, Any]:
    """Return the content of ``run.json``: settings, versions, timings, cost and scores."""
    settings = asdict(outcome.settings) | {"out": str(outcome.settings.out)}
    return {
        "command": outcome.settings.command(),
        "settings": settings,
        "options": outcome.settings.fixed,
        "data": _data(outcome.problem.dataset),
        "versions": versions(),
        "seconds": outcome.seconds,
        "operations_per_iteration": outcome.operations,
        "efficiency": outcome.efficiency,
        "scores": outcome.scores.model,
        "baseline": outcome.scores.baseline,
        "notices": tables.notices(outcome),
    }


def _finite(value: Any) -> Any:
    """Put None for numbers that JSON does not have: the log loss of frequencies is infinite for a class they lack."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _data(dataset: Dataset) -> dict[str, Any]:
    """Return the meaning of the model's columns and of its label's numbers."""
    return {
        "label": dataset.label,
        "classes": dataset.classes,
        "columns": dataset.feature_names,
        "categories": {
            category.name: dict(zip(category.values, _codes(category), strict=True)) for category in dataset.categories
        },
    }


def _codes(category: Category) -> list[list[int]]:
    """Return the codes of each value of a category, in the order of its columns."""
    if len(category.columns) == 1:
        return [[k] for k in range(len(category.values))]
    return [[int(k == column) for column in range(len(category.values))] for k in range(len(category.values))]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which the results depend."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
