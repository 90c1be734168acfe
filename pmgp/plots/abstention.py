"""Accuracy and AUC against the degree of abstention, which show whether confident predictions are right."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from pmgp import scores
from pmgp.plots.style import WIDTH, style

TITLES = {"accuracy": "accuracy", "auc": "AUC"}


def abstention(y: ArrayLike, probability: ArrayLike | Mapping[str, ArrayLike]) -> Figure:
    """Plot accuracy and AUC against the degree of abstention (Filippone and Girolami 2014, figure 5).

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels 0 and 1.
    probability : array_like of shape (n,), or mapping of str to such arrays
        Predicted probabilities of label 1 from one classifier, or from several by name.

    Raises
    ------
    ValueError
        As in `pmgp.scores.abstention_curve`.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> probability = rng.uniform(size=200)
    >>> y = (rng.uniform(size=200) < probability).astype(int)
    >>> figure = pmgp.plots.abstention(y, {"calibrated": probability, "hesitant": 0.25 + probability / 2})
    """
    by_name = probability if isinstance(probability, Mapping) else {"": probability}
    with style():
        figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 0.42 * WIDTH), sharex=True)
        for axes, score in zip(panels, TITLES, strict=True):
            for name, predicted in by_name.items():
                _draw(axes, scores.abstention_curve(y, predicted, score), name)
            axes.set(
                xlabel="degree of abstention", ylabel=f"{TITLES[score]} of the predictions made", xlim=(-0.02, 1.02)
            )
            axes.legend(title=f"capacity {TITLES[score]}", loc="best")
    return figure


def _draw(axes: Axes, curve: scores.AbstentionCurve, name: str) -> None:
    label = f"{name}  {curve.area:.3f}" if name else f"{curve.area:.3f}"
    axes.plot(curve.abstention, curve.score, marker=".", markersize=4, label=label)
