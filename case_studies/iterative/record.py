"""The record of two articles that solve linear systems iteratively, without a factorization."""

from __future__ import annotations

import numpy as np
import pandas as pd

from case_studies.iterative import results
from case_studies.iterative.results import KEY
from case_studies.iterative.study import SCALES
from case_studies.tools.articles import LANGEVIN_DYNAMICS, PRECONDITIONERS
from case_studies.tools.record import Entry, Numbers, Remark, Share, made_by

__all__ = ["entries"]

PAGE = "without_factorization.md"
DATA = "Concrete"
LOOSEST = "to 0.6"
"""Tolerance of the inner systems that is nearest to the authors' counts."""
HOURS = "hours on sixteen cores in the article, and its rivals are programs that are not at hand"
NOT_RUN = {
    "Figure 1": (
        "condition numbers of the covariance of Concrete under the prior",
        "not run, as it describes the data, and no result rests on it",
    ),
    "Figure 2": (
        "iterations and errors of conjugate gradients with fast products",
        "the fast products (single precision, trees) are not in the package",
    ),
    "Figure 3": (
        "iterations and spread of truncated solutions",
        f"not run at the article's size; [a page]({PAGE}) says why its probabilities of stopping are replaced",
    ),
    "Figure 4": ("error of the gradient's estimate by the number of iterations", "not run at the article's size"),
    "Figure 5": (
        "Langevin dynamics on Concrete beside Metropolis-Hastings",
        "not run: at 1,030 points the exact chain is faster, and the sampler refuses fewer than 5,000",
    ),
    "Figure 6": ("Langevin dynamics on the 1990 census", "not run: days on the machines at hand"),
}


def entries() -> list[Entry]:
    """Entries of both articles."""
    later = [
        Entry(PRECONDITIONERS, "Figure 2", "error and log-likelihood over time on four data sets", missing=HOURS),
        Entry(PRECONDITIONERS, "Figure 3", "error and log-likelihood over time on Credit and Concrete", missing=HOURS),
    ]
    missing = [Entry(LANGEVIN_DYNAMICS, item, shows, missing=why) for item, (shows, why) in NOT_RUN.items()]
    return [_iterations(), *later, *missing]


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
