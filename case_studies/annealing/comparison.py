"""The chains in the shape of Table I, beside the article's numbers; the spread of the estimates; what was run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from case_studies.annealing import results, study
from case_studies.annealing.problems import KERNELS, REAL
from case_studies.annealing.study import OURS, SPREADS, Block, Chain, Scale

__all__ = ["beside_article", "by_method", "by_size", "coverage", "gains", "spreads", "summarized", "table"]

CELL = ["data", "kernel", "q", "estimator", "n_imp"]
SETTING = ["kernel", "n_imp", "data", "estimator"]
DASH = "–"


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """As the article has data, kernels and methods."""
    return frame.sort_index(key=lambda level: level.map(lambda name: results.ORDER.get(name, name)))


def summarized(chains: pd.DataFrame) -> pd.DataFrame:
    """Each cell's acceptance rate in percent and ESS, mean and standard deviation over its chains.

    Indexed by data, kernel, q, estimator and n_imp. `preliminary` is the acceptance rate with Laplace's evidence, in
    percent, and `seconds` of processor time are for all draws of one chain. One chain has no standard deviation.
    """
    groups = chains.assign(acceptance=100.0 * chains["acceptance"]).groupby(CELL)
    summary = groups[["acceptance", "ess", "seconds"]].mean()
    summary = summary.rename(columns={"acceptance": "acceptance_mean", "ess": "ess_mean"})
    summary["acceptance_sd"], summary["ess_sd"] = groups["acceptance"].std(), groups["ess"].std()
    summary["preliminary"] = 100.0 * groups["preliminary_acceptance"].mean()
    summary["ess_per_second"] = (chains["ess"] / chains["seconds"]).groupby([chains[name] for name in CELL]).mean()
    return _in_order(summary.assign(chains=groups.size()))


def beside_article(chains: pd.DataFrame) -> pd.DataFrame:
    """The article's cells: ours, and the article's as ``article_mean`` and ``article_sd``, in percent.

    Indexed by kernel, n_imp, data and estimator; not a number where we have no chain.
    """
    cells = summarized(chains[(chains["q"] == "Laplace") & (chains["estimator"] != OURS)])
    article = results.read("article").rename(columns=lambda name: name.replace("acceptance", "article"))
    ours = cells.reset_index().drop(columns="q").set_index(SETTING)
    return _in_order(article.set_index(SETTING)[["article_mean", "article_sd"]].join(ours))


def table(chains: pd.DataFrame) -> pd.DataFrame:
    """Table I: acceptance rates in percent, ours and the article's; [k]: we have k chains and not five."""
    rows = beside_article(chains)
    shown = pd.DataFrame(
        {
            "ours": [
                _printed(mean, sd) + (f" [{count:.0f}]" if count < 5 else "")
                for mean, sd, count in zip(rows["acceptance_mean"], rows["acceptance_sd"], rows["chains"], strict=True)
            ],
            "article": [_printed(*pair) for pair in zip(rows["article_mean"], rows["article_sd"], strict=True)],
        },
        index=rows.index,
    )
    parts = {name: shown.xs(name, level="estimator") for name in ("IS", "AIS")}
    wide = pd.concat(parts, axis=1).reorder_levels(["kernel", "data", "n_imp"])
    index = pd.MultiIndex.from_product([KERNELS, list(REAL), (1, 10)], names=["kernel", "data", "n_imp"])
    return wide.loc[index]


def _printed(mean: float, sd: float) -> str:
    if np.isnan(mean):
        return DASH
    return f"{mean:.1f}" if np.isnan(sd) else f"{mean:.1f} ({sd:.1f})"


def by_method(chains: pd.DataFrame, name: str, digits: int) -> pd.DataFrame:
    """One column of :func:`summarized`, a row for each kernel and data set and a column for each method."""
    cells = summarized(chains)[name].map(lambda value: f"{value:.{digits}f}")
    wide = cells.unstack(["q", "n_imp", "estimator"]).swaplevel()
    columns = [(q, draws, method) for q, method, draws in (*study.METHODS, ("EP", OURS, 0))]
    wide = wide.reindex(columns=pd.MultiIndex.from_tuples(columns, names=["q", "N_imp", "estimator"]))
    return _in_order(wide.astype(object).fillna(DASH))


def gains(chains: pd.DataFrame) -> pd.DataFrame:
    """Factors by which annealing raises acceptance and ESS, for each q and N_imp: medians over data and kernels."""
    cells = summarized(chains)[["acceptance_mean", "ess_mean", "ess_per_second"]]
    plain, annealed = cells.xs("IS", level="estimator"), cells.xs("AIS", level="estimator")
    ratios = pd.DataFrame(annealed / plain).groupby(["q", "n_imp"]).median()
    return _in_order(ratios.set_axis(["acceptance", "ESS", "ESS per second"], axis=1))


def spreads(blocks: pd.DataFrame, name: str = "r") -> pd.DataFrame:
    """Median over the posterior draws of r, or of the seconds that all repetitions took: n down, methods across."""
    wide = blocks.groupby(["n", "start", "estimator"])[name].median().unstack(["start", "estimator"])
    return wide.reindex(columns=pd.MultiIndex.from_tuples(SPREADS, names=["from", "estimator"]))


def by_size(blocks: pd.DataFrame) -> pd.DataFrame:
    """Factors by which annealing lowers the median r and raises the median time of an estimate, for each n."""
    r, seconds = spreads(blocks), spreads(blocks, "seconds")
    columns = {}
    for q in ("Laplace", "EP"):
        columns[q, "r: IS over AIS"] = r[q, "IS"] / r[q, "AIS"]
        columns[q, "time: AIS over IS"] = seconds[q, "AIS"] / seconds[q, "IS"]
    return pd.DataFrame(columns)


def coverage(chains: pd.DataFrame, blocks: pd.DataFrame, scale: Scale) -> pd.DataFrame:
    """How many chains and blocks of the scale there are, and what made them."""
    parts = {"Table I": (chains, Chain, "data"), "Figure 2": (blocks, Block, "n")}
    every = study.units(scale)
    rows = {}
    for part, (frame, kind, name) in parts.items():
        wanted = pd.Series([getattr(unit, name) for unit in every if isinstance(unit, kind)]).value_counts(sort=False)
        wanted = wanted * (1 if kind is Chain else study.BLOCK)
        for place, count in wanted.items():
            there = frame[frame[name] == place]
            machines, versions = ("; ".join(sorted(set(there[key]))) for key in ("machine", "version"))
            rows[part, str(place)] = {"lines": len(there), "of": count, "version": versions, "machine": machines}
    return pd.DataFrame(rows).T
