"""Columns of pmgp's step methods in PyMC's progress bar.

PyMC divides the terminal's width among all columns. In a narrow terminal pmgp adds none, because PyMC's own times would
be cut off.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import TextColumn
from rich.table import Column

# Width of a terminal, in characters, in which PyMC's columns leave room for others.
WIDE_ENOUGH = 96


def _columns(**shown: tuple[str, str]) -> list[TextColumn]:
    """Return a column with a header and a format for each field, or none in a narrow terminal."""
    if Console().width < WIDE_ENOUGH:
        return []
    return [
        TextColumn(f"{{task.fields[{field}]{form}}}", table_column=Column(header, ratio=1))
        for field, (header, form) in shown.items()
    ]


class EvidenceProgress:
    """Mixin of step methods: acceptance rate and log marginal likelihood in the progress bar."""

    @staticmethod
    def _progressbar_config(n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list[float]]]:
        columns = _columns(acceptance=("Accept", ":0.2f"), log_evidence=("log p(y)", ":0.1f"))
        return columns, {"acceptance": [0.0] * n_chains, "log_evidence": [0.0] * n_chains}

    @staticmethod
    def _make_progressbar_update_functions() -> tuple[Any, ...]:
        averages: dict[str, float] = {}

        def update_stats(step_stats: dict[str, Any]) -> dict[str, float]:
            # A running mean over about fifty iterations of all chains, as PyMC does not say which chain they are from.
            rate = averages.get("rate", float(step_stats["acceptance_rate"]))
            averages["rate"] = rate + 0.02 * (float(step_stats["acceptance_rate"]) - rate)
            return {"acceptance": averages["rate"], "log_evidence": float(step_stats["log_marginal_likelihood"])}

        return (update_stats,)


class AcceptanceProgress:
    """Mixin of step methods: acceptance rate and step size of the transitions of f."""

    @staticmethod
    def _progressbar_config(n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list[float]]]:
        columns = _columns(latent_acceptance=("Accept f", ":0.2f"), latent_step=("Step f", ":0.2g"))
        return columns, {"latent_acceptance": [0.0] * n_chains, "latent_step": [0.0] * n_chains}

    @staticmethod
    def _make_progressbar_update_functions() -> tuple[Any, ...]:
        def update_stats(step_stats: dict[str, Any]) -> dict[str, float]:
            return {
                "latent_acceptance": float(step_stats["acceptance_rate"]),
                "latent_step": float(step_stats["step_size"]),
            }

        return (update_stats,)


class EvaluationsProgress:
    """Mixin of step methods: likelihood evaluations of a transition of f."""

    @staticmethod
    def _progressbar_config(n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list[float]]]:
        columns = _columns(latent_evaluations=("Evaluations", ""))
        return columns, {"latent_evaluations": [0] * n_chains}

    @staticmethod
    def _make_progressbar_update_functions() -> tuple[Any, ...]:
        def update_stats(step_stats: dict[str, Any]) -> dict[str, int]:
            return {"latent_evaluations": int(step_stats["n_evaluations"])}

        return (update_stats,)


class ThetaProgress:
    """Mixin of step methods: acceptance rate of the transitions of theta."""

    @staticmethod
    def _progressbar_config(n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list[float]]]:
        columns = _columns(theta_acceptance=("Accept theta", ":0.2f"))
        return columns, {"theta_acceptance": [0.0] * n_chains}

    @staticmethod
    def _make_progressbar_update_functions() -> tuple[Any, ...]:
        def update_stats(step_stats: dict[str, Any]) -> dict[str, float]:
            return {"theta_acceptance": float(step_stats["acceptance_rate"])}

        return (update_stats,)
