"""The record of two articles that solve linear systems iteratively, without a factorization."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from case_studies.iterative import curves, results
from case_studies.iterative.inducing import RIVALS
from case_studies.iterative.results import KEY
from case_studies.iterative.study import SCALES
from case_studies.tools.articles import LANGEVIN_DYNAMICS, PRECONDITIONERS
from case_studies.tools.record import Entry, Finding, Numbers, Remark, Share, made_by

__all__ = ["entries"]

PAGE = "without_factorization.md"
STUDY = "/case_studies/iterative"
SCALE = "quick"
DATA = "Concrete"
LOOSEST = "to 0.6"
"""Tolerance of the inner systems that is nearest to the authors' counts."""
NOT_STORED = "the study has cells for it, which are not run yet"
NOT_RUN = {
    "Figure 1": (
        "condition numbers of the covariance of Concrete under the prior",
        "not run, as it describes the data, and no result rests on it",
    ),
    "Figure 2": (
        "iterations and errors of conjugate gradients with fast products",
        "the fast products (single precision, trees) are not in the package",
    ),
    "Figure 5": (
        "Langevin dynamics on Concrete beside Metropolis-Hastings",
        "not run: at 1,030 points the exact chain is faster, and the sampler refuses fewer than 5,000",
    ),
    "Figure 6": ("Langevin dynamics on the 1990 census", "not run: days on the machines at hand"),
}


def entries() -> list[Entry]:
    """Entries of both articles."""
    stopped = [_solutions(), _gradients()]
    missing = [Entry(LANGEVIN_DYNAMICS, item, shows, missing=why) for item, (shows, why) in NOT_RUN.items()]
    return [_iterations(), _curves("2"), _curves("3"), *stopped, *missing]


def _curves(figure: str) -> Entry:
    """Return the entry of a figure of errors over time; only errors can be compared, as densities may be negative."""
    item, shows = f"Figure {figure}", "error and log-likelihood over time"
    names = [name for name, where in curves.FIGURES.items() if where == figure]
    shows += f" on {', '.join(names)}"
    table = results.curve_table(results.FOLDER, SCALE)
    lines = table.read() if table.path.is_file() else pd.DataFrame(columns=[*results.CURVE_KEY, "error", "nll"])
    lines = lines[lines["data"].isin(names)]
    if lines.empty:
        return Entry(PRECONDITIONERS, item, shows, study=STUDY, missing=NOT_STORED)
    ends = results.ends(lines).groupby(["data", "method"])[["steps", "seconds", "error"]].mean()
    article = results.authors_ends()
    article = article[article["data"].isin(names)].set_index(["data", "method"])["error"]
    frame = pd.DataFrame({"ours": ends["error"].reindex(article.index), "article": article})
    wanted = pd.DataFrame([cell for cell in curves.cells(curves.SCALES[SCALE]) if cell.data in names])
    return Entry(
        article=PRECONDITIONERS,
        item=item,
        shows=shows,
        study=STUDY,
        extent=[Share.counted(lines, wanted, "curves")],
        made=made_by(lines),
        numbers=Numbers(frame) if len(frame) else None,
        findings=_over_time(ends),
        notes=[f"At most {curves.SCALES[SCALE].rows:,} rows are seen, and the article has all; its errors are those "
               "in its authors' repository, with other splits."],
        files=[f"iterative/results/{name}" for name in (table.path.name, "authors_ends.csv")],
    )  # fmt: skip


def _over_time(ends: pd.DataFrame) -> list[Finding]:
    """Return whether gradients are faster with a preconditioner, and whether errors are no larger than the rivals'."""
    found = []
    for name in dict.fromkeys(ends.index.get_level_values("data")):
        own = ends.loc[name]
        if {"PCG", "CG"} <= set(own.index):
            text = f"on {name}, gradients with a preconditioner make more steps in the same time"
            speed = own["steps"] / own["seconds"]
            found.append(Finding(text, bool(speed["PCG"] > speed["CG"])))
        rivals = [method for method in RIVALS if method in own.index]
        if rivals and "PCG" in own.index:
            text = f"on {name}, the error is at most those of {', '.join(rivals)}"
            found.append(Finding(text, bool(own.loc["PCG", "error"] <= own.loc[rivals, "error"].min())))
    return found


def _stopped(item: str, shows: str, findings: Callable[[pd.DataFrame], list[Finding]], note: str) -> Entry:
    table = results.truncation_table(results.FOLDER, SCALE)
    if not table.path.is_file():
        return Entry(LANGEVIN_DYNAMICS, item, shows, study=STUDY, missing=NOT_STORED)
    lines = table.read()
    wide = lines.pivot(index="draw", columns="solver", values=["iterations", "error", "gradient_error"])
    return Entry(
        article=LANGEVIN_DYNAMICS,
        item=item,
        shows=shows,
        study=STUDY,
        extent=[f"{len(wide)} draws of theta"],
        made=made_by(lines),
        findings=findings(wide),
        notes=[note],
        files=[f"iterative/results/{table.path.name}"],
    )


PRINTED = [f"printed, q = {q}, beta = 1.0" for q in (1.0, 0.1)]


def _solutions() -> Entry:
    def findings(wide: pd.DataFrame) -> list[Finding]:
        fewer = wide["iterations"][PRINTED].lt(wide["iterations"]["CG"], axis=0)
        small = wide["error"][PRINTED[1]] < wide["error"][PRINTED[0]]
        return [
            Finding("stopped solutions take fewer iterations at each condition number", bool(fewer.all(axis=None))),
            Finding("a threshold of .1 has smaller errors than one of 1 at most condition numbers", small.mean() > 0.5),
        ]

    note = f"[A page]({PAGE}) says why these solutions are unbiased in name only."
    return _stopped("Figure 3", "iterations and spread of truncated solutions", findings, note)


def _gradients() -> Entry:
    def findings(wide: pd.DataFrame) -> list[Finding]:
        errors = wide["gradient_error"]
        return [
            Finding("gradients from whole solutions have the smallest errors on average",
                    bool(errors["CG"].mean() <= errors[PRINTED].mean().min())),
            Finding("with a threshold of 1 errors are larger than with .1 on average",
                    bool(errors[PRINTED[0]].mean() > errors[PRINTED[1]].mean())),
        ]  # fmt: skip

    note = "One vector of signs, as in the article, and fewer repetitions."
    return _stopped("Figure 4", "error of the gradient's estimate by the condition number", findings, note)


def _iterations() -> Entry:
    lines, article = results.stored(), results.authors()
    article = article.set_index(["data", *KEY])["authors"]
    cap = SCALES["paper"].cap
    # Beyond the cap both only say that there is no solution; the authors number iterations from zero.
    ours = lines.assign(data=DATA).set_index(["data", *KEY])["iterations"].sub(1.0).clip(upper=cap)
    frame = pd.DataFrame({"ours": ours.reindex(article.index), "article": np.minimum(article, cap)})
    there = lines.set_index(KEY).index.isin(article.loc[DATA].index)
    wanted = article.index.to_frame(index=False)
    return Entry(
        article=PRECONDITIONERS,
        item="Figure 1",
        shows="iterations by preconditioner and length-scale on three data sets",
        study=f"/{PAGE}",
        extent=[
            Share.counted(lines[there].assign(data=DATA), wanted[wanted["data"] == name], f"cells of {name}")
            for name in wanted["data"].unique()
        ],
        made=made_by(lines[there]),
        numbers=Numbers(frame),
        remarks=_remarks(article),
        files=[f"iterative/results/{name}" for name in (*(path.name for path in results.paths()), "sensitivity.csv")],
    )


def _remarks(article: pd.Series) -> list[Remark]:
    """Return what the authors' program does in another way, with our counts when we do it in theirs."""
    lines = pd.read_csv(results.FOLDER / "sensitivity.csv")
    article = article.sort_index().loc[DATA]
    loosest = lines[lines["way"] == LOOSEST].set_index("log_lengthscale")["iterations"]
    pairs = ", ".join(f"{ours:,} ({article['regularized', -2, place]:,})" for place, ours in loosest.sub(1).items())
    return [
        Remark(
            "the article does not say how exactly its inner systems are solved; we solve them to 1e-4. Solved "
            f"{LOOSEST}, they take, with a variance of the noise of 0.01 and from the smallest length-scale to the "
            f"largest, {pairs} products; in brackets the authors' figures.",
            {"preconditioner": ["regularized"]},
        ),
        Remark(
            "the authors' program inverts the covariance of the points with eigenvectors from a solver for general "
            "matrices. Where K is almost the identity, eigenvalues almost repeat, and these vectors are not "
            "orthogonal, so that the preconditioner is another matrix. With such vectors ours takes "
            f"{_range(lines, 'Nystrom')}.",
            {"preconditioner": ["Nystrom"], "log_lengthscale": [-1]},
        ),
        Remark(
            "the authors' program multiplies left and right singular vectors of a randomized decomposition, which "
            "differ after few passes. With one pass and five draws, so does ours, which then takes "
            f"{_range(lines, 'SVD')}.",
            {"preconditioner": ["SVD"], "log_noise": [-4], "log_lengthscale": [-3]},
        ),
        Remark(
            "the authors' program adds 1e-6, here the variance of the noise, to the diagonal of the covariance of the "
            f"points. If ours does the same, it takes {_range(lines, 'PITC')}.",
            {"preconditioner": ["PITC"], "log_noise": [-6], "log_lengthscale": [2]},
        ),
        Remark(
            "ours takes one iteration, the authors' two; the table numbers iterations from zero, as the authors do.",
            {"preconditioner": ["SVD"], "log_noise": [-2], "log_lengthscale": [2]},
        ),
    ]


def _range(lines: pd.DataFrame, preconditioner: str) -> str:
    """Return the fewest and the most iterations by variance of the noise."""
    found = lines[lines["preconditioner"] == preconditioner].groupby("log_noise", sort=False)["iterations"]
    return ", and ".join(
        f"{some.min() - 1:,} to {some.max() - 1:,} with noise of variance 1e{noise}" for noise, some in found
    )
