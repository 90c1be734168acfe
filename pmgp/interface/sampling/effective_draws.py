"""The length of a run for a given number of effective draws, and the progress bar towards it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import xarray as xr
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pmgp.interface.sampling.report import convergence

# Estimates from a few draws are rough, so runs grow in steps that are neither too small nor too bold.
LEAST_GROWTH, MOST_GROWTH = 1.25, 4.0
MARGIN = 1.1


def effective(idata: xr.DataTree) -> float:
    """Return the smallest effective sample size, bulk or tail, over all variables, or zero if it is not known."""
    found = convergence(idata["posterior"].to_dataset())
    return 0.0 if found is None else found.ess


def enough(idata: xr.DataTree, ess: float) -> bool:
    """Return whether the draws reach the required effective sample size."""
    return effective(idata) >= ess


def more_draws(idata: xr.DataTree, ess: float) -> int:
    """Return the next number of draws for each chain: a little more than enough at the rate observed so far."""
    draws, now = idata["posterior"].sizes["draw"], effective(idata)
    growth = MARGIN * ess / now if now > 0.0 else MOST_GROWTH
    return math.ceil(draws * min(max(growth, LEAST_GROWTH), MOST_GROWTH))


class EffectiveDraws:
    """A progress bar over effective draws, which `pymc.sample` calls with every draw.

    Their number is measured between two calls of `pymc.sample`; in the meantime the bar extrapolates the rate so far.
    `ess` is the goal.
    """

    def __init__(self, progress: Progress, ess: float) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=ess, words="")

    def begin(self, idata: xr.DataTree, draws: int, tune: int) -> None:
        """Start from the draws so far, on the way to the given number of draws of each chain."""
        sizes = idata["posterior"].sizes
        self._known = effective(idata)
        self._rate = self._known / (sizes["chain"] * sizes["draw"])
        self._first, self._made = tune + sizes["draw"], 0
        self._show(self._known, f"{sizes['draw']} draws per chain, continuing to {draws}")

    def __call__(self, trace: Any, draw: Any) -> None:
        """Count a new draw, as `pymc.sample`'s ``callback``."""
        if draw.draw_idx >= self._first:
            self._made += 1
            self._progress.update(self._task, completed=self._known + self._rate * self._made)

    def end(self, idata: xr.DataTree) -> None:
        """Show the effective sample size that was reached."""
        self._show(effective(idata), f"{idata['posterior'].sizes['draw']} draws per chain")

    def _show(self, completed: float, words: str) -> None:
        self._progress.update(self._task, completed=completed, words=words)


@contextmanager
def progress_towards(ess: float, shows: bool) -> Iterator[EffectiveDraws]:
    """Show a progress bar during the block, unless `shows` is false."""
    columns = (
        TextColumn("Effective draws"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with Progress(*columns, disable=not shows) as progress:
        yield EffectiveDraws(progress, ess)
