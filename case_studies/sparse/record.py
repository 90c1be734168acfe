"""The record of the article on sampling with inducing inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from case_studies.sparse import comparison, results, study
from case_studies.sparse.study import SCALES, Convergence, Fit, Unit
from case_studies.tools.articles import INDUCING_INPUTS
from case_studies.tools.record import Entry, Finding, Numbers, Share, made_by

__all__ = ["entries"]

STUDY = "/case_studies/sparse"
FITS = [f"sparse/results/{scale}_fits.csv" for scale in ("quick", "paper")]
CONVERGED = 1.1
NEAR = 0.005
"""Mean held-out log-likelihoods that differ by less are the same; the splits are others."""


def entries() -> list[Entry]:
    """Entries of all tables and figures."""
    fits, convergence = results.best(Fit), results.best(Convergence)
    nothing = [
        Entry(INDUCING_INPUTS, "Table 1", "a list of variational methods", missing="it has no numbers"),
        Entry(INDUCING_INPUTS, "Figure 10", "the intensities of Figure 3, larger", missing="the same as Figure 3"),
    ]
    images = [_image(fits, item, kernel) for item, kernel in (("Figure 1", "ARD"), ("Figure 6", "isotropic"))]
    rhats = [_rhat(convergence, *one) for one in (("Figure 7", "image"), ("Figure 8", "coal"), ("Figure 9", "toy"))]
    return [*nothing, *images, _coal(fits), _pines(fits), *_shown(fits), *rhats]


def _extent(there: pd.DataFrame, kind: type[Unit], wanted: Callable[[Unit], bool], what: str) -> list[Share | str]:
    """Those of the article's size, and how many smaller there are."""
    units = [one for one in study.units(SCALES["paper"]) if isinstance(one, kind) and wanted(one)]
    every = pd.DataFrame(units, columns=list(kind._fields))
    lines = there.drop_duplicates(list(kind._fields))
    whole = lines["scale"] == "paper"
    smaller = [f"{int((~whole).sum())} smaller"] if not whole.all() else []
    return [Share.counted(lines[whole], every, f"{what} at the article's size"), *smaller]


def _entry(item: str, shows: str, extent: Sequence[Share | str], there: pd.DataFrame, **more: object) -> Entry:
    common = {"study": STUDY, "extent": extent, "made": made_by(there), "files": FITS}
    return Entry(INDUCING_INPUTS, item, shows, **common | more)  # type: ignore[arg-type]


def _of(fits: pd.DataFrame, name: str, what: str = "fits") -> tuple[list[Share | str], pd.DataFrame]:
    there = fits[fits["problem"].str.startswith(name)]
    return _extent(there, Fit, lambda unit: unit.problem.startswith(name), what), there


def _image(fits: pd.DataFrame, item: str, kernel: str) -> Entry:
    there = fits[(fits["problem"] == "image") & (fits["kernel"] == kernel)]
    scores = comparison.image(there).loc[kernel]
    sampler = next(name for name in there["method"] if name != study.GAUSSIAN)
    by_inputs = scores.loc["optimized"] - scores.loc["kmeans"]
    gain = scores.xs(sampler, level="method") - scores.xs(study.GAUSSIAN, level="method")
    each = "a length-scale for each feature" if kernel == "ARD" else "one length-scale"
    extent = _extent(there, Fit, lambda unit: (unit.problem, unit.kernel) == ("image", kernel), "fits")
    findings = [
        Finding("optimized inducing inputs predict better than k-means'", bool((by_inputs > 0.0).all(axis=None))),
        Finding(
            "chains predict better than the Gaussian approximation with twenty inducing inputs or more",
            bool((gain.loc[:, 20:] > 0.0).all(axis=None)),
        ),
    ]
    return _entry(item, f"held-out log-likelihood on image with {each}", extent, there, findings=findings)


def _coal(fits: pd.DataFrame) -> Entry:
    extent, there = _of(fits, "coal")
    scores = comparison.coal(fits)
    splits, means = scores.filter(like="split", axis=0), scores.loc["mean"]
    published = comparison.PUBLISHED_COAL
    findings = [
        Finding(
            f"held-out log-likelihood of a bin by chains {_minus(published['HMC'])}, ours {_minus(means['Gibbs'])}",
            bool(abs(means["Gibbs"] - published["HMC"]) < NEAR),
        ),
        Finding(
            f"and by the Gaussian approximation {_minus(published['Gaussian'])}, ours {_minus(means['Gaussian'])}",
            bool(abs(means["Gaussian"] - published["Gaussian"]) < NEAR),
        ),
        Finding("chains predict better in all ten splits", bool((splits["Gibbs"] > splits["Gaussian"]).all())),
    ]
    return _entry(
        "Figure 2", "rates and hyper-parameters of the coal-mining disasters", extent, there, findings=findings
    )


def _minus(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _pines(fits: pd.DataFrame) -> Entry:
    extent, there = _of(fits, "pines")
    rows = comparison.pines(fits).rename_axis(["grid", "inputs"])
    frame = pd.DataFrame({"ours": rows["seconds for one"], "article": rows["article"]})
    maps = [
        results.picture(Fit("pines 32", 0, study.KERNELS[0], inducing, points, method))["mean"]
        for inducing, points, method in (("grid", 225, "Gibbs"), ("all", 32**2, "exact"))
    ]
    alike = np.corrcoef(*(one.ravel() for one in maps))[0, 1]
    seconds = rows["seconds for one"].loc["pines 32"]
    findings = [
        Finding(
            "sparse chains need less time for an effective draw than the whole model",
            bool(seconds["grid"] < seconds["all"]),
        ),
        Finding("the two maps agree: a correlation of the intensities above 0.9", bool(alike > 0.9)),
    ]
    shows = "intensity of pine saplings on two grids, and seconds for an effective draw"
    numbers = Numbers(frame, speeds=True)
    return _entry("Figure 3", shows, extent, there, numbers=numbers, findings=findings)


def _shown(fits: pd.DataFrame) -> list[Entry]:
    """Figures of which there are pictures only."""
    toy, mnist = _of(fits, "toy"), _of(fits, "mnist")
    moved = "inducing inputs of MNIST before and after they are optimized"
    return [
        _entry("Figure 4", "classes of the toy data and whitened values", *toy),
        _entry("Figure 5", moved, *mnist),
    ]


def _rhat(lines: pd.DataFrame, item: str, name: str) -> Entry:
    there = lines[lines["problem"] == name]
    extent = _extent(there, Convergence, lambda unit: unit.problem == name, "cells")
    key = ["problem", "kernel", "method"]
    article = results.read("article").set_index(key)["tn_ess"].loc[[name]]
    ours = comparison.efficiency(lines)["ESS/s"].reindex(article.index)
    last = there.sort_values("checkpoint").drop_duplicates(key, keep="last")
    largest = last.filter(regex=r"^rhat_\d+$").max(axis=None)
    findings = [Finding("all chains converge: the largest R-hat at the end is below 1.1", bool(largest < CONVERGED))]
    numbers = Numbers(pd.DataFrame({"ours": ours, "article": article}), speeds=True)
    files = [f"sparse/results/{scale}_convergence.csv" for scale in results.SCALES]
    shows = f"R-hat on {'the toy data' if name == 'toy' else name}, and effective draws a second"
    return _entry(item, shows, extent, there, numbers=numbers, findings=findings, files=files)
