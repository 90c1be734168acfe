"""Draw docs/_static/crabs.png, the picture of the README and of the front page, from a real run.

Called as ``uv run --group docs python docs/make_picture.py``; takes well under a minute.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import xarray as xr
from matplotlib.axes import Axes

import pmgp

OUT = Path(__file__).parent / "_static" / "crabs.png"
FEATURES = ("RW", "CL")
LABELS = ("rear width (mm)", "carapace length (mm)")
COLORS = ("#d1495b", "#1b7ea3")
MARKERS = ("o", "^")
GRID = 60
# Pages show the picture at seven tenths of its size, where letters should still have nine points.
STYLE = {"font.size": 11.5, "axes.titlesize": 12.5, "axes.spines.top": False, "axes.spines.right": False}

Grid = tuple[np.ndarray, np.ndarray]


def sample_and_predict(raw: np.ndarray, y: np.ndarray, grid: Grid) -> tuple[xr.DataTree, xr.Dataset]:
    """Posterior of the classifier, and its predictions on the grid."""
    standardizer = pmgp.datasets.Standardizer.fit(raw)
    model = pmgp.models.classifier(standardizer.transform(raw), y)
    step = pmgp.PseudoMarginal(model=model, refresh_every=1, latent_moves=5)
    idata = pm.sample(1000, tune=1500, chains=4, cores=2, step=step, model=model, random_seed=1)
    points = np.stack([values.ravel() for values in np.meshgrid(*grid)], axis=1)
    return idata, pmgp.predict(idata, standardizer.transform(points), model=model, draws=400)


def draw_crabs(axes: Axes, raw: np.ndarray, dataset: pmgp.datasets.Dataset) -> None:
    """Scatter the crabs by sex."""
    for label, (color, marker) in enumerate(zip(COLORS, MARKERS, strict=True)):
        points = raw[dataset.y == label].T
        name = dataset.classes[label]
        axes.scatter(*points, s=11, c=color, marker=marker, edgecolors="white", linewidths=0.4, label=name)
    axes.set(xlabel=LABELS[0], ylabel=LABELS[1])


def draw_hyperparameters(axes: Axes, posterior: xr.Dataset) -> None:
    """Scatter the draws of length-scale and variance."""
    for chain in posterior["chain"].to_numpy():
        draws = posterior.sel(chain=chain)
        axes.plot(draws["lengthscale"], draws["variance"], ".", markersize=2.5, alpha=0.35)
    axes.set(xscale="log", yscale="log", xlabel="length-scale (sd of feature)", ylabel="variance of f")
    axes.set_title(f"{posterior['variance'].size} draws, one color per chain")
    axes.set_xticks([0.5, 1, 2], ["0.5", "1", "2"])
    axes.set_yticks([10, 20, 50, 100], ["10", "20", "50", "100"])
    axes.minorticks_off()


def main() -> None:
    """Sample, predict, draw, and say how large the file is."""
    crabs = pmgp.datasets.load("crabs")
    raw = crabs.X[:, [crabs.feature_names.index(name) for name in FEATURES]]
    grid = tuple(np.linspace(column.min() - 2, column.max() + 2, GRID) for column in raw.T)
    idata, prediction = sample_and_predict(raw, crabs.y, grid)
    probability = prediction["probability"].to_numpy().reshape(GRID, GRID)
    spread = np.sqrt(prediction["latent_variance"].to_numpy()).reshape(GRID, GRID)

    with plt.style.context(STYLE):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.7), layout="constrained")
        shown = left.contourf(*grid, probability, levels=np.linspace(0, 1, 21), cmap="RdBu", alpha=0.85)
        lines = [0.1, 0.5, 0.9]
        left.contour(*grid, probability, levels=lines, colors="0.2", linewidths=(0.7, 1.3, 0.7))
        figure.colorbar(shown, ax=left, ticks=lines)
        left.set_title("probability of male")
        shown = middle.contourf(*grid, spread, levels=16, cmap="Purples")
        figure.colorbar(shown, ax=middle, ticks=[2, 4, 6, 8])
        middle.set_title("standard deviation of f")
        for axes in (left, middle):
            draw_crabs(axes, raw, crabs)
        middle.legend(loc="upper left", fontsize=11, framealpha=0.9, handletextpad=0.2, borderpad=0.3)
        draw_hyperparameters(right, idata["posterior"].to_dataset())
        figure.savefig(OUT, dpi=115, pil_kwargs={"optimize": True})
    print(f"{OUT}: {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
