"""What the case studies share: summaries agree with ArviZ and with the articles' notation, grids resume."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats
from threadpoolctl import threadpool_info, threadpool_limits

from case_studies.tools.autoregressive_size import autoregressive_sizes
from case_studies.tools.bars import bars, levels
from case_studies.tools.convergence import moments_at, rhat_at
from case_studies.tools.effective_size import effective_sizes
from case_studies.tools.grid import Grid
from case_studies.tools.ordering import ordering
from case_studies.tools.table import Table


def autoregression(rng: np.random.Generator, draws: int, correlation: float, columns: int = 12) -> np.ndarray:
    """Stationary chains x_t = correlation x_(t-1) + e_t with unit variance."""
    x = rng.standard_normal((draws, columns))
    x[1:] *= np.sqrt(1.0 - correlation**2)
    for t in range(1, draws):
        x[t] += correlation * x[t - 1]
    return x


# ---- effective sample sizes


@pytest.mark.parametrize("draws", [50, 501, 4000])
@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.9, 0.999])
def test_effective_sizes_are_those_of_arviz(rng, draws, correlation):
    x = autoregression(rng, draws, correlation)
    expected = array_stats.ess(x.T[:, None, :], method="mean")
    np.testing.assert_allclose(effective_sizes(x), expected, rtol=1e-9)


def test_a_variable_that_never_moved_is_worth_one_draw(rng):
    x = autoregression(rng, 200, 0.5, columns=2)
    x[:, 0] = 3.0
    assert effective_sizes(x)[0] == autoregressive_sizes(x)[0] == 1.0
    assert effective_sizes(x)[1] > 20.0


@pytest.mark.parametrize("x", [np.zeros((5, 2)), np.full((20, 2), np.nan)])
def test_effective_sizes_refuse_what_says_nothing(x):
    with pytest.raises(ValueError, match="at least 8 draws, all finite"):
        effective_sizes(x)


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.9])
def test_autoregressive_sizes_find_the_spectral_density_of_an_autoregression(rng, correlation):
    """N (1 - a) / (1 + a) for a first-order autoregression; relative error about sqrt(order / N) a column."""
    draws, columns = 5000, 40
    sizes = autoregressive_sizes(autoregression(rng, draws, correlation, columns))
    expected = draws * (1.0 - correlation) / (1.0 + correlation)
    error = sizes.std(ddof=1) / np.sqrt(columns)
    assert abs(sizes.mean() - expected) < 4.0 * error + 0.01 * expected
    assert sizes.std(ddof=1) < 0.2 * expected


# ---- R-hat


def test_rhat_at_checkpoints_is_that_of_arviz(rng):
    chains = [autoregression(rng, 300, 0.95, columns=3) + shift for shift in (0.0, 0.3, 1.0)]
    checkpoints = (50, 120, 300)
    ours = rhat_at([moments_at(chain, checkpoints) for chain in chains], checkpoints)
    for row, count in zip(ours, checkpoints, strict=True):
        stacked = np.stack([chain[:count].T for chain in chains], axis=1)
        np.testing.assert_allclose(row, array_stats.rhat(stacked, method="identity"), rtol=1e-10)


def test_chains_that_never_moved_have_not_converged():
    moments = [moments_at(np.full((10, 1), value), (10,)) for value in (0.0, 1.0)]
    assert np.isinf(rhat_at(moments, (10,))).all()


def test_rhat_needs_chains_and_checkpoints_that_exist(rng):
    x = rng.normal(size=(10, 2))
    with pytest.raises(ValueError, match="only one"):
        rhat_at([moments_at(x, (10,))], (10,))
    for wrong in ((1, 5), (5, 11)):
        with pytest.raises(ValueError, match="checkpoints must lie between 2 and the 10"):
            moments_at(x, wrong)


# ---- the article's notation


def test_bars_have_the_heights_of_the_article():
    rhats = [5.0, 2.0, 1.99, 1.3, 1.29, 1.1, 1.09, 1.0, np.inf, np.nan]
    assert levels(rhats).tolist() == [3, 3, 2, 2, 1, 1, 0, 0, 3, 3]
    assert bars([5.0, 1.5, 1.2, 1.0]) == "█▅▃▁"
    assert bars([np.nan, 1.2]) == "█▃"
    assert bars([np.nan, np.nan]) == "–"


def test_ordering_separates_what_differs_and_joins_what_does_not():
    clearly_apart = {1: np.arange(10) + 100.0, 2: np.arange(10.0), 3: np.arange(10) + 50.0}
    assert ordering(clearly_apart) == "2|3|1"
    alike = {4: [1.0, 2.0, 3.0, 4.0, 5.0], 5: [1.5, 2.5, 3.5, 4.5, 5.5], 6: [10.0, 11.0, 12.0, 13.0, 14.0]}
    assert ordering(alike) == "4,5|6"


def test_two_values_a_method_separate_nothing():
    assert ordering({1: [1.0, 1.1], 2: [5.0, 6.0]}) == "1,2"


# ---- the grid


class Square(NamedTuple):
    """A cell for these tests."""

    number: int

    @property
    def name(self) -> str:
        return f"square-{self.number}"


def test_a_finished_cell_is_not_run_again(tmp_path):
    ran = []

    def compute(cell):
        ran.append(cell.number)
        if cell.number == 3:
            raise KeyboardInterrupt
        return {"square": cell.number**2}

    grid = Grid(tmp_path / "runs", {"seed": 1})
    cells = [Square(number) for number in (1, 2, 3)]
    with pytest.raises(KeyboardInterrupt):
        list(grid.run(cells, compute))
    resumed = list(grid.run(cells[:2], compute))
    assert ran == [1, 2, 3]
    assert [(one.cell.number, one.result["square"], one.resumed) for one in resumed] == [(1, 1, True), (2, 4, True)]
    assert grid.finished(cells[2]) is None


def test_other_settings_are_another_study(tmp_path):
    cell = Square(2)
    list(Grid(tmp_path, {"draws": (10, 20)}).run([cell], lambda cell: {"square": 4}))
    assert Grid(tmp_path, {"draws": (10, 20)}).finished(cell) == {"square": 4}
    assert Grid(tmp_path, {"draws": (10, 30)}).finished(cell) is None
    (again,) = Grid(tmp_path, {"draws": (10, 30)}).run([cell], lambda cell: {"square": -4})
    assert not again.resumed
    assert again.result == {"square": -4}


def test_a_file_that_was_not_finished_is_not_taken_for_a_cell(tmp_path, monkeypatch):
    """What is written under the draft's name must not be found, or a run that is killed would leave half a cell."""
    grid, cell = Grid(tmp_path, {}), Square(5)
    monkeypatch.setattr("pathlib.Path.replace", lambda self, target: None)
    list(grid.run([cell], lambda cell: {"square": 25}))
    assert grid.finished(cell) is None
    (draft,) = tmp_path.iterdir()
    assert json.loads(draft.read_text())["result"] == {"square": 25}


def test_a_cell_has_one_core(tmp_path):
    def threads(_=None):
        return {"threads": max(library["num_threads"] for library in threadpool_info())}

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        (one,) = Grid(tmp_path, {}).run([Square(6)], threads)
        assert threads() == before
    assert one.result == {"threads": 1}


@pytest.mark.parametrize(("numbering", "steps"), [(1, [0, 5]), (0, [0, 2, 5])])
def test_a_new_run_replaces_the_numbered_rows_of_its_cell_together(tmp_path, numbering, steps):
    table = Table(tmp_path / "table.csv", ["method", "step"], lambda frame: frame.sort_values("step"), numbering)
    table.merge(pd.DataFrame({"method": ["a", "a", "b"], "step": [0, 2, 2], "value": 1.0}))
    table.merge(pd.DataFrame({"method": ["a", "a"], "step": [0, 5], "value": 2.0}))
    found = table.read()
    assert list(found["step"][found["method"] == "a"]) == steps
    assert list(found["value"][found["method"] == "b"]) == [1.0]
