"""What PyMC's progress bar shows of pmgp's step methods."""

from __future__ import annotations

from typing import Any

from rich.progress import TextColumn
from rich.table import Column

__all__ = ["AcceptanceProgress", "EvaluationsProgress", "EvidenceProgress", "ThetaProgress"]


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


class AcceptanceProgress:
    """Mixin of step methods: acceptance rate and step size of the transitions of f."""

    @staticmethod
    def _progressbar_config(n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list[float]]]:
        columns = [
            TextColumn("{task.fields[latent_acceptance]:0.2f}", table_column=Column("Accept f", ratio=1)),
            TextColumn("{task.fields[latent_step]:0.2g}", table_column=Column("Step f", ratio=1)),
        ]
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
        columns = [TextColumn("{task.fields[latent_evaluations]}", table_column=Column("Evaluations", ratio=1))]
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
        columns = [TextColumn("{task.fields[theta_acceptance]:0.2f}", table_column=Column("Accept theta", ratio=1))]
        return columns, {"theta_acceptance": [0.0] * n_chains}

    @staticmethod
    def _make_progressbar_update_functions() -> tuple[Any, ...]:
        def update_stats(step_stats: dict[str, Any]) -> dict[str, float]:
            return {"theta_acceptance": float(step_stats["acceptance_rate"])}

        return (update_stats,)
