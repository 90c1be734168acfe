"""The study of preconditioners: its stored iterations are the authors', and its cells run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

from case_studies.iterative import figures, results, study
from case_studies.iterative.kernels import Factorized, Sparse, Tiles, side_by_side, squared_exponential
from case_studies.iterative.study import CONCRETE, EXPONENTS, PRECONDITIONERS, SCALES, Cell, Group, Scale, cells
from pmgp.core.iterative import preconditioners
from pmgp.interface.covariance import kept

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
    """Those whose preconditioner is determined by the article.

    Inner tolerances, the SVD's projections and the grid are not.
    """
    beside = results.beside_authors(stored)
    settled = beside[~beside["preconditioner"].isin(["regularized", "SVD", "structured interpolation"])]
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
    """It has all cells of Concrete, each once."""
    scale = SCALES["quick"]
    chosen = [cell for cell in cells(scale) if cell.data == CONCRETE]
    assert len(chosen) == len(EXPONENTS) * len(PRECONDITIONERS)
    assert not stored.duplicated(results.KEY).any()
    assert results.without_lines(results.table_of(results.FOLDER / "quick.csv"), chosen, scale.settings) == []


@pytest.fixture
def small(monkeypatch):
    """Forty points in place of Concrete."""
    X = np.random.default_rng(0).standard_normal((40, 2))
    monkeypatch.setattr(study, "concrete", lambda: (X, X[:, 0]))
    return Scale("small", 1, (-1,), 2, 500, {})


def test_solvers_side_by_side_take_the_iterations_that_each_takes_alone(small, tmp_path):
    [group] = study.groups(Cell(name, noise, 0) for noise in (-1, -2) for name in PRECONDITIONERS)
    finished = study.run_group(small, tmp_path, group)
    for cell, result, _ in finished:
        iterations = result["iterations"]
        assert len(iterations) == (1 if cell.preconditioner in study.ONCE else 2)
        # Products with more columns are rounded otherwise; with less noise that makes a difference of four iterations.
        assert iterations[0] == pytest.approx(study.iterations(small, cell, 0), rel=0.1, abs=2.0)
        assert max(iterations) < 500 or cell.preconditioner == "regularized"
    lines = results.rows(small, finished)
    assert lines["most"].tolist() == [max(result["iterations"]) for _, result, _ in finished]
    assert lines["log_noise"].tolist() == [-1] * len(PRECONDITIONERS) + [-2] * len(PRECONDITIONERS)


def test_a_group_that_is_stopped_keeps_the_cells_that_have_ended(small, tmp_path, monkeypatch):
    group = Group(CONCRETE, 0, (Cell("none", -1, 0), Cell("Nystrom", -6, 0)))
    with monkeypatch.context() as patched:
        patched.setitem(PRECONDITIONERS, "Nystrom", _stopping_after(40))
        with pytest.raises(KeyboardInterrupt):
            study.run_group(small, tmp_path, group)
    first, second = study.run_group(small, tmp_path, group)
    assert first.resumed
    assert not second.resumed
    assert first.result["iterations"] == [pytest.approx(study.iterations(small, first.cell, 0), abs=2.0)]


def _stopping_after(products):
    """A preconditioner that does nothing, and is interrupted."""

    class Interrupted(preconditioners.Identity):
        made = 0

        def solve(self, x):
            self.made += 1
            if self.made > products:
                raise KeyboardInterrupt
            return x

    return lambda problem: Interrupted(len(problem.X))


def test_groups_have_every_cell_once_and_share_one_length_scale():
    chosen = [cell for cell in cells(SCALES["paper"]) if cell != Cell("spectral", -4, 0, "protein")]
    made = study.groups(chosen)
    assert sorted(cell for group in made for cell in group.cells) == sorted(chosen)
    assert all(cell.log_lengthscale == group.log_lengthscale for group in made for cell in group.cells)
    assert len({group.name for group in made}) == len(made) == 3 * len(EXPONENTS)
    assert len({cell.name for cell in chosen}) == len(chosen)


def test_no_convergence_counts_as_the_cap(small):
    assert study.iterations(Scale("small", 1, (-2,), 1, 2, {}), Cell("none", -6, 0), 0) == 2


def test_products_of_a_preconditioner_count_towards_the_cap(small):
    """There are fewer outer iterations, and the preconditioner stops early, not at the end."""
    cell = Cell("regularized", -2, 0)
    whole = study.iterations(small, cell, 0)
    made = []

    def counted(problem):
        made.append(PRECONDITIONERS["regularized"](problem))
        return made[0]

    assert study.iterations(replace(small, cap=50), cell, 0, counted) == 50
    assert 50 < made[0].products < 100 < whole < small.cap


def test_a_preconditioner_that_is_not_positive_counts_as_the_cap(small):
    class Negative(preconditioners.Identity):
        def solve(self, x):
            return -x

    found = study.iterations(small, Cell("none", -1, 0), 0, lambda problem: Negative(len(problem.X)))
    assert found == 500 > study.iterations(small, Cell("none", -1, 0), 0)


def test_tiles_are_the_matrix(monkeypatch):
    """Bands that do not divide the rows; half of the matrix would be the twin."""
    monkeypatch.setattr(kept, "HEIGHT", 5)
    rng = np.random.default_rng(2)
    X, v = rng.standard_normal((23, 3)), rng.standard_normal((23, 2))
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    tiles = Tiles(X)
    assert tiles.product(v) == pytest.approx(K @ v, abs=1e-12)
    assert np.abs(np.tril(K) @ v - K @ v).max() > 0.1
    assert tiles.columns(np.array([3, 7])) == pytest.approx(K[:, [3, 7]])
    assert tiles.block(slice(4, 9)) == pytest.approx(K[4:9, 4:9])


def test_few_large_elements_are_stored_as_a_sparse_matrix():
    """Products differ by rounding; without the elements below .001 they would differ by more."""
    rng = np.random.default_rng(3)
    X, v = rng.uniform(0.0, 400.0, (1300, 2)), rng.standard_normal((1300, 2))
    kernel, exact = squared_exponential(X), Tiles(X).product(v)
    assert isinstance(kernel, Sparse)
    assert np.abs(kernel.product(v) - exact).max() < 1e-12
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    assert np.abs(np.where(K < 1e-3, 0.0, K) @ v - exact).max() > 1e-4
    assert not isinstance(squared_exponential(X / 40.0), Sparse)


def test_a_smooth_covariance_is_stored_as_a_factor():
    """What is left has a trace of 1e-8 at most; with half of the rows, it is more than a thousand times as large."""
    rng = np.random.default_rng(4)
    X, v = rng.uniform(0.0, 4.0, (700, 2)), rng.standard_normal((700, 2))
    kernel, K = squared_exponential(X / 6.0), np.exp(-0.5 * cdist(X, X, "sqeuclidean") / 36.0)
    assert isinstance(kernel, Factorized)
    product = kernel.product(np.eye(700))
    assert abs(np.trace(K - product)) < 1e-8
    assert np.linalg.eigvalsh(K - product).min() > -1e-12
    assert np.abs(kernel.product(v) - K @ v).max() < 1e-8
    F = kernel._F
    half = Factorized(X, F[: len(F) // 2])
    assert np.trace(K - half.product(np.eye(700))) > 1e-5
    assert kernel.block(slice(4, 9)) == pytest.approx(K[4:9, 4:9])
    assert isinstance(squared_exponential(X), Tiles)


def test_a_solver_that_fails_ends_the_others():
    """No solver waits for one that has ended, and the error is the first one's."""
    kernel = Tiles(np.zeros((3, 1)))

    def endless(shared):
        while True:
            shared.product(np.ones((3, 1)))

    def failing(shared):
        shared.product(np.ones((3, 1)))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        side_by_side(kernel, [failing, endless, lambda shared: shared.product(np.ones((3, 2)))])


def test_cells_with_fewer_rows_are_not_compared(stored):
    fewer = stored.assign(n=np.where(stored["log_lengthscale"] == 0, 5, stored["n"]))
    assert 0 not in set(results.beside_authors(fewer)["log_lengthscale"])
    assert 0 in set(results.beside_authors(stored)["log_lengthscale"])


def test_the_figure_is_drawn(stored, tmp_path):
    figures.save(results.beside_authors(stored), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert isinstance(stored, pd.DataFrame)
