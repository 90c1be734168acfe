"""The progress of a fit: steps, the bound, the held-out density and the speed."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Speed(ProgressColumn):
    """A column that shows steps per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f} steps/s" if task.speed else "")


def fit_progress(shown: bool) -> Progress:
    """Return rich's progress bar, whose tasks have the fields `bound` and `heldout`, in nats per observation."""
    return Progress(
        TextColumn("bound {task.fields[bound]:.3f}, held out {task.fields[heldout]:.3f}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Speed(),
        TimeRemainingColumn(),
        disable=not shown,
    )
