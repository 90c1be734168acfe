"""Values that the discrete hyper-parameters may take, at which the structure of a likelihood is examined.

An unknown lag, for example, decides which latent value an observation depends on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.compilation import INTERPRETED

# Draws from the prior: as many as have so many elements together, within bounds; and rows that are chosen from them.
ELEMENTS, FEWEST_DRAWS, MOST_DRAWS = 200_000, 20, 1000
MOST = 16


def discrete_values(model: pm.Model, values: Sequence[TensorVariable], initial: np.ndarray) -> np.ndarray:
    """Return rows of values of the discrete elements of theta, in the order of `values`: (k, elements).

    They are the initial values plus and minus one, which the prior may exclude, and draws from the prior, if they have
    a value that no row before has.
    """
    if not len(initial):
        return np.empty((0, 0))
    drawn = _drawn(model, values, int(np.clip(ELEMENTS // len(initial), FEWEST_DRAWS, MOST_DRAWS)))
    return _different(np.array([initial + 1.0, initial - 1.0, *drawn]))


def _drawn(model: pm.Model, values: Sequence[TensorVariable], draws: int) -> np.ndarray:
    """Return draws from the prior, none if a flat prior has none."""
    rvs = [model.values_to_rvs[value] for value in values]
    try:
        drawn = pm.draw(rvs, draws=draws, random_seed=0, mode=INTERPRETED)
    except NotImplementedError:
        return np.empty((0, sum(int(np.prod(model.eval_rv_shapes()[rv.name])) for rv in rvs)))
    return np.concatenate([one.reshape(draws, -1) for one in drawn], axis=1).astype(float)


def _different(rows: np.ndarray) -> np.ndarray:
    """Return the first rows in which an element has a value that it has in none before, at most `MOST`."""
    seen: set[tuple[int, float]] = set()
    chosen: list[np.ndarray] = []
    for row in rows:
        if len(chosen) < MOST and (new := set(enumerate(row.tolist())) - seen):
            chosen.append(row)
            seen |= new
    return np.array(chosen)
