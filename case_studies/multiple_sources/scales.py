"""How large the study is: a quick version of it, and a longer one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["FOLDS", "SCALES", "Scale"]

FOLDS = 4


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Parameters
    ----------
    name : str
    seed : int
    data : tuple of str
        With several sources, classified.
    sampled : tuple of str
        Those of them on which samplers are compared.
    one_source : tuple of str
        Data with one source, on which classifiers are compared.
    tune, draws : int
        Iterations of each chain whose predictions are averaged.
    chains, chain_tune, chain_draws : int
        Chains and iterations of each sampler that is compared.
    checkpoints : tuple of int
        Numbers of draws at which R-hat is computed; the last is all of them.
    """

    name: str
    seed: int
    data: tuple[str, ...]
    sampled: tuple[str, ...]
    one_source: tuple[str, ...]
    tune: int
    draws: int
    chains: int
    chain_tune: int
    chain_draws: int
    checkpoints: tuple[int, ...]

    def settings(self) -> dict[str, Any]:
        """Settings that a finished unit depends on besides its own fields."""
        chosen = ("name", "seed", "tune", "draws", "chains", "chain_tune", "chain_draws", "checkpoints")
        return {name: value for name, value in asdict(self).items() if name in chosen}


SCALES = {
    "quick": Scale(
        "quick", 2012, ("mfeat-4-60", "nutrimouse", "regions", "mfeat-10-200"), ("nutrimouse", "mfeat-4-60"),
        ("iris", "wine", "glass"), 300, 1000, 2, 500, 1000, (10, 30, 100, 300, 1000),
    ),
    "paper": Scale(
        "paper", 2012, ("mfeat-4-60", "nutrimouse", "regions", "mfeat-10-200"),
        ("nutrimouse", "mfeat-4-60", "mfeat-10-200"), ("iris", "wine", "glass"),
        1000, 4000, 10, 5000, 10_000, (100, 300, 1000, 3000, 10_000),
    ),
}  # fmt: skip
