"""The record of two articles that solve linear systems iteratively, without a factorization."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from case_studies.iterative import curves, langevin, results
from case_studies.iterative.results import KEY
from case_studies.iterative.sensitivity import CAP, LARGER, LARGEST
from case_studies.iterative.study import CONCRETE, ROWS, SCALES
from case_studies.tools.articles import LANGEVIN_DYNAMICS, PRECONDITIONERS
from case_studies.tools.record import Entry, Finding, Numbers, Remark, Share, made_by

__all__ = ["entries"]

PAGE = "without_factorization.md"
STUDY = "/case_studies/iterative"
SCALE = "quick"
LOOSEST = "to 0.6"
"""Tolerance of the inner systems that is nearest to the authors' counts."""
FACTORIZED = "factorization"
"""Lines of condition numbers without a solver."""
NOT_STORED = "the study has cells for it, which are not run yet"


def entries() -> list[Entry]:
    """Entries of both articles."""
    stopped = [_conditions("Figure 1"), _conditions("Figure 2"), _solutions(), _gradients()]
    return [_iterations(), _curves("2"), _curves("3"), *stopped, _on_concrete(), _on_census()]


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
    authors = results.authors_ends().set_index(["data", "method"])
    authors = authors[authors.index.get_level_values("data").isin(names)]
    article = authors["error"]
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
        remarks=[_few_steps(ends, authors)] if "spam" in names else [],
        notes=[f"At most {curves.SCALES[SCALE].rows:,} rows are seen, and the article has all; its errors are those "
               "in its authors' repository, with other splits."],
        files=[f"iterative/results/{name}" for name in (table.path.name, "authors_ends.csv")],
    )  # fmt: skip


def _few_steps(ends: pd.DataFrame, authors: pd.DataFrame) -> Remark:
    """Return how far factorizations get on spam in our time."""
    chol, cg, theirs = ends.loc["spam", "CHOL"], ends.loc["spam", "CG"], authors.loc["spam", "CHOL"]
    return Remark(
        f"the authors' CHOL has {theirs['seconds']:,.0f} seconds; ours made {chol['steps']:.0f} steps of L-BFGS "
        f"before its {curves.SCALES[SCALE].seconds['spam']:.0f} seconds were used up. In the same time CG makes "
        f"{cg['steps']:.0f} steps, and has {cg['error']:.3f}.",
        {"data": ["spam"], "method": ["CHOL"]},
    )


def _over_time(ends: pd.DataFrame) -> list[Finding]:
    """Return whether gradients are faster with a preconditioner, and whether errors are no larger than the rivals'."""
    found = []
    for name in dict.fromkeys(ends.index.get_level_values("data")):
        own = ends.loc[name]
        if {"PCG", "CG"} <= set(own.index):
            text = f"on {name}, gradients with a preconditioner make more steps in the same time"
            speed = own["steps"] / own["seconds"]
            found.append(Finding(text, bool(speed["PCG"] > speed["CG"])))
        rivals = [method for method in curves.RIVALS if method in own.index]
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


def _conditions(item: str) -> Entry:
    """Return the entry of a figure about condition numbers, or of one about solvers."""
    first, table = item == "Figure 1", results.condition_table(results.FOLDER, SCALE)
    shows = (
        "condition numbers of the covariance of Concrete under four priors"
        if first
        else "products and errors of conjugate gradients by the condition number, in double and single precision"
    )
    if not table.path.is_file():
        return Entry(LANGEVIN_DYNAMICS, item, shows, study=STUDY, missing=NOT_STORED)
    lines = table.read()
    draws, solved = lines[lines["solver"] == FACTORIZED], lines[lines["solver"] != FACTORIZED]
    kept = draws if first else solved
    notes = [
        "The article's shapes and rates are in its picture only, so that ours are others.",
        f"Condition numbers are between {kept['condition'].min():,.0f} and {kept['condition'].max():,.0f}.",
    ]
    if not first:
        notes.append("Trees and anchors, the article's approximate products, are not in the package.")
    return Entry(
        article=LANGEVIN_DYNAMICS,
        item=item,
        shows=shows,
        study=STUDY,
        extent=[f"{len(draws if first else solved.drop_duplicates(['shape', 'rate', 'draw']))} draws of theta"],
        made=made_by(lines),
        findings=[] if first else _of_solvers(solved),
        notes=notes,
        files=[f"iterative/results/{table.path.name}"],
    )


def _of_solvers(solved: pd.DataFrame) -> list[Finding]:
    wide = solved.pivot(index=["shape", "rate", "draw"], columns="solver", values=["products", "error"])
    products, errors = wide["products"], wide["error"]
    nested = products[["PCG, double inside", "PCG, single inside"]]
    fewer = products["CG, double"] <= products["CG, single"]
    return [
        Finding("double precision takes no more iterations than single precision", bool(fewer.all())),
        Finding("single precision has larger errors", bool((errors["CG, single"] > errors["CG, double"]).all())),
        Finding("conjugate gradients take fewer products than with C + delta I as a preconditioner, inner ones counted",
                bool(nested.gt(products["CG, double"], axis=0).all(axis=None))),
    ]  # fmt: skip


def _on_concrete() -> Entry:
    note = (
        "Targets have a standard deviation of one; the article does not say whether its have. With targets in MPa a "
        "threshold of 1 for their solution is 0.06 here."
    )
    shows = "Langevin dynamics on Concrete beside Metropolis-Hastings"
    return _chains("Figure 5", shows, CONCRETE, "the 1,030 rows", "40,000", note)


def _on_census() -> Entry:
    note = "Exact chains, which the article could not afford, are those of fewer rows."
    return _chains("Figure 6", "Langevin dynamics on the 1990 census", langevin.CENSUS, "22,784 rows", "10,000", note)


def _chains(item: str, shows: str, name: str, rows: str, iterations: str, note: str) -> Entry:
    """Return the entry of Langevin dynamics beside an exact chain, with rows and iterations of the article."""
    table = results.chain_table(results.FOLDER, SCALE)
    lines = table.read() if table.path.is_file() else pd.DataFrame(columns=["data"])
    lines = lines[lines["data"] == name]
    if lines.empty:
        return Entry(LANGEVIN_DYNAMICS, item, shows, study=STUDY, missing=NOT_STORED)
    wanted = pd.DataFrame([cell for cell in langevin.cells(langevin.SCALES[SCALE]) if cell.data == name])
    return Entry(
        article=LANGEVIN_DYNAMICS,
        item=item,
        shows=shows,
        study=STUDY,
        extent=[Share.counted(lines, wanted, "chains")],
        made=made_by(lines),
        findings=_of_chains(results.chain_summary(lines)),
        notes=[f"{lines['n'].max():,} of {rows} are seen, and chains have {lines['iterations'].max():,} "
               f"iterations, where the article has {iterations}. {note}"],
        files=[f"iterative/results/{table.path.name}"],
    )  # fmt: skip


def _of_chains(summary: pd.DataFrame) -> list[Finding]:
    mean, deviation = (summary.pivot(index="parameter", columns="method", values=k) for k in ("mean", "deviation"))
    apart = mean.sub(mean[langevin.EXACT], axis=0).abs().div(deviation[langevin.EXACT], axis=0).max()
    rhat = summary.groupby("method")["R-hat"].max().dropna()
    return [
        finding
        for method in langevin.METHODS[1:]
        if method in rhat.index
        for finding in (
            Finding(
                f"{method}: means are within a posterior deviation of the exact chain's", bool(apart[method] < 1.0)
            ),
            Finding(f"{method}: chains agree, the largest R-hat is below 1.1", bool(rhat[method] < 1.1)),
        )
    ]


def _iterations() -> Entry:
    lines, article = results.stored(), results.authors()
    article = article.set_index(KEY)["authors"]
    cap = SCALES["paper"].cap
    same = results.whole(lines)
    # Beyond the cap both only say that there is no solution; the authors number iterations from zero.
    ours = same.set_index(KEY)["iterations"].sub(1.0).clip(upper=cap)
    frame = pd.DataFrame({"ours": ours.reindex(article.index), "article": np.minimum(article, cap)})
    wanted = article.index.to_frame(index=False)
    shown = lines[lines.set_index(KEY).index.isin(article.index)]
    return Entry(
        article=PRECONDITIONERS,
        item="Figure 1",
        shows="iterations by preconditioner and length-scale on three data sets",
        study=STUDY,
        extent=[
            Share.counted(same, wanted[wanted["data"] == name], f"cells of {name}") for name in wanted["data"].unique()
        ],
        made=made_by(shown),
        numbers=Numbers(frame),
        remarks=_remarks(article),
        notes=[*_of_fewer_rows(lines, article), _other_frequencies()],
        files=[f"iterative/results/{name}" for name in (*(path.name for path in results.paths()), "sensitivity.csv")],
    )


def _of_fewer_rows(lines: pd.DataFrame, article: pd.Series) -> list[str]:
    """Return the results for data sets with fewer rows than the article has."""
    whole = results.whole(lines)
    fewer = lines.drop(whole.index).set_index(KEY)
    fewer = fewer[~fewer.index.isin(whole.set_index(KEY).index)].reset_index()
    found = []
    for name, own in fewer.groupby("data"):
        ratio = (own.set_index(KEY)["iterations"] - 1.0) / article
        found.append(
            f"{ratio.count()} cells of {name} have {own['n'].max():,} of its {ROWS[name]:,} rows, and are not judged: "
            f"their iterations are {ratio.min():.2g} to {ratio.max():.2g} times the article's, with a median of "
            f"{ratio.median():.2g}."
        )
    return found


def _remarks(article: pd.Series) -> list[Remark]:
    """Return what the authors' program does differently, with our counts when we do it in their way."""
    lines = pd.read_csv(results.FOLDER / "sensitivity.csv")
    of_larger = _remarks_of_larger_data(lines[lines["data"] == LARGER], article.sort_index().loc[LARGER])
    of_larger += _remarks_of_largest_data(lines[lines["data"] == LARGEST], article.sort_index().loc[LARGEST])
    lines, article = lines[lines["data"] == CONCRETE], article.sort_index().loc[CONCRETE]
    loosest = lines[lines["way"] == LOOSEST].set_index("log_lengthscale")["iterations"]
    pairs = ", ".join(f"{ours:,} ({article['regularized', -2, place]:,})" for place, ours in loosest.sub(1).items())
    return [
        Remark(
            "the article does not say how exactly its inner systems are solved; we solve them to 1e-4. Solved "
            f"{LOOSEST}, they take on Concrete, with a variance of the noise of 0.01, from the smallest length-scale "
            f"to the largest, {pairs} products; in brackets the authors' figures.",
            {"preconditioner": ["regularized"]},
        ),
        Remark(
            "the article gives the size of its grid by the order of the cost alone, and not its ends; ours has three "
            "points along each of the eight axes of Concrete, and twelve along each of the four of powerplant, from "
            "the smallest input to the largest.",
            {"preconditioner": ["structured interpolation"]},
        ),
        Remark(
            "the authors' program inverts the covariance of the points with eigenvectors from a solver for general "
            "matrices. Where K is almost the identity, eigenvalues almost repeat, and these vectors are not "
            "orthogonal, so that the preconditioner is another matrix. With such vectors ours takes "
            f"{_range(lines, 'Nystrom')}.",
            {"data": ["concrete"], "preconditioner": ["Nystrom"], "log_lengthscale": [-1]},
        ),
        Remark(
            "the authors' program multiplies left and right singular vectors of a randomized decomposition, which "
            "differ after few passes. With one pass and five draws, so does ours, which then takes "
            f"{_range(lines, 'SVD')}.",
            {"data": ["concrete"], "preconditioner": ["SVD"], "log_noise": [-4], "log_lengthscale": [-3]},
        ),
        Remark(
            "the authors' program adds 1e-6, here the variance of the noise, to the diagonal of the covariance of the "
            f"points. If ours do the same, FITC takes {_range(lines, 'FITC')}, and PITC {_range(lines, 'PITC')}.",
            {"data": ["concrete"], "preconditioner": ["FITC", "PITC"], "log_noise": [-6], "log_lengthscale": [2]},
        ),
        Remark(
            "ours takes one iteration, the authors' two or three; the table numbers iterations from zero, as they do.",
            {
                "data": ["concrete", "powerplant"],
                "preconditioner": ["Nystrom", "FITC", "PITC"],
                "log_noise": [-2],
                "log_lengthscale": [1, 2],
            },
        ),
        Remark(
            "ours takes one iteration, the authors' two; the table numbers iterations from zero, as they do.",
            {"preconditioner": ["SVD"], "log_lengthscale": [1, 2]},
        ),
        *of_larger,
    ]


def _remarks_of_larger_data(lines: pd.DataFrame, article: pd.Series) -> list[Remark]:
    """Return what the authors' program does differently on the larger data set."""
    points, vectors = _ways(_beside(lines, article))
    solved = vectors[vectors["iterations"] < CAP]
    rough = points["log_lengthscale"] < 0
    return [
        Remark(
            "the authors' program adds 1e-6 to the diagonal of the covariance of the points, and inverts it with "
            "eigenvectors from a solver for general matrices. If ours do the same, they take, with noise of variance "
            "1e-4 and 1e-6 and a length-scale of 10 and 100 each, and the authors' in brackets: "
            f"{_by_name(points[~rough])}.",
            {"data": [LARGER], "preconditioner": ["Nystrom", "FITC", "PITC"], "log_noise": [-4, -6],
             "log_lengthscale": [1, 2]},
        ),
        _rough(LARGER, points[rough]),
        Remark(
            "the authors' program multiplies left and right singular vectors of one pass, which differ. So does ours "
            f"then, which takes {_pairs(solved)} with noise of variance 1e-4 and a length-scale of 0.01 and 0.1, the "
            f"authors' in brackets, and has no solution after {CAP:,} iterations in the other "
            f"{len(vectors) - len(solved)} cells, where the authors have none after 15,000.",
            {"data": [LARGER], "preconditioner": ["SVD"], "log_noise": [-4, -6], "log_lengthscale": [-3, -2, -1]},
        ),
    ]  # fmt: skip


def _remarks_of_largest_data(lines: pd.DataFrame, article: pd.Series) -> list[Remark]:
    """Return the same of the largest data set, as far as it was tried."""
    points, vectors = _ways(_beside(lines, article))
    rough = points["log_lengthscale"] < 0
    return [
        Remark(
            "the authors' program adds 1e-6 to the diagonal of the covariance of the points, and inverts it with "
            "eigenvectors from a solver for general matrices. If ours do the same, they take, with noise of variance "
            f"1e-4 (Nystrom's also with 1e-6) and a length-scale of 100, and the authors' in brackets: "
            f"{_by_name(points[~rough])}. FITC and PITC were not repeated with noise of variance 1e-6, where the "
            "amount is as large as the noise, nor with a length-scale of 10.",
            {"data": [LARGEST], "preconditioner": ["Nystrom", "FITC", "PITC"], "log_noise": [-4, -6],
             "log_lengthscale": [1, 2]},
        ),
        Remark(
            "the authors' program multiplies left and right singular vectors of one pass, which differ. So does ours "
            f"then, which takes {_pairs(vectors)} with length-scales of 0.001, 0.01, 0.1 and 0.01, and noise of "
            "variance 1e-2, 1e-2, 1e-4 and 1e-6, the authors' in brackets. The other cells were not repeated.",
            {"data": [LARGEST], "preconditioner": ["SVD"], "log_noise": [-2, -4, -6], "log_lengthscale": [-3, -2, -1]},
        ),
        _rough(LARGEST, points[rough]),
    ]  # fmt: skip


def _ways(beside: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return lines with the authors' treatment of points, and those with their singular vectors."""
    return beside[beside["way"].isin(("general eigenvectors", "jitter"))], beside[beside["way"] == "singular vectors"]


def _rough(name: str, points: pd.DataFrame) -> Remark:
    """Return what eigenvectors that are not orthogonal do to Nystrom's approximation where length-scales are short."""
    noises = list(points["log_noise"])
    return Remark(
        "the authors' eigenvectors of the covariance of the points are not orthogonal, as on Concrete. With such "
        f"vectors ours takes {_pairs(points)} with a length-scale of 0.1, the authors' in brackets.",
        {"data": [name], "preconditioner": ["Nystrom"], "log_noise": noises, "log_lengthscale": [-1]},
    )


def _other_frequencies() -> str:
    """Return what was tried where the authors' random frequencies take more iterations."""
    lines = pd.read_csv(results.FOLDER / "sensitivity.csv")
    again = lines[lines["way"] == "again"].groupby("data")["iterations"].agg(list)
    larger, largest = (" and ".join(str(number - 1) for number in again[name]) for name in (LARGER, LARGEST))
    return (
        "Tried without success: two other draws of the frequencies of the spectral preconditioner, with noise of "
        f"variance 1e-6, take {larger} on {LARGER} with a length-scale of 10, and {largest} on {LARGEST} with 100."
    )


def _beside(lines: pd.DataFrame, article: pd.Series) -> pd.DataFrame:
    """Return lines with our iterations, numbered from zero, and the authors'."""
    cells = pd.MultiIndex.from_frame(lines[["preconditioner", "log_noise", "log_lengthscale"]])
    return lines.assign(ours=lines["iterations"] - 1, authors=article.reindex(cells).values)


def _pairs(some: pd.DataFrame) -> str:
    return ", ".join(f"{one.ours:,} ({one.authors:,.0f})" for one in some.itertuples())


def _by_name(some: pd.DataFrame) -> str:
    return "; ".join(f"{name} {_pairs(own)}" for name, own in some.groupby("preconditioner", sort=False))


def _range(lines: pd.DataFrame, preconditioner: str) -> str:
    """Return the fewest and the most iterations by variance of the noise."""
    found = lines[lines["preconditioner"] == preconditioner].groupby("log_noise", sort=False)["iterations"]
    return ", and ".join(
        f"{some.min() - 1:,} to {some.max() - 1:,} with noise of variance 1e{noise}" for noise, some in found
    )
