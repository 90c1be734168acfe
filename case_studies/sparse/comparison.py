"""The runs beside the article's numbers; what was run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from case_studies.sparse import results, study
from case_studies.sparse.study import SCALES

__all__ = ["coal", "coverage", "efficiency", "held_out", "image", "mnist", "pines", "toy"]

PUBLISHED_COAL = {"HMC": -1.225, "Gaussian": -1.229}
"""Mean held-out log-likelihoods, over ten splits."""
PUBLISHED_PINES = {("pines 32", "grid"): 3.4, ("pines 32", "all"): 554.0, ("pines 64", "grid"): 4.7}
"""Seconds for an effective draw."""
PUBLISHED_MNIST = pd.DataFrame(
    {"score": [-0.068, -0.064], "right": [98.04, np.nan], "seen": 60_000},
    index=pd.MultiIndex.from_tuples(
        [("ARD", "optimized", 500, "Gaussian, article"), ("ARD", "optimized", 500, "HMC, article")]
    ),
)
"""Held-out log-likelihood of a label, and percent of right ones."""


def coal(fits: pd.DataFrame) -> pd.DataFrame:
    """Held-out log-likelihood of the splits, a column per method, and the mean over them beside the article's."""
    cells = fits[(fits["problem"] == "coal") & (fits["inducing"] == "grid")]
    wide = cells.pivot(index="split", columns="method", values="score")
    means = wide.mean(skipna=False).rename("mean")
    published = pd.Series(PUBLISHED_COAL, name="article").reindex(wide.columns)
    wide.index = wide.index.map("split {}".format)
    return pd.concat([wide, means.to_frame().T, published.to_frame().T])


def efficiency(lines: pd.DataFrame) -> pd.DataFrame:
    """Smallest effective size of a chain, as a number and in percent of its draws, and per second; the article's."""
    key = ["problem", "kernel", "method"]
    cells = lines.drop_duplicates(key).set_index(key)
    ours = pd.DataFrame(
        {
            "points": cells["points"],
            "draws": cells["draws"],
            "ESS": cells["ess"] / cells["chains"],
            "percent": 100.0 * cells["ess"] / (cells["chains"] * cells["draws"]),
            "ESS/s": cells["tn_ess"],
            "with tuning": cells["tn_ess_with_tuning"],
        }
    )
    published = (
        results.read("article").set_index(key).rename(columns={"ess": "article ESS", "tn_ess": "article TN-ESS"})
    )
    return ours.join(published)


def pines(fits: pd.DataFrame) -> pd.DataFrame:
    """Processor seconds for an effective draw of the variable that mixes worst, beside the article's."""
    cells = fits[fits["problem"].str.startswith("pines")].set_index(["problem", "inducing"])
    return pd.DataFrame(
        {
            "method": cells["method"],
            "points": cells["points"],
            "ESS": cells["ess"],
            "of draws": cells["chains"] * cells["draws"],
            "seconds for one": 1.0 / cells["tn_ess"],
            "with tuning": 1.0 / cells["tn_ess_with_tuning"],
            "article": pd.Series(PUBLISHED_PINES),
        }
    ).loc[cells.index]


def image(fits: pd.DataFrame) -> pd.DataFrame:
    """Mean held-out log-likelihood over the splits: rows by kernel, inducing inputs and method, a column for each M."""
    cells = fits[fits["problem"] == "image"]
    return cells.pivot_table(index=["kernel", "inducing", "method"], columns="points", values="score", aggfunc="mean")


def toy(fits: pd.DataFrame) -> pd.DataFrame:
    """Held-out log-likelihood of three Gaussians' labels, share of wrong ones, and effective draws beside all draws."""
    cells = fits[fits["problem"] == "toy"].set_index(["kernel", "inducing", "method"])
    return cells[["score", "score_error", "wrong"]].assign(ESS=cells["ess"], draws=_made(cells))


def mnist(fits: pd.DataFrame) -> pd.DataFrame:
    """The same for digits, with percent of right labels and how many scans were seen; below it the article's."""
    cells = fits[fits["problem"] == "mnist"].set_index(["kernel", "inducing", "points", "method"])
    ours = cells[["score", "score_error"]].assign(
        right=100.0 * (1.0 - cells["wrong"]), seen=cells["seen"], ESS=cells["ess"], draws=_made(cells)
    )
    return pd.concat([ours, PUBLISHED_MNIST.rename_axis(ours.index.names)])


def _made(cells: pd.DataFrame) -> pd.Series:
    """Draws of all chains, where there are chains."""
    return (cells["chains"] * cells["draws"]).where(cells["ess"].notna())


def held_out(lines: pd.DataFrame) -> pd.DataFrame:
    """Held-out log-likelihood by method, and its difference from the exact chain's with the paired standard error.

    Over the splits of a data set: means, and the error of the mean; with inducing inputs also the deviation of the
    penalty for what they leave, where it has been computed. Each split has numbers of its own where the advice on their
    number is `followed` once or twice; that of points is then the mean.
    """
    within = lines.groupby(["problem", "split", "method"])["points"]
    groups = lines.assign(followed=within.rank("dense").astype(int) - 1).groupby(
        ["problem", "method", "followed"], sort=False
    )
    error = groups["difference_error"].apply(lambda errors: float(np.sqrt(np.square(errors).sum()) / len(errors)))
    found = (
        groups[["points", "score", "difference"]]
        .mean()
        .assign(difference_error=error, seconds=groups["seconds"].mean())
    )
    if "penalty_deviation" in lines:
        found = found.assign(penalty_deviation=groups["penalty_deviation"].mean())
    return found.assign(splits=groups.size())


def coverage() -> pd.DataFrame:
    """How many units of each scale there are in tables, and what made them."""
    shown = {}
    for name, scale in SCALES.items():
        every = study.units(scale)
        for kind, place in results.tables(results.FOLDER, name).items():
            if place.path.is_file():
                there = place.read()
                done = len(there[list(kind._fields)].drop_duplicates())  # type: ignore[attr-defined]
                made = {key: "; ".join(sorted(set(there[key]))) for key in ("version", "machine")}
                wanted = sum(isinstance(unit, kind) for unit in every)
                shown[name, results.FILES[kind].replace("_", " ")] = {"units": done, "of": wanted} | made
    return pd.DataFrame(shown).T
