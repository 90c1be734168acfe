"""The display of a search: evaluations of a density, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from pmgp.core.importance import Density


@contextmanager
def shown(density: Density, words: str, progressbar: bool) -> Iterator[Density]:
    """Yield the density with a display of the number of evaluations and the last value."""
    with Progress(TextColumn("{task.description}"), TimeElapsedColumn(), disable=not progressbar) as progress:
        task = progress.add_task(words, total=None)

        def counted(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = density(theta)
            progress.advance(task)
            done = int(progress.tasks[0].completed)
            progress.update(task, description=f"{words}: evaluation {done}, log-density {value:.2f}")
            return value, gradient

        yield counted
