"""Columns of pmgp's step methods in PyMC's progress bar.

PyMC divides the terminal's width among all columns. In a narrow terminal pmgp adds none, because PyMC's own times would
be cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rich.console import Console
from rich.progress import TextColumn
from rich.table import Column

# Width of a terminal, in characters, in which PyMC's columns leave room for others.
WIDE_ENOUGH = 96


class ShownProgress:
    """A mixin of step methods that shows sample statistics in the progress bar."""

    # For each column its header, a format, and the statistic.
    _shown: ClassVar[dict[str, tuple[str, str, str]]]

    @classmethod
    def _progressbar_config(cls, n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list[float]]]:
        columns = [
            TextColumn(f"{{task.fields[{field}]{form}}}", table_column=Column(header, ratio=1))
            for field, (header, form, _) in cls._shown.items()
        ]
        return columns if Console().width >= WIDE_ENOUGH else [], {field: [0] * n_chains for field in cls._shown}

    @classmethod
    def _make_progressbar_update_functions(cls) -> tuple[Callable[[dict[str, Any]], dict[str, Any]], ...]:
        return (lambda stats: {field: stats[name] for field, (_, _, name) in cls._shown.items()},)


class EvidenceProgress(ShownProgress):
    """Acceptance rate and log marginal likelihood in the progress bar."""

    _shown: ClassVar = {
        "acceptance": ("Accept", ":0.2f", "acceptance_rate"),
        "log_evidence": ("log p(y)", ":0.1f", "log_marginal_likelihood"),
    }

    @classmethod
    def _make_progressbar_update_functions(cls) -> tuple[Callable[[dict[str, Any]], dict[str, Any]], ...]:
        (shown,) = super()._make_progressbar_update_functions()
        averages: dict[str, float] = {}

        def update_stats(stats: dict[str, Any]) -> dict[str, Any]:
            # A running mean over about fifty iterations of all chains, as PyMC does not say which chain they are from.
            rate = averages.get("rate", stats["acceptance_rate"])
            averages["rate"] = rate + 0.02 * (stats["acceptance_rate"] - rate)
            return shown(stats) | {"acceptance": averages["rate"]}

        return (update_stats,)


class AcceptanceProgress(ShownProgress):
    """Acceptance rate and step size of the transitions of f in the progress bar."""

    _shown: ClassVar = {
        "latent_acceptance": ("Accept f", ":0.2f", "acceptance_rate"),
        "latent_step": ("Step f", ":0.2g", "step_size"),
    }


class EvaluationsProgress(ShownProgress):
    """Likelihood evaluations of a transition of f in the progress bar."""

    _shown: ClassVar = {"latent_evaluations": ("Evaluations", "", "n_evaluations")}


class ThetaProgress(ShownProgress):
    """Acceptance rate of the transitions of theta in the progress bar."""

    _shown: ClassVar = {"theta_acceptance": ("Accept theta", ":0.2f", "acceptance_rate")}
