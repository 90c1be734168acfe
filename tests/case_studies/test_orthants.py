"""The study of orthant integrals: problems and their truths, methods, claims, the grid and the tables."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln
from scipy.stats import multivariate_normal

from case_studies.orthants import claims, classes, comparison, control_variables, methods, problems, results, study
from case_studies.orthants.__main__ import run
from case_studies.orthants.scales import SCALES, Scale
from case_studies.orthants.study import CONTROLS, COUNTS, ONE_FEATURE, OURS, Bias, Block, Extinction, Setting
from case_studies.tools.grid import Grid
from pmgp.core.likelihoods import BernoulliProbit
from tests.orthants.truths import one_factor
from tests.truths import standard_errors_from

TINY = Scale("tiny", 3, (50,), (1,), 1, (200,), 0.05, 1e6, (1,), 100, 200, 1, 200, 40)


# ---- problems


@pytest.fixture(scope="module")
def constant():
    """Eleven labels of a constant f, and one new label of it."""
    return problems.on_a_line(np.ones(11), np.repeat([1, 0], [7, 4]), np.ones(1))


def test_the_quadrature_knows_a_constant_process(constant):
    assert constant.truth.log_evidence == pytest.approx(betaln(8, 5), abs=1e-10)
    assert constant.truth.probability == pytest.approx([8 / 13], abs=1e-10)


def test_one_factor_is_a_line_after_scaling():
    """The article's matrix d_i d_j with ones on its diagonal is the correlation of ours, and its truth the same."""
    loading = np.random.default_rng(0).uniform(-1.0, 1.0, 200)
    problem = problems.of_one_factor(np.random.default_rng(0), 200)
    scale = np.sqrt(problem.orthant.diagonal())
    correlation = problem.orthant / np.outer(scale, scale)
    np.testing.assert_allclose(correlation[0, 1:], loading[0] * loading[1:], rtol=1e-10)
    assert problem.truth.log_evidence == pytest.approx(one_factor(200, 0).log_probability, abs=1e-4)


def test_classes_of_one_feature_have_their_sizes_and_moments():
    for number, given in problems.CLASSES.items():
        problem = problems.linear(np.random.default_rng(number), number)
        assert (problem.size, problem.cross.shape[1]) == (given.n, given.new)
        x = np.sqrt(problem.covariance.diagonal())
        assert 2 * problem.y.sum() == given.n
        squares = np.square(x[problem.y == 1])
        expected = given.means[0] ** 2 + given.scales[0] ** 2
        assert abs(squares.mean() - expected) < 4.0 * squares.std() / np.sqrt(len(squares))


# ---- methods


@pytest.mark.parametrize("seed", range(3))
def test_the_count_on_one_feature_is_the_one_for_any_covariance(seed):
    """With the same random numbers, also for labels on both sides, and where no particle is left."""
    both = (problems.linear(np.random.default_rng(7), 1), problems.of_one_factor(np.random.default_rng(8), 50))
    for problem in both:
        for draws in (3, 500):
            fast, slow = (
                methods.METHODS[name](np.random.default_rng(seed), problem, draws) for name in (ONE_FEATURE, COUNTS[0])
            )
            assert np.isfinite(fast.log_evidence) == (draws == 500)
            assert fast.log_evidence == pytest.approx(slow.log_evidence, abs=1e-10)
            np.testing.assert_array_equal(fast.probability, slow.probability)


UNBIASED = ["GPC-MC hard", ONE_FEATURE, "SMC", "GHK", "GHK random", "Botev", "EP-twisted", "EP importance", "AIS"]


def ratios(name: str, problem: problems.Problem, draws: int, repetitions: int = 300) -> np.ndarray:
    rng = np.random.default_rng(5)
    logs = [methods.METHODS[name](rng, problem, draws).log_evidence for _ in range(repetitions)]
    return np.exp(np.array(logs) - problem.truth.log_evidence)


@pytest.mark.parametrize("name", UNBIASED)
def test_estimates_have_the_mean_that_is_known(constant, name):
    found = ratios(name, constant, 20)
    assert standard_errors_from(found, 1.0) < 4.0
    assert found.std() > 0.0


def test_the_printed_soft_count_does_not(constant):
    """The broken twin of the test above, and of the article's own making."""
    assert standard_errors_from(ratios("GPC-MC soft", constant, 4, 2000), 1.0) > 8.0


@pytest.mark.parametrize("name", [*UNBIASED, "GPC-MC soft"])
def test_predictions_with_many_draws_are_those_of_the_quadrature(constant, name):
    rng = np.random.default_rng(6)
    found = np.array([methods.METHODS[name](rng, constant, 2000).probability[0] for _ in range(10)])
    assert standard_errors_from(found, constant.truth.probability[0]) < 5.0
    assert found.std() < 0.05


def test_a_chain_and_the_approximation_predict_too(constant):
    rng = np.random.default_rng(6)
    for name, draws in {"ESS": 100, "HMC": 30}.items():
        sampled = np.array([methods.METHODS[name](rng, constant, draws).probability[0] for _ in range(8)])
        assert standard_errors_from(sampled, 8 / 13) < 5.0
    approximate = methods.METHODS["EP"](rng, constant, 0)
    assert approximate.probability == pytest.approx([8 / 13], abs=0.01)
    assert approximate.log_evidence == pytest.approx(betaln(8, 5), abs=0.05)


@pytest.fixture(scope="module")
def smooth():
    """Thirty labels of a smooth process in the plane, and ten new ones."""
    given = classes.data(np.random.default_rng(2), 1)
    problem = classes.problem(given._replace(X=given.X[:30], y=given.y[:30], new=given.new[:10]), 3.0, 3.0)
    return problem, methods.method(OURS)(np.random.default_rng(0), problem, 10_000).probability


def error_by_control_variables(smooth, seed: int) -> float:
    """Mean error of the probabilities of a chain."""
    problem, truth = smooth
    found = methods.method(CONTROLS)(np.random.default_rng(seed), problem, 6000)
    return float(np.abs(found.probability - truth).mean())


def test_control_variables_end_where_other_methods_do(smooth):
    assert max(error_by_control_variables(smooth, seed) for seed in range(3)) < 0.01


def test_control_variables_are_drawn_given_the_others_and_f_given_them(smooth, monkeypatch):
    """Broken twins: control variables from their marginal distributions, and the rest of f with too little variance."""
    add = control_variables.Controls.add

    def marginal(self, number):
        add(self, number)
        self.precision = np.diag(1.0 / self.covariance.diagonal()[self.indices])

    def narrow(self, number):
        add(self, number)
        self.factor = 0.5 * self.factor

    for broken in (marginal, narrow):
        monkeypatch.setattr(control_variables.Controls, "add", broken)
        assert error_by_control_variables(smooth, 0) > 0.015, broken


@pytest.mark.parametrize("broken", [False, True])
def test_control_variables_without_data_keep_the_prior(broken):
    """All proposals are accepted then; in the broken twin f does not vary given the control variables."""
    x = np.arange(5.0)
    covariance = np.exp(-0.5 * np.square(x[:, None] - x) / 1.5) + 1e-8 * np.eye(5)
    controls, state = control_variables.Controls(covariance, 1e-7), control_variables.State(np.zeros(5), 0.0)
    controls.add(3)
    controls.factor *= not broken
    rng, kept = np.random.default_rng(0), []
    for _ in range(60):
        state, f = controls.sweeps(rng, state, SimpleNamespace(log_likelihood=lambda f: 0.0))
        kept.append(f)
    found = np.concatenate(kept)
    assert (np.abs(found.T @ found / len(found) - covariance).max() > 0.06) == broken


def test_control_variables_leave_little_variance(smooth):
    """Exchanged, less than those that were found one by one, and less than any of ten other sets."""
    covariance = smooth[0].covariance + 1e-8 * np.eye(30)
    controls = control_variables.Controls(covariance, 1e-7)
    controls.add(6)

    def left(indices):
        some = covariance[indices]
        return np.trace(covariance - some.T @ np.linalg.solve(some[:, indices], some))

    one_by_one: list[int] = []
    for _ in range(6):
        one_by_one.append(min(set(range(30)) - set(one_by_one), key=lambda j: left([*one_by_one, j])))
    rng = np.random.default_rng(0)
    others = [rng.choice(30, 6, replace=False) for _ in range(10)]
    assert left(controls.indices) == pytest.approx(np.square(controls.factor).sum(), rel=1e-5)
    assert left(controls.indices) < 0.98 * min(map(left, [one_by_one, *others]))


def test_control_variables_are_added_until_proposals_are_accepted(smooth):
    problem, _ = smooth
    likelihood, zero = BernoulliProbit(problem.y), np.zeros(30)
    controls = control_variables.Controls(problem.covariance + 1e-8 * np.eye(30), 1e-7)
    controls.add(control_variables.FIRST)
    rng, state = np.random.default_rng(1), control_variables.State(zero, float(likelihood.log_likelihood(zero)))
    before, _ = controls.sweeps(rng, state, likelihood)
    after, _ = controls.sweeps(rng, control_variables.burnt_in(rng, controls, before, likelihood, 4000), likelihood)
    assert before.acceptance < control_variables.LEAST_ACCEPTANCE < after.acceptance
    assert control_variables.FIRST < len(controls) < 30


def test_control_variables_end_where_they_determine_all(constant):
    controls = control_variables.Controls(constant.covariance + 1e-8 * np.eye(11), 1e-7)
    controls.add(5)
    assert len(controls) == 1
    assert np.square(controls.factor).sum() < 1e-6


def test_scipy_has_the_evidence_alone(constant):
    found = methods.METHODS["SciPy"](np.random.default_rng(1), constant, 5000)
    assert found.log_evidence == pytest.approx(betaln(8, 5), abs=0.02)
    assert np.isnan(found.probability).all()


def test_unknown_methods_are_named():
    with pytest.raises(ValueError, match="no method 'MCMC'; there are GPC-MC hard"):
        methods.method("MCMC")


# ---- experiment 4


def test_synthetic_classes_know_the_posterior_of_bayes_rule():
    given = classes.data(np.random.default_rng(1), 5)
    assert given.X.shape == given.new.shape == (50, 10)
    assert given.y.sum() == 25
    densities = [
        multivariate_normal(np.zeros(10)).pdf(given.new),
        multivariate_normal(np.ones(10), classes.BANDED).pdf(given.new),
    ]
    np.testing.assert_allclose(given.posterior, densities[0] / (densities[0] + densities[1]), rtol=1e-8)
    # Class 1, whose features are about zero, has the label 1.
    assert given.X[given.y == 1].mean() < 0.5 < given.X[given.y == 0].mean()


def test_the_covariance_is_the_articles():
    given = classes.data(np.random.default_rng(1), 1)
    problem = classes.problem(given, 3.0, 2.0)
    distance = np.square(given.X[0] - given.new[4]).sum()
    assert problem.cross[0, 4] == pytest.approx(2.0 * np.exp(-distance / 9.0))
    np.testing.assert_allclose(problem.covariance.diagonal(), 2.0)
    assert (problem.variance == 2.0).all()


def test_crabs_are_divided_and_scaled_on_the_training_part():
    given = classes.data(np.random.default_rng(1), 7)
    assert (given.X.shape, given.new.shape, given.posterior) == ((100, 6), (100, 6), None)
    np.testing.assert_allclose(given.X.mean(axis=0), 0.0, atol=1e-12)
    assert np.abs(given.new.mean(axis=0)).max() > 1e-3


# ---- claims


def test_equicorrelated_orthants_have_the_probability_that_is_known():
    problem = claims.equicorrelated(3)
    correlation = problem.orthant / 2.0
    np.testing.assert_allclose(correlation, 0.5 * np.eye(3) + 0.5)
    found = claims.mean_ratio(np.random.default_rng(1), "SMC", 3, 8, 400)
    assert abs(found["ratio"] - 1.0) < 4.0 * found["error"]


def test_extinction_is_counted_and_left_out_of_the_error(monkeypatch):
    logs = iter([-np.inf, -4.0, -3.0, -np.inf, -5.0])
    found = lambda rng, problem, draws: methods.Found(next(logs), np.empty(0))  # noqa: E731
    monkeypatch.setattr(claims, "method", lambda name: found)
    lines = claims.extinction(np.random.default_rng(1), claims.equicorrelated(3), "any", 8, 5, -3.5)
    assert lines == {"runs": 5, "extinct": 2, "median_error": -0.5}


# ---- the grid and the tables


def test_the_units_are_those_of_the_article_and_the_competitors():
    every = study.units(SCALES["paper"])
    assert len({unit.name for unit in every}) == len(every)
    blocks = [unit for unit in every if isinstance(unit, Block)]
    assert {(unit.part, unit.which) for unit in blocks} == {("factor", n) for n in (50, 200, 500)} | {
        ("linear", number) for number in (1, 2, 3, 4)
    }
    assert {unit.method for unit in blocks if (unit.part, unit.which) == ("linear", 3)} == set(methods.METHODS) - {
        CONTROLS
    }
    assert sum(isinstance(unit, Setting) for unit in every) == 9 * 6
    articles = {
        (unit.part, unit.which, unit.draws) for unit in blocks if unit.method == ONE_FEATURE and unit.draws > 1000
    }
    published = results.read("article")[["part", "which", "draws"]]
    assert articles == set(published.itertuples(index=False, name=None))
    assert not any(unit.method in COUNTS and unit.n * unit.draws > 4e8 for unit in blocks)


def test_runs_are_as_many_as_the_articles_unless_they_take_too_long():
    paper = SCALES["paper"]
    assert (paper.runs("factor", 50, 10_000, True), paper.runs("linear", 100, 10_000, True)) == (50, 20)
    assert (paper.runs("factor", 500, 10_000, True), paper.runs("factor", 500, 10_000, False)) == (3, 50)
    assert not paper.feasible(500, 1_000_000)


def test_no_two_units_share_their_random_numbers():
    every = study.units(SCALES["quick"])
    drawn = {study._stream(SCALES["quick"], unit).random() for unit in every}
    assert len(drawn) == len(every)


def test_a_run_is_resumed_and_ends_in_the_tables(tmp_path):
    kinds = (Block("factor", 50, OURS, 64), Block("linear", 1, COUNTS[0], 200), Bias(COUNTS[1], 3, 4))
    chosen = [*kinds, Extinction(200, 1.0, COUNTS[0], 100)]
    places, grid = results.tables(tmp_path / "out", "tiny"), Grid(tmp_path / "runs", TINY.settings())
    assert results.missing(TINY, chosen, places) == chosen
    run(TINY, chosen[:2], grid, places)
    assert results.missing(TINY, chosen, places) == chosen[2:]
    run(TINY, chosen, grid, places)
    assert results.missing(TINY, chosen, places) == []
    assert results.missing(dataclasses.replace(TINY, seed=9), chosen, places) == chosen
    lines = places[Block].read()
    assert lines.groupby("method").size().to_dict() == {OURS: 3, COUNTS[0]: 3}
    np.testing.assert_allclose(lines["log_error"], lines["log_evidence"] - lines["truth"], atol=1e-3)
    assert lines.loc[lines["method"] == OURS, "log_error"].abs().max() < 0.5
    assert places[Extinction].read()["runs"].tolist() == [3]


def test_a_setting_compares_all_methods_on_the_same_data(tmp_path):
    unit = Setting(1, 0)
    lines = results.rows(TINY, unit, study.run(TINY, Grid(tmp_path, TINY.settings()), unit)).set_index("method")
    assert list(lines.index) == list(study.EXPERIMENT_4)
    assert lines["mae_reference"].max() < 0.1
    assert lines.loc[OURS, "mae_reference"] < lines.loc[COUNTS[1], "mae_reference"]
    assert lines["mae_median"].between(0.0, 0.1).all()
    assert np.ptp(lines["mae_post"]) < 0.05


def lines(values: dict[tuple[str, int], list[float]], which: int = 50) -> pd.DataFrame:
    """Runs of experiment 1 with log p = -10, by method and draws their estimates."""
    rest = {"truth": -10.0, "probability_error": np.nan, "seconds": 2.0}
    return pd.DataFrame(
        {
            "part": "factor",
            "which": which,
            "method": name,
            "draws": draws,
            "run": run,
            "log_evidence": value,
            "log_error": value + 10.0,
        }
        | rest
        for (name, draws), estimates in values.items()
        for run, value in enumerate(estimates)
    )


def test_tables_show_percent_beside_the_articles_and_count_the_extinct():
    given = lines({(ONE_FEATURE, 10_000): [-10.1, -9.7, -np.inf], (OURS, 64): [-10.0] * 50})
    table = comparison.table(given, "factor", "percent", 2)
    assert table.loc[(ONE_FEATURE, 10_000), 50] == "2.00 (1.00), 1 extinct [3]"
    assert table.loc[(OURS, 64), 50] == "0.00 (0.00)"
    assert table.loc[("article", 100_000), 50] == "0.07 (0.01)"
    assert table.loc[(ONE_FEATURE, 10_000), 200] == "–"


def test_errors_of_experiment_4_are_means_over_the_hyper_parameters():
    shared = {"problem": 1, "method": OURS, "mae_post": 0.1, "mae_median": 0.002, "seconds": 1.0}
    given = pd.DataFrame(
        [
            shared | {"hyper": 0, "mae_reference": 0.001, "log_error": 0.2},
            shared | {"hyper": 1, "mae_reference": 0.003, "log_error": -0.4},
        ]
    )
    row = comparison.experiment_4(given).loc[(1, OURS)]
    assert row["mae_reference"] == pytest.approx(0.002)
    assert row["log_error"] == pytest.approx(0.3)


def test_the_articles_numbers_are_all_there():
    published = results.read("article")
    assert published.groupby(["part", "measure"]).size().to_dict() == {
        ("factor", "percent"): 18, ("linear", "percent"): 24, ("linear", "probability"): 24,
    }  # fmt: skip
    assert len(results.read("article_classes")) == 36
