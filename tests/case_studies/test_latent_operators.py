"""The study of the latent operators: its data, one cell, and its tables."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from case_studies.latent_operators import comparison, results, study
from case_studies.latent_operators.__main__ import run
from case_studies.latent_operators.study import Cell
from case_studies.tools import simulation
from case_studies.tools.grid import Finished, Grid
from case_studies.tools.rows import settings
from case_studies.tools.stream import stream
from pmgp.core import likelihoods
from pmgp.core.gaussians import DensePrior
from pmgp.interface.executors import executor_of

TINY = study.Scale("tiny", seed=1, chains=3, tune=20, draws=60, checkpoints=(20, 60), datasets=2)


# ---- data


def test_f_is_the_same_for_all_models(monkeypatch):
    """All models of one n, d and data set have the same f; another data set has another f."""
    seen = []
    original = simulation.likelihood

    def spy(model, f, rng):
        seen.append((model, f))
        return original(model, f, rng)

    monkeypatch.setattr(simulation, "likelihood", spy)
    for dataset in (0, 1):
        for model in simulation.MODELS:
            study.run_cell(TINY, Cell(12, 2, dataset, model, "MH v2"))
    first, second = seen[:4], seen[4:]
    assert [model for model, _ in first] == ["LRG", "LCX", "VLT", "ORD"]
    for group in (first, second):
        for _, f in group[1:]:
            np.testing.assert_array_equal(f, group[0][1])
    assert not np.allclose(first[0][1], second[0][1])


def test_simulated_values_have_the_articles_distribution():
    data = [simulation.simulate(30, 3, stream(1, index)) for index in range(300)]
    lengthscales = np.concatenate([one.log_lengthscales for one in data])
    assert lengthscales.min() > -3.0
    assert lengthscales.max() < -1.0
    f = np.stack([one.f for one in data])
    # Latent values at different inputs are correlated, those of different data sets are not.
    variances = np.square(f).mean(axis=1)
    error = variances.std(ddof=1) / np.sqrt(len(data))
    assert abs(variances.mean() - np.exp(2.0)) < 4.0 * error


def test_observations_follow_the_latent_values(rng):
    """Means and variances of y given a constant f, for each model; the ordinal categories are equally probable."""
    f = np.full(40_000, 0.7)
    draw = {name: simulation.likelihood(name, f, rng) for name in ("LRG", "LCX", "VLT")}
    share = np.mean(draw["LRG"].log_density(f) > np.log(0.5))
    assert abs(share - 1.0 / (1.0 + np.exp(-0.7))) < 4.0 * 0.5 / np.sqrt(f.size)
    assert abs(draw["LCX"].y.mean() - np.exp(0.7)) < 4.0 * np.sqrt(np.exp(0.7) / f.size)
    squares = np.exp(draw["VLT"].log_square - 2.0 * 0.7)
    assert abs(squares.mean() - 1.0) < 4.0 * np.sqrt(2.0 / f.size)

    wide = np.sqrt(simulation.VARIANCE) * rng.standard_normal(40_000)
    ordinal = simulation.likelihood("ORD", wide, rng)
    assert isinstance(ordinal, likelihoods.OrdinalProbit)
    shares = [np.mean(ordinal.upper == limit) for limit in ordinal.limits[1:]]
    np.testing.assert_allclose(shares, 0.2, atol=4.0 * 0.4 / np.sqrt(wide.size))


def test_an_unknown_model_is_refused(rng):
    with pytest.raises(ValueError, match="LRG, LCX, VLT, ORD, not 'XYZ'"):
        simulation.likelihood("XYZ", np.zeros(3), rng)


def test_the_covariance_is_the_articles():
    X, log_lengthscales = np.array([[0.1, 0.2], [0.4, 0.9]]), np.array([-1.0, -2.0])
    distance = (0.3 / np.exp(-1.0)) ** 2 + (0.7 / np.exp(-2.0)) ** 2
    expected = np.exp(2.0) * np.array([[1.0, np.exp(-0.5 * distance)], [np.exp(-0.5 * distance), 1.0]])
    np.testing.assert_allclose(simulation.covariance(X, log_lengthscales), expected, rtol=2e-6)


# ---- one cell


@pytest.mark.parametrize("operator", study.OPERATORS)
def test_a_cell_is_complete_and_reproducible(operator):
    first, second = (study.run_cell(TINY, Cell(15, 2, 0, "LRG", operator)) for _ in range(2))
    assert first.pop("seconds") > 0.0
    second.pop("seconds")
    assert first == second
    assert len(first["ess"]) == len(first["ess_autoregressive"]) == TINY.chains
    assert list(first["rhat"]) == ["20", "60"]
    assert all(value > 0.9 for value in first["rhat"].values())
    assert 0.0 < first["acceptance"] <= 1.0


def test_another_data_set_has_one_chain():
    result = study.run_cell(TINY, Cell(15, 2, 1, "LRG", "MH v1"))
    assert len(result["ess"]) == 1
    row = results.row(TINY, Finished(Cell(15, 2, 1, "LRG", "MH v1"), result, False))
    assert row["chains"] == 1
    assert np.isnan([row["ess_sd"], row["ess_ar_sd"], row["rhat_20"], row["rhat_60"]]).all()


def test_operations_are_those_of_the_articles_table_1():
    """Preparation as printed, and nothing in sampling but SMMALA's factorization of each proposal."""
    counts = {name: study.run_cell(TINY, Cell(15, 2, 0, "LRG", name)) for name in study.OPERATORS if name != study.OURS}
    prepared = {name: tuple(count["preparation"].values()) for name, count in counts.items()}
    once = (1, 0, 0)
    assert prepared == {
        "MH v1": once, "MH v2": once, "SMMALA": (1, 1, 0), "ELL-SS": once, "HMC v1": (2, 1, 0), "HMC v2": once,
    }  # fmt: skip
    sampled = {name: tuple(count["sampling"].values()) for name, count in counts.items()}
    assert sampled.pop("SMMALA") == (TINY.draws, 0.0, 0.0)
    assert set(sampled.values()) == {(0.0, 0.0, 0.0)}


def test_chains_start_at_draws_of_the_prior_that_all_operators_share(monkeypatch):
    starts: dict[str, list[np.ndarray]] = {}
    original = study.run_chain

    def spy(rng, operator, target, start, scale):
        starts.setdefault(type(operator).__name__, []).append(start)
        return original(rng, operator, target, start, scale)

    monkeypatch.setattr(study, "run_chain", spy)
    for name in ("MH v2", "ELL-SS"):
        study.run_cell(TINY, Cell(10, 2, 0, "LCX", name))
    np.testing.assert_array_equal(starts["MetropolisUpdate"], starts["EllipticalSliceUpdate"])
    assert not np.allclose(starts["EllipticalSliceUpdate"][0], starts["EllipticalSliceUpdate"][1])


def test_random_numbers_differ_between_chains():
    """No two chains share theirs, whatever the cell; and those that data and starts are made of are others again."""
    cells = study.cells([100, 400], [2, 10], [0, 1])
    chains = [study._chain_stream(TINY, cell, index).random() for cell in cells for index in range(3)]
    start = study._start_stream(TINY, Cell(100, 2, 0, "LRG", "MH v1"), 0)
    others = [one.random() for one in (start, stream(TINY.seed, "data", 100, 2, 0))]
    assert len({*chains, *others}) == 2 * 2 * 2 * 4 * 7 * 3 + 2


def test_a_cell_samples_the_posterior():
    """One observation, whose posterior mean is known by quadrature."""
    scale = dataclasses.replace(TINY, chains=4, tune=500, draws=4000, checkpoints=(4000,))
    y = likelihoods.LogGaussianCox(np.array([3]))
    grid = np.linspace(-12.0, 8.0, 20_001)
    log_density = y.log_density(grid[:, None])[:, 0] - 0.5 * grid**2 / simulation.VARIANCE
    weights = np.exp(log_density - log_density.max())
    expected = float(weights @ grid / weights.sum())

    prior = DensePrior(np.zeros(1), np.asfortranarray([[simulation.VARIANCE]]))
    operator = study.OPERATORS["HMC v2"]
    target = operator.prepare(prior, y)
    chains = [study.run_chain(stream(5, index), operator, target, np.array([2.0]), scale) for index in range(4)]
    means = np.array([chain.moments.means[-1, 0] for chain in chains])
    error = np.sqrt(np.mean([chain.moments.variances[-1, 0] / chain.ess for chain in chains]) / len(chains))
    assert abs(means.mean() - expected) < 4.0 * error
    assert error < 0.02


# ---- the grid and the tables


def test_the_grid_has_whole_data_sets_first():
    cells = list(study.cells([100], [2, 10], [0, 1]))
    assert len(cells) == len({cell.name for cell in cells}) == 2 * 2 * 4 * 7
    assert {cell.dataset for cell in cells[: len(cells) // 2]} == {0}


def test_a_run_writes_the_table_and_a_second_one_only_adds(tmp_path, capsys):
    grid, out = Grid(tmp_path / "runs", TINY.settings()), results.table_of(tmp_path / "tiny.csv")
    first = list(study.cells([10], [2], [0], ["LRG"], ["MH v1", "HMC v2"]))
    run(TINY, first, grid, out)
    before = out.read()
    run(TINY, list(study.cells([10], [2], [0, 1], ["LRG"], ["MH v1", "HMC v2"])), grid, out)
    after = out.read()
    assert capsys.readouterr().out.count("kept") == 2
    pd.testing.assert_frame_equal(after[:2], before)
    assert after[results.KEY].to_numpy().tolist() == [
        [10, 2, 0, "LRG", "MH v1"],
        [10, 2, 0, "LRG", "HMC v2"],
        [10, 2, 1, "LRG", "MH v1"],
        [10, 2, 1, "LRG", "HMC v2"],
    ]
    assert set(after["scale"]) == {"tiny"}
    assert not after[["seed", "version", "machine", "streams"]].isna().any(axis=None)


def test_two_processes_give_what_one_gives(tmp_path, capsys):
    cells = list(study.cells([10], [2], [0], ["LRG", "VLT"], ["MH v1"]))
    tables = {workers: results.table_of(tmp_path / f"{workers}.csv") for workers in (None, 2)}
    for workers, table in tables.items():
        run(TINY, cells, Grid(tmp_path / str(workers), TINY.settings()), table, executor_of(workers, None))
    one, two = (table.read().drop(columns="seconds") for table in tables.values())
    pd.testing.assert_frame_equal(one, two)
    assert one["ess_mean"].nunique() == 2
    where = capsys.readouterr().out.splitlines()[-2:]
    assert [line.split()[0] for line in sorted(where)] == sorted(cell.name for cell in cells)
    assert all("process" in line and line.endswith(" s") for line in where)


def test_cells_that_the_table_has_are_not_missing(tmp_path):
    grid, out = Grid(tmp_path / "runs", TINY.settings()), results.table_of(tmp_path / "tiny.csv")
    chosen = list(study.cells([10], [2], [0, 1], ["LRG"], ["MH v1"]))
    assert out.missing(chosen, settings(TINY)) == chosen
    run(TINY, chosen[:1], grid, out)
    assert out.missing(chosen, settings(TINY)) == chosen[1:]
    assert out.missing(chosen, settings(dataclasses.replace(TINY, seed=2))) == chosen


def cells_with(ess: dict[int, list[float]], rhat: dict[int, float]) -> pd.DataFrame:
    """Rows of one operator on several data sets, with given ESS of the chains and last R-hat."""
    result = study.run_cell(TINY, Cell(8, 2, 0, "LRG", "MH v1"))
    finished = [
        Finished(
            Cell(100, 2, dataset, "LRG", "MH v1"),
            result | {"ess": values, "rhat": {"20": 3.0, "60": rhat[dataset]}},
            False,
        )
        for dataset, values in ess.items()
    ]
    return results.table(TINY, finished)


def test_the_spread_is_over_all_chains_of_all_data_sets():
    ess = {0: [10.0, 12.0, 20.0], 1: [40.0, 41.0, 48.0], 2: [5.0, 5.0, 5.0]}
    summary = comparison.pooled(cells_with(ess, {0: 1.05, 1: 1.2, 2: 9.0})).loc[100, 2, "LRG", "MH v1"]
    every = np.concatenate(list(ess.values()))
    assert summary["ess_mean"] == pytest.approx(every.mean())
    assert summary["ess_sd"] == pytest.approx(every.std(ddof=1))
    assert summary["rhat_60"] == 1.2


def test_the_table_shows_our_figures_beside_the_articles():
    cells = cells_with({0: [10.0, 12.0, 20.0]}, {0: 1.05})
    row = comparison.table(cells, 100).loc[("LRG", "MH v1"), "d = 2"]
    assert row["ESS"] == "14 (5)"
    assert row["article"] == "67 (15)"
    assert row["R-hat"] == "█▁"


def test_the_articles_numbers_are_complete():
    article = results.read("article")
    assert len(article) == 2 * 2 * 4 * 6
    assert not article.duplicated([*results.KEY[:2], "model", "operator"]).any()
    rows = results.read("article_ordering")
    legible = rows.loc[rows["legible"] == "yes", "ordering"]
    assert len(legible) == 11
    for text in legible:
        assert sorted(text.replace("|", ",").split(",")) == list("123456")
