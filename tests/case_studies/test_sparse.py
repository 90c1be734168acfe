"""The study of sparse processes: splits, times, scores, R-hat, the tables and the pictures."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import logsumexp, ndtr

import pmgp
from case_studies.sparse import chains, comparison, data, figures, held_out, pictures, problems, results, study
from case_studies.sparse.chains import Clock, Run, Size
from case_studies.sparse.optimum import optimum
from case_studies.sparse.scales import SAMPLERS, Cell
from case_studies.sparse.study import SCALES, Convergence, Fit, HeldOut
from case_studies.tools.grid import Grid
from pmgp.interface.sampling.stored_run import StoredRun
from pmgp.interface.sparse.diagnosis import NEGLIGIBLE, Diagnosis

TINY = dataclasses.replace(
    SCALES["quick"],
    name="tiny",
    sizes={"coal": Size(2, 30, 40), "toy": Size(1, 20, 20), "pima": Size(1, 10, 10), "exact": Size(1, 10, 10)},
    seen={"toy": 30, "pima": 30},
    held_out={"pima": 10},
    cells=(Cell("coal", "isotropic", "grid", 30, SAMPLERS, Size(3, 20, 40)),),
    checkpoints=(20, 40, 80),
    kept=20,
)
COAL = Fit("coal", 0, "isotropic", "grid", 10, "Gibbs")


def small_classes(rng: np.random.Generator) -> problems.Problem:
    X = rng.normal(size=(30, 2))
    X_new = rng.normal(size=(12, 2))
    labels, new = ((x[:, 0] > 0).astype(int) for x in (X, X_new))
    return problems.problem("small", data.Data(X, labels, X_new, new))


# ---- data


def test_halves_of_coal_are_all_disasters_in_the_same_bins():
    split, other = data.coal(3), data.coal(4)
    assert split.y.sum() == data.DISASTERS
    assert split.y_new.sum() == 191 - data.DISASTERS
    np.testing.assert_array_equal(split.y + split.y_new, other.y + other.y_new)
    assert not np.array_equal(split.y, other.y)
    assert len(split.X) == data.BINS
    assert split.width == pytest.approx((1962.220 - 1851.203) / data.BINS, abs=1e-3)
    np.testing.assert_allclose(np.diff(split.X[:, 0]), split.width)


def test_gaussians_have_their_moments():
    drawn = data.gaussians(np.random.default_rng(0), 20_000)
    for label, (mean, covariance) in enumerate(data.GAUSSIANS):
        points = drawn.X[drawn.y == label]
        error = 4.0 * np.sqrt(np.diag(covariance) / len(points))
        assert (np.abs(points.mean(axis=0) - mean) < error).all()
        np.testing.assert_allclose(np.cov(points.T), covariance, atol=0.2)
        assert len(points) == pytest.approx(20_000 / 3, abs=4 * np.sqrt(20_000 * 2 / 9))


def test_rows_that_are_held_out_are_not_seen_and_do_not_scale():
    split = data.two_classes("crabs", np.random.default_rng(1), 120, 80)
    assert (split.X.shape, split.X_new.shape) == ((120, 6), (80, 6))
    np.testing.assert_allclose(split.X.mean(axis=0), 0.0, atol=1e-12)
    assert np.abs(split.X_new.mean(axis=0)).max() > 1e-3
    both = np.unique(np.concatenate([split.X, split.X_new]).round(9), axis=0)
    assert len(both) == 200
    assert split.y.sum() + split.y_new.sum() == 100


def test_a_failed_sensor_is_left_out():
    X = np.random.default_rng(2).normal(size=(50, 3))
    X[7, 1] = 1e4
    kept, labels = data._without_outliers(X, np.arange(50))
    assert len(kept) == 49
    assert 7 not in labels


def test_data_of_a_name_and_a_split_are_the_same_again():
    first, again, other = (data.load("toy", split, 5, 20, 0) for split in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)


def test_files_that_are_not_there_are_known(monkeypatch, tmp_path):
    monkeypatch.setenv("PMGP_DATA", str(tmp_path))
    assert not data.available("pines 32")
    (tmp_path / data.FILES["pines"]).write_text("x,y\n0.05,0.95\n0.05,0.95\n")
    assert data.available("pines 32")
    found = data.pines(4)
    assert found.y.reshape(4, 4)[0, 3] == found.y.sum() == 2
    np.testing.assert_allclose(found.X[3], [1.25, 8.75])
    assert found.width == 6.25


# ---- chains


def test_the_clock_tells_tuning_from_drawing(monkeypatch):
    times = iter([10.0, 13.0, 14.0, 14.5, 15.0, 17.0])
    monkeypatch.setattr(chains.time, "process_time", lambda: next(times))
    clock = Clock()
    for tuning in (True, True, False, False, True):
        clock(None, SimpleNamespace(tuning=tuning))
    assert (clock.tuning, clock.drawing) == (6.0, 1.0)


def test_the_clock_of_chains_that_go_on_has_what_was_counted_before(monkeypatch, tmp_path):
    times = iter([0.0, 5.0, 7.0, 100.0, 101.5])
    monkeypatch.setattr(chains.time, "process_time", lambda: next(times))
    first = Clock(tmp_path / "seconds.json")
    for tuning in (True, False):
        first(None, SimpleNamespace(tuning=tuning))
    second = Clock(tmp_path / "seconds.json")
    second(None, SimpleNamespace(tuning=False))
    assert (second.tuning, second.drawing) == (5.0, 3.5)


class Killed(BaseException):
    """Ends a process, as far as a test can."""


@pytest.mark.parametrize("method", ["Gibbs", "HMC"])
def test_chains_that_were_killed_go_on_where_they_were(sampled, monkeypatch, tmp_path, method):
    """In the second chain, and to the draws that there are without a folder."""
    given, _, model, _, _ = sampled
    made = 0

    def counted(clock, trace, draw):
        nonlocal made
        made += 1
        if made == 70:
            raise Killed

    def run(folder):
        rng = np.random.default_rng(8)
        starts = [given.start(rng, "ARD") for _ in range(2)]
        return Run.of(model, method, Size(2, 20, 30), starts, rng, folder).idata["posterior"]["f_rotated_"]

    expected = run(None)
    with monkeypatch.context() as during:
        during.setattr(chains.Clock, "__call__", counted)
        during.setitem(pmgp.__dict__, "sample", partial(pmgp.sample, flush_every=0.0))
        with pytest.raises(Killed):
            run(tmp_path / "unit")
        [first, second] = StoredRun.load(tmp_path / "unit" / "chains-2-20-30").chains()
        assert (first.iterations, 0 < second.iterations <= 20) == (50, True)
        made = -1000
        xr.testing.assert_equal(run(tmp_path / "unit"), expected)


def run_of(draws: np.ndarray, tuning: float = 3.0, drawing: float = 2.0) -> Run:
    """Chains (chains, draws) of theta, with three whitened values that are independent draws."""
    v = np.random.default_rng(3).normal(size=(*draws.shape, 3))
    posterior = xr.Dataset({"f_rotated_": (("chain", "draw", "i"), v), "variance": (("chain", "draw"), draws)})
    return Run(xr.DataTree.from_dict({"posterior": posterior}), tuning, drawing)


def slow_chains(chains: int, draws: int) -> np.ndarray:
    noise = np.random.default_rng(4).normal(size=(chains, draws))
    values = np.zeros_like(noise)
    for t in range(1, draws):
        values[:, t] = 0.8 * values[:, t - 1] + noise[:, t]
    return values


def test_effective_sizes_are_normalized_by_the_seconds_of_drawing():
    found = chains.summary(run_of(slow_chains(4, 2000)))
    # An autoregression with coefficient a has (1 - a) / (1 + a) effective draws in one.
    assert found["ess"] == pytest.approx(8000 / 9, rel=0.15)
    assert found["ess_theta"] == found["ess"]
    assert found["tn_ess"] == found["ess"] / 2.0
    assert found["tn_ess_with_tuning"] == found["ess"] / 5.0


def test_rhat_is_of_the_slowest_variables(monkeypatch):
    monkeypatch.setattr(chains, "SLOWEST", 1)
    draws = slow_chains(4, 400) + 5.0 * np.arange(4)[:, None]
    run = run_of(draws)
    values = chains.slowest_rhat(run, (100, 400))
    assert values.shape == (2, 1)
    within = draws.var(axis=1, ddof=1).mean()
    expected = np.sqrt((draws.mean(axis=1).var(ddof=1) * 400 / within + 399) / 400)
    assert values[-1, 0] == pytest.approx(expected)


# ---- scores


@pytest.fixture(scope="module")
def sampled():
    """A few draws of a small classifier."""
    given = small_classes(np.random.default_rng(5))
    Z = problems.inducing_inputs(np.random.default_rng(6), given.data, "kmeans", 8)
    model, process = problems.sparse(given, "ARD", Z)
    rng = np.random.default_rng(7)
    run = Run.of(model, "Gibbs", Size(2, 10, 10), [given.start(rng, "ARD") for _ in range(2)], rng)
    return given, Z, model, process, run


def test_the_held_out_score_is_that_of_brute_force(sampled):
    """The mean over draws of Phi(mean / sqrt(1 + variance)), with the process written out in NumPy."""
    given, Z, model, process, run = sampled
    found = held_out.prediction(process, model, run.idata, given.data, 20)
    density = found["log_density"].to_numpy()
    posterior = run.idata["posterior"].to_dataset().stack(all=("chain", "draw"))
    values, means = [], []
    for index in range(posterior.sizes["all"]):
        one = posterior.isel(all=index)
        scale, variance = one["lengthscale"].to_numpy(), float(one["variance"])

        def k(a, b, scale=scale, variance=variance):
            return variance * np.exp(-0.5 * np.square((a[:, None] - b) / scale).sum(axis=-1))

        A = np.linalg.solve(np.linalg.cholesky(k(Z, Z) + 1e-6 * np.eye(len(Z))), k(Z, given.data.X_new))
        mean, left = A.T @ one["f_rotated_"].to_numpy(), variance - np.square(A).sum(axis=0)
        sign = 2.0 * given.data.y_new - 1.0
        means.append(mean)
        values.append(np.log(ndtr(sign * mean / np.sqrt(1.0 + left))))
    np.testing.assert_allclose(density, logsumexp(values, axis=0) - np.log(len(values)), atol=1e-4)
    summary = held_out.summary(found, given.data)
    assert summary["score"] == density.mean()
    assert summary["wrong"] == np.mean((np.mean(means, axis=0) > 0) != given.data.y_new)


@pytest.fixture(scope="module")
def maxima():
    """The bound's maximum with inducing inputs as k-means has them, and optimized."""
    given = small_classes(np.random.default_rng(12))
    return [optimum(np.random.default_rng(13), given, "isotropic", kind, 4) for kind in ("kmeans", "optimized")]


def test_inducing_inputs_move_from_those_of_kmeans_to_a_larger_bound(maxima):
    fixed, moved = maxima
    np.testing.assert_array_equal(fixed.first, moved.first)
    np.testing.assert_array_equal(fixed.found.Z, fixed.first)
    assert np.abs(moved.found.Z - moved.first).max() > 1e-3
    assert moved.found.bounds[-1] > fixed.found.bounds[-1]


def test_chains_for_classes_start_from_the_gaussian_though_inducing_inputs_stay():
    unit = Fit("toy", 0, "isotropic", "kmeans", 6, "HMC")
    given = study._problem(TINY, "toy", 0)
    scale = dataclasses.replace(TINY, iterations={"toy": 20})
    prepared = study._prepared(np.random.default_rng(18), scale, given, unit, 2)
    assert prepared.best.seconds > 0.0
    np.testing.assert_array_equal(prepared.Z, prepared.best.first)
    for start in prepared.starts:
        assert np.square(start["f_rotated_"]).mean() > 0.01
        assert start["lengthscale"] == prepared.best.found.point["lengthscale"]


def test_draws_of_the_gaussian_are_a_posterior_with_theta_at_its_maximum(maxima):
    best = maxima[1]
    idata = best.draws(np.random.default_rng(14), 4000)
    v, lengthscale = (idata["posterior"][name].to_numpy()[0] for name in ("f_rotated_", "lengthscale"))
    spread = np.sqrt(np.square(best.found.factor[0]).sum(axis=1))
    assert (np.abs(v.mean(axis=0) - best.found.mean[0]) < 4.0 * spread / np.sqrt(4000)).all()
    assert set(lengthscale) == {float(best.found.point["lengthscale"])}
    X = np.zeros((1, 2))
    found = best.process.predict(idata, X, model=best.model, draws=4000)
    assert found["latent_mean"].shape == (1,)


def test_nothing_held_out_has_no_score(sampled):
    given, _, model, process, run = sampled
    nothing = given.data._replace(X_new=given.data.X_new[:0], y_new=given.data.y_new[:0])
    assert held_out.prediction(process, model, run.idata, nothing, 20) is None
    assert np.isnan(list(held_out.summary(None, nothing).values())).all()


def test_errors_are_of_paired_differences():
    reference = np.random.default_rng(8).normal(size=400)
    found = held_out.paired(reference + 0.1, reference)
    assert found["difference"] == pytest.approx(0.1)
    assert found["difference_error"] == pytest.approx(0.0, abs=1e-12)
    differences = np.random.default_rng(9).normal(size=400)
    error = held_out.paired(reference + differences, reference)["difference_error"]
    assert error == pytest.approx(differences.std(ddof=1) / 20.0)


def test_the_exact_chain_is_the_reference_of_the_comparison(monkeypatch):
    monkeypatch.delenv("PMGP_GPFLOW", raising=False)
    monkeypatch.setattr(held_out, "POINTS", (5,))
    monkeypatch.setattr(held_out, "FOLLOWED", 1)
    given = small_classes(np.random.default_rng(10))._replace(name="pima")
    lines = list(held_out.compared(np.random.default_rng(11), TINY, given))
    made = [line["points"] for line in lines if line["method"] == "sparse"]
    assert len(made) == 2
    assert [line["points"] for line in lines if line["method"] == "sparse, optimized"] == made == sorted(set(made))
    assert len(lines) == 1 + 2 * len(made)
    assert (lines[0]["difference"], lines[0]["points"]) == (0.0, 30)
    # Five inducing inputs say too little, and the diagnosis knows.
    assert lines[1]["penalty_deviation"] > 0.05
    wanted = 20 if np.isnan(lines[1]["enough"]) else lines[1]["enough"]
    assert 5 < lines[2]["points"] == wanted <= 30
    lines = lines[:2]
    assert lines[1]["difference"] == pytest.approx(lines[1]["score"] - lines[0]["score"])
    table = comparison.held_out(pd.DataFrame([line | {"problem": "pima", "split": 0} for line in lines * 2]))
    assert table["splits"].tolist() == [2, 2]
    assert table["difference_error"].iloc[1] == pytest.approx(lines[1]["difference_error"] / np.sqrt(2))


@pytest.mark.parametrize(
    ("deviation", "enough", "expected"), [(0.04, 10, None), (0.5, 25, 25), (0.5, None, 30), (0.5, 35, 30)]
)
def test_the_advice_is_followed_as_far_as_there_are_points(deviation, enough, expected):
    advice = Diagnosis(0.1, 1.0, deviation, {}, 10, enough, 1000)
    given = small_classes(np.random.default_rng(15))
    assert held_out.advised(advice, given.data) == expected


@pytest.mark.skipif(not data.available("eeg"), reason="the file of eeg is not there")
def test_fifty_inducing_inputs_are_too_few_for_eeg_and_the_diagnosis_says_so():
    """Their held-out log-likelihood is behind the exact chain's by many standard errors."""
    given = problems.problem("eeg", data.load("eeg", 0, 2015, 400, 600))
    Z = problems.inducing_inputs(np.random.default_rng(16), given.data, "kmeans", 50)
    model, process = problems.sparse(given, "isotropic", Z)
    rng = np.random.default_rng(17)
    run = Run.of(model, "Gibbs", Size(1, 100, 100), [given.start(rng, "isotropic")], rng)
    advice = process.diagnose(run.idata, model=model)
    assert advice.penalty_deviation > 10.0 * NEGLIGIBLE
    assert "Take" in str(advice)
    assert held_out.advised(advice, given.data) > 50


# ---- pictures


def test_draws_of_f_have_the_marginals_of_the_process(sampled):
    given, _, model, process, run = sampled
    f = pictures.latent_draws(run.idata, model, process, given.data.X, 20)
    expected = process.predict(run.idata, given.data.X, model=model)
    errors = 4.0 * np.sqrt(expected["latent_variance"] / len(f))
    assert (np.abs(f.mean(axis=0) - expected["latent_mean"]) < errors).all()


def test_numbers_keep_four_digits_and_their_shape():
    assert pictures.rounded([[1.23456, 1e-9], [0.0, 98765.0]]) == [[1.235, 1e-9], [0.0, 98760.0]]


# ---- tables


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One unit run into tables, with where they are."""
    folder = tmp_path_factory.mktemp("results")
    places = results.tables(folder, TINY.name)
    result = study.run(TINY, Grid(folder / "runs", results.settings(TINY, COAL)), COAL)
    places[Fit].merge(results.rows(TINY, COAL, result))
    results.keep_picture(folder, TINY, COAL, result)
    return folder, places, result


def test_a_finished_unit_is_not_missing_and_one_of_another_size_is(finished):
    _, places, _ = finished
    other = COAL._replace(split=1)
    assert results.missing(TINY, [COAL, other], places) == [other]
    longer = dataclasses.replace(TINY, sizes=TINY.sizes | {"coal": Size(2, 30, 50)})
    assert results.missing(longer, [COAL], places) == [COAL]
    assert results.missing(TINY, [Convergence("coal", "isotropic", "HMC")], places) != []


def test_what_is_there_is_not_run_again(finished, monkeypatch):
    folder, _, result = finished
    monkeypatch.setattr(study, "_fit", None)
    assert study.run(TINY, Grid(folder / "runs", results.settings(TINY, COAL)), COAL) == result


def test_chains_are_kept_until_the_unit_is_finished(finished, monkeypatch):
    folder, _, _ = finished
    assert not (folder / "runs" / COAL.name).exists()
    monkeypatch.setattr(study.held_out, "prediction", lambda *_: 1 / 0)
    other = COAL._replace(split=1)
    with pytest.raises(ZeroDivisionError):
        study.run(TINY, Grid(folder / "runs", results.settings(TINY, other)), other)
    assert (folder / "runs" / other.name / "chains-2-30-40").is_dir()


def test_a_picture_can_be_drawn_and_says_what_made_it(finished):
    folder, _, _ = finished
    [path] = folder.glob("*.json")
    stored = json.loads(path.read_text())
    assert (stored["scale"], stored["draws"]) == ("tiny", 40)
    picture = {name: np.array(values) for name, values in stored["picture"].items()}
    assert (picture["low"] < picture["mean"]).all()
    assert (picture["mean"] < picture["high"]).all()
    assert len(figures.rates(picture, picture).axes) == 2


def test_rhat_of_chains_is_one_line_a_checkpoint():
    unit = Convergence("coal", "isotropic", "Gibbs")
    lines = results.rows(TINY, unit, study._convergence(TINY, unit))
    assert lines["checkpoint"].tolist() == [20, 40]
    assert (lines[[f"rhat_{rank}" for rank in range(chains.SLOWEST)]] > 0.9).all(axis=None)
    table = comparison.efficiency(lines)
    assert table.loc[("coal", "isotropic", "Gibbs"), "percent"] == pytest.approx(100 * lines["ess"].iloc[0] / 120)
    assert table.loc[("coal", "isotropic", "Gibbs"), "article ESS"] == 9.7


def test_names_of_units_are_different():
    for scale in SCALES.values():
        every = study.units(scale)
        assert len({unit.name for unit in every}) == len(every)
        assert all(isinstance(unit, (Fit, Convergence, HeldOut)) for unit in every)


def test_stored_results_are_of_the_study():
    """Every committed line is of a unit of its scale, with that scale's settings."""
    for scale in SCALES.values():
        places = {
            kind: place for kind, place in results.tables(results.FOLDER, scale.name).items() if place.path.is_file()
        }
        for kind, place in places.items():
            known = {tuple(unit): unit for unit in study.units(scale) if isinstance(unit, kind)}
            for row in place.read().itertuples(index=False):
                unit = known[tuple(getattr(row, name) for name in kind._fields)]
                assert all(getattr(row, name) == value for name, value in results.settings(scale, unit).items())


def test_digits_stand_above_the_article_s_and_optima_have_no_draws():
    key = {"kernel": "isotropic", "inducing": "optimized", "points": 20, "seen": 100, "chains": 2, "draws": 30}
    scores = {"score": -0.5, "score_error": 0.1, "wrong": 0.25}
    lines = [
        key | scores | {"problem": problem, "method": method, "ess": ess}
        for problem in ("mnist", "toy")
        for method, ess in (("Gaussian", np.nan), ("HMC", 7.0))
    ]
    digits, toy = comparison.mnist(pd.DataFrame(lines)), comparison.toy(pd.DataFrame(lines))
    assert digits["right"].tolist()[:3] == [75.0, 75.0, 98.04]
    assert digits["seen"].tolist() == [100, 100, 60_000, 60_000]
    for table in (digits, toy):
        assert np.isnan(table["draws"].iloc[0])
        assert (table["draws"].iloc[1], table["ESS"].iloc[1]) == (60, 7.0)


def test_the_mode_for_digits_rises_and_is_a_start_of_the_model(rng):
    """With NumPy's gradients, so that nothing is compiled; the script needs JAX."""
    pytest.importorskip("jax")
    from case_studies.sparse import mnist_jax

    X = rng.normal(size=(30, 2))
    digits = problems.problem("mnist", data.Data(X, rng.integers(0, 3, 30), X, rng.integers(0, 3, 30)))
    model, _ = problems.sparse(digits, "isotropic", X[:5])
    step, before = pmgp.steps.SparseHMC(model=model), model.initial_point()
    start, evaluations = mnist_jax.mode(step, model, 1.0, 10)
    assert set(start) == {variable.name for variable in model.free_RVs}
    assert 10 <= evaluations <= 40
    logs = {f"{name}_log__": np.log(start[name]) for name in ("lengthscale", "variance")}
    found, first = (step.function(step._vector(point))[0] for point in (logs | start, before))
    assert found > first + 1.0


@pytest.mark.parametrize("kind", [Fit, Convergence, HeldOut])
def test_the_lines_of_a_unit_are_of_one_scale(kind):
    """Chains of another length have other checkpoints, whose R-hat does not belong to the same curve."""
    scales = results.best(kind).groupby(list(kind._fields))["scale"].nunique()
    assert (scales == 1).all()
