"""The study of preconditioners: its stored iterations are the authors', and its cells run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from case_studies.iterative import figures, results, study
from case_studies.iterative.study import EXPONENTS, PRECONDITIONERS, SCALES, Cell, Scale, cells

WITHIN = 0.2


@pytest.fixture(scope="module")
def stored():
    return results.table_of(results.FOLDER / "quick.csv").read()


def near(beside):
    """Within a fifth of the authors' figure, or one iteration."""
    return (beside["ratio"] - 1.0).abs().le(WITHIN) | (beside["iterations"] - 1.0 - beside["authors"]).abs().le(1.0)


def test_iterations_without_a_preconditioner_are_the_authors(stored):
    beside = results.beside_authors(stored)
    assert near(beside[beside["preconditioner"] == "none"]).all()


def test_nearly_all_iterations_are_the_authors(stored):
    """Those whose preconditioner is determined by the article; inner tolerances and the SVD's projections are not."""
    beside = results.beside_authors(stored)
    settled = beside[~beside["preconditioner"].isin(["regularized", "SVD"])]
    assert near(settled).mean() > 0.85


def test_a_wrong_preconditioner_is_not_near(stored):
    """The twin: block Jacobi's iterations in place of Nystrom's."""
    block = stored[stored["preconditioner"] == "block Jacobi"].assign(preconditioner="Nystrom")
    assert near(results.beside_authors(block)).mean() < 0.6


def test_random_pivots_take_hardly_more_than_the_best_at_the_same_rank(stored):
    """The others are the article's with m columns; the spectral one has two columns for each frequency."""
    table = stored.pivot_table(index=["log_noise", "log_lengthscale"], columns="preconditioner", values="iterations")
    others = table[["Nystrom", "FITC", "PITC", "SVD"]].min(axis=1)
    assert (table["random pivots"] <= 1.2 * others + 1.0).mean() > 0.6


def test_the_stored_table_is_whole(stored):
    chosen = list(cells(SCALES["quick"]))
    assert len(stored) == len(chosen) == len(EXPONENTS) * len(PRECONDITIONERS)
    assert results.table_of(results.FOLDER / "quick.csv").missing(chosen, {"repetitions": 3, "cap": 15_000}) == []


@pytest.fixture
def small(monkeypatch):
    """Forty points in place of Concrete."""
    X = np.random.default_rng(0).standard_normal((40, 2))
    monkeypatch.setattr(study, "concrete", lambda: (X, X[:, 0]))
    study.squared_distances.cache_clear()
    yield Scale("small", 1, (-2,), 2, 500)
    study.squared_distances.cache_clear()


@pytest.mark.parametrize("name", PRECONDITIONERS)
def test_every_cell_runs(small, name):
    found = study.run_cell(small, Cell(name, -2, 0))
    assert len(found["iterations"]) == (1 if name in study.ONCE else 2)
    assert all(0 < iterations < 500 for iterations in found["iterations"]) or name == "regularized"


def test_no_convergence_counts_as_the_cap(small):
    assert study.run_cell(Scale("small", 1, (-2,), 1, 2), Cell("none", -6, 0))["iterations"] == [2]


@pytest.mark.full
def test_the_figure_is_drawn(stored, tmp_path):
    figures.save(results.beside_authors(stored), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert isinstance(stored, pd.DataFrame)
