"""Figure 1 of the article for Concrete: iterations, and their ratio to those without a preconditioner."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from case_studies.iterative.study import PRECONDITIONERS

__all__ = ["figure_1", "save"]


def figure_1(table: pd.DataFrame) -> Figure:
    """Iterations by length-scale, a panel for each variance of the noise and a line for each preconditioner."""
    noises = sorted(table["log_noise"].unique(), reverse=True)
    figure, axes = plt.subplots(1, len(noises), figsize=(1.5 + 4.5 * len(noises), 4.0), squeeze=False, sharey=True)
    colors = plt.get_cmap("tab10")(np.linspace(0.0, 1.0, len(PRECONDITIONERS)))
    for ax, log_noise in zip(axes[0], noises, strict=True):
        for name, color in zip(PRECONDITIONERS, colors, strict=True):
            own = table[(table["preconditioner"] == name) & (table["log_noise"] == log_noise)]
            ours = name in ("none", "random pivots")
            ax.plot(own["log_lengthscale"], own["iterations"], color=color, lw=2.5 if ours else 1.2, label=name)
            if "authors" in own:
                ax.plot(own["log_lengthscale"], own["authors"] + 1.0, "x", color=color, ms=5)
        ax.set(yscale="log", xlabel="log10 length-scale", title=f"noise variance 1e{log_noise}")
    axes[0, 0].set_ylabel("products with K")
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8, title="x: the authors'")
    return figure


def save(table: pd.DataFrame, path: Path) -> None:
    """Draw the figure into a file."""
    figure = figure_1(table)
    figure.savefig(path, bbox_inches="tight", dpi=130)
    plt.close(figure)
