"""The results of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pmgp.app.settings import Settings
from pmgp.app.tasks import Drawn, Problem, Scores

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from pmgp.interface.sampling.report import Report


@dataclass(frozen=True)
class Outcome:
    """Draws, predictions, scores and cost of a run.

    ``predictions`` has one row for each test point; without a test part it is None, and ``scores`` is empty. ``new``
    are predictions of rows without labels, or None. ``verdict`` says whether the draws are reliable, as in the log of
    sampling. ``seconds`` are wall-clock times of the parts of the run. ``diagnosis`` describes the effect of the
    inducing inputs on the posterior and says how many would be enough; it is None for an exact chain. ``trend`` has one
    row for each time of a process in time. ``drawn`` describes draws that were made without a chain; it is None for
    chains.
    """

    problem: Problem
    idata: xr.DataTree
    predictions: pd.DataFrame | None
    scores: Scores
    operations: dict[str, float]
    efficiency: dict[str, float | str]
    seconds: dict[str, float]
    verdict: Report
    diagnosis: str | None = None
    new: pd.DataFrame | None = None
    trend: pd.DataFrame | None = None
    drawn: Drawn | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.problem.settings

    @property
    def shortfall(self) -> str | None:
        """A description of the missing draws, or None for a complete run."""
        sizes = self.idata["posterior"].sizes
        asked = self.settings
        if self.drawn is not None or (sizes["chain"], sizes["draw"]) == (asked.chains, asked.draws):
            return None
        return (
            f"sampling was interrupted: {sizes['chain']} chains of {sizes['draw']} draws instead "
            f"of {asked.chains} of {asked.draws}"
        )
