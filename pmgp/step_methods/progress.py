"""What PyMC's progress bar shows of a chain that estimates p(y|theta)."""

from __future__ import annotations

from typing import Any

from rich.progress import TextColumn
from rich.table import Column

__all__ = ["EvidenceProgress"]


class EvidenceProgress:
    """Mixin of step methods: acceptance rate and log marginal likelihood in the progress bar."""

    @staticmethod
    def _progressbar_config(n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list[float]]]:
        columns = [
            TextColumn("{task.fields[acceptance]:0.2f}", table_column=Column("Accept", ratio=1)),
            TextColumn("{task.fields[log_evidence]:0.1f}", table_column=Column("log p(y)", ratio=1)),
        ]
        return columns, {"acceptance": [0.0] * n_chains, "log_evidence": [0.0] * n_chains}

    @staticmethod
    def _make_progressbar_update_functions() -> tuple[Any, ...]:
        averages: dict[str, float] = {}

        def update_stats(step_stats: dict[str, Any]) -> dict[str, float]:
            # A running mean over some fifty iterations; PyMC does not say whose they are, so of all chains together.
            rate = averages.get("rate", float(step_stats["acceptance_rate"]))
            averages["rate"] = rate + 0.02 * (float(step_stats["acceptance_rate"]) - rate)
            return {"acceptance": averages["rate"], "log_evidence": float(step_stats["log_marginal_likelihood"])}

        return (update_stats,)
