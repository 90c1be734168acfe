"""The study of the pseudo-marginal article: its data, its plain sampler, one chain, its tables and figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2, norm

from case_studies.pseudo_marginal import comparison, estimator, figures, problems, results, study
from case_studies.pseudo_marginal.__main__ import missing, run
from case_studies.pseudo_marginal.problems import Problem
from case_studies.pseudo_marginal.samplers import PlainPseudoMarginal, Repeated, RepeatedWithin, Traced
from case_studies.pseudo_marginal.study import APPROXIMATIONS, Cell
from case_studies.tools.chain import run_chain
from case_studies.tools.command_line import selected
from case_studies.tools.convergence import Moments, rhat_at
from case_studies.tools.grid import Unit
from case_studies.tools.samplers import Alternating, Marginal
from case_studies.tools.scale import Scale
from case_studies.tools.summary import rhat_columns
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.latent_updates import EllipticalSliceUpdate
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.numerics.ledger import counted
from pmgp.core.theta_updates import schemes
from pmgp.core.theta_updates.schemes import AncillaryScheme, SurrogateScheme
from pmgp.core.theta_updates.surrogate import SurrogateDensity
from tests.case_studies.grids import grid_means

TINY = Scale("tiny", seed=3, chains=3, tune=20, draws=60, checkpoints=(20, 60), datasets=1)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem.simulated(problems.simulate(8, 2, np.random.default_rng(3)), "isotropic")


# ---- data and starts


def test_simulated_labels_are_balanced_and_reproducible():
    one, other = (problems.simulate(30, 4, np.random.default_rng(1)) for _ in range(2))
    assert one.X.shape == (30, 4)
    assert one.y.sum() == 15
    np.testing.assert_array_equal(one.X, other.X)


def test_labels_follow_the_process():
    """Neighbors agree more often than by chance: points nearer than half a length-scale."""
    X, y = problems.simulate(400, 2, np.random.default_rng(2))
    squares = np.square(X[:, None] - X[None]).sum(axis=-1)
    near = np.triu(squares < (0.5 * problems.LENGTHSCALE) ** 2, 1)
    assert (y[:, None] == y[None])[near].mean() > 0.6


def test_the_model_has_the_simulations_covariance_and_the_articles_priors(problem):
    data = problems.simulate(8, 2, np.random.default_rng(3))
    squares = np.square(data.X[:, None] - data.X[None]).sum(axis=-1)
    theta = np.log([problems.LENGTHSCALE, problems.VARIANCE])
    K = problem.model.prior(theta).covariance
    np.testing.assert_allclose(np.tril(K), np.tril(problems.covariance(squares, problems.LENGTHSCALE)), rtol=1e-12)
    starts = np.exp([problem.start(np.random.default_rng(seed)).theta for seed in range(600)])
    shape, rate = problems.SIMULATED_VARIANCE_PRIOR
    means, sds = np.array([np.sqrt(2.0), shape / rate]), np.array([np.sqrt(2.0), np.sqrt(shape) / rate])
    assert (np.abs(starts.mean(axis=0) - means) < 4.0 * sds / np.sqrt(600)).all()


# ---- the plain sampler


@pytest.fixture(scope="module")
def expected(problem) -> np.ndarray:
    return grid_means(problem.model.parts, np.linspace(-9.0, 6.0, 16), np.linspace(-8.0, 6.0, 15))


def worst_z_score(problem: Problem, expected: np.ndarray, sampler) -> float:
    """Distance of four chains' mean of theta from the grid's, in Monte Carlo standard errors."""
    scale = replace(TINY, tune=300, draws=1500, checkpoints=(1500,))
    chains = [
        run_chain(
            np.random.default_rng([seed, 2]), sampler, problem, problem.start(np.random.default_rng([seed, 1])), scale
        )
        for seed in range(4)
    ]
    means = np.mean([chain["means"][-1] for chain in chains], axis=0)
    errors = np.sqrt(np.mean([np.array(chain["variances"][-1]) / chain["ess"] for chain in chains], axis=0) / 4)
    return float(np.max(np.abs(means - expected) / errors))


@pytest.mark.parametrize(
    "sampler",
    [
        PlainPseudoMarginal(APPROXIMATIONS["LA"], 1, 1.5),
        PlainPseudoMarginal(APPROXIMATIONS["EP"], 16, tunes_on_evidence=True),
    ],
)
def test_the_plain_chain_samples_the_posterior(problem, expected, sampler):
    assert worst_z_score(problem, expected, sampler) < 4.0


def test_a_chain_that_counts_the_jacobian_twice_is_found_out(problem, expected, monkeypatch):
    """The broken twin of the test above. Without a Jacobian the density would be improper, and no mean exist."""
    right = PlainPseudoMarginal._estimate
    monkeypatch.setattr(
        PlainPseudoMarginal,
        "_estimate",
        lambda self, rng, evaluate, evaluation: right(self, rng, evaluate, evaluation) + evaluation.theta.sum(),
    )
    assert worst_z_score(problem, expected, PlainPseudoMarginal(APPROXIMATIONS["LA"], 1, 1.5)) > 8.0


def test_the_stored_estimate_stays_until_a_proposal_is_accepted(problem):
    sampler, rng = PlainPseudoMarginal(APPROXIMATIONS["LA"], 1, 3.0), np.random.default_rng(5)
    iterate = sampler.start(rng, problem, problem.start(rng), 0, 0)
    moved = 0
    for _ in range(200):
        following = sampler.step(rng, problem, iterate, False)
        same = following.theta is iterate.theta
        assert (following.state.log_density == iterate.state.log_density) == same
        assert following.state.step_size == iterate.state.step_size
        moved += not same
        iterate = following
    assert 10 < moved < 190


def test_tuning_on_the_evidence_ends_with_tuning(problem):
    """No draw of the estimator before, and the step size stays as it was afterwards."""
    sampler, rng = PlainPseudoMarginal(APPROXIMATIONS["LA"], 4, tunes_on_evidence=True), np.random.default_rng(5)
    iterate = sampler.start(rng, problem, problem.start(rng), 50, 0)
    for _ in range(50):
        iterate = sampler.step(rng, problem, iterate, True)
    evaluation = Evaluator(problem.model.parts, APPROXIMATIONS["LA"])(iterate.theta, None)
    assert iterate.state.log_density == pytest.approx(evaluation.log_screen, rel=1e-12)
    learned = iterate.state.step_size
    assert learned.iteration == 50
    after = sampler.step(rng, problem, iterate, False)
    assert after.state.exact
    assert after.state.step_size == learned


def test_repeats_count(problem):
    """Twenty factorizations in an iteration of AA; at one theta f is moved afterwards."""
    sampler = Alternating(Repeated(scheme=AncillaryScheme(), repeats=20), 1, latent=EllipticalSliceUpdate(20))
    rng = np.random.default_rng(6)
    iterate = sampler.start(rng, problem, problem.start(rng), 0, 0)
    iterate = sampler.step(rng, problem, iterate, True)
    assert iterate.state.adaptations[0].step_size.iteration == 20
    with counted() as counts:
        sampler.step(rng, problem, iterate, False)
    assert counts.total.cubic == (20, 0, 0)


def test_surrogate_data_are_drawn_once_or_for_each_update(problem, monkeypatch):
    """All updates within one density count as updates, and leave f where the last of them says."""
    drawn = []

    def spy(model, current, normals):
        drawn.append(normals)
        return SurrogateDensity(model, current, normals)

    monkeypatch.setattr(schemes, "SurrogateDensity", spy)
    for kind, number in ((RepeatedWithin, 1), (Repeated, 20)):
        drawn.clear()
        scheme, rng = kind(scheme=SurrogateScheme(), repeats=20), np.random.default_rng(6)
        current = problem.start(rng)
        outcome = scheme.step(rng, current, problem.model, scheme.start(problem.dimension, 10), True)
        assert len(drawn) == number
        assert len(outcome.infos) == 20
        assert outcome.adaptations[0].step_size.iteration == 20
        assert not np.array_equal(outcome.current.latent.f, current.latent.f)


# ---- one chain and the grid


def test_rows_have_the_samplers_that_they_name():
    def made(experiment, method, step_size=None):
        return study.sampler(Cell(experiment, study.SIMULATED, 50, 2, "ARD", method), step_size)

    plain = made("table 1", "PM LA (16)", 0.7)
    assert plain == PlainPseudoMarginal(APPROXIMATIONS["LA"], 16, 0.7)
    assert made("table 3", "PM EP (64)", 0.7) == PlainPseudoMarginal(APPROXIMATIONS["EP"], 64, 0.7, repeats=20)
    assert made("real", "PM LA (1)") == PlainPseudoMarginal(APPROXIMATIONS["LA"], 1, None, True)
    assert made("table 1", study.OURS) == made("table 1", study.OURS_LAPLACE) == Marginal()
    surrogate = made("real", "SURR")
    assert isinstance(surrogate.scheme.scheme, SurrogateScheme)
    assert surrogate.latent.moves == 10


def test_the_grid_has_the_articles_rows_and_ours():
    cells = study.cells()
    assert len(cells) == len({cell.name for cell in cells}) == 116
    article = results.read("article")
    named = article[article["table"] != 2]
    wanted = {(f"table {row.table}", row.n, row.d, row.kernel, row.method) for row in named.itertuples()}
    assert len(wanted) == 2 * 4 * 8 + 2 * 4 * 3
    assert wanted <= {(cell.experiment, *cell[2:]) for cell in cells}
    assert {cell.method for cell in selected(study.cells(), {"data": ["Pima"], "n": None})} == set(
        study.METHODS["real"]
    )


def test_methods_share_their_starts_and_no_two_chains_their_random_numbers():
    cells = study.cells()
    units = [Unit(cell, index) for cell in cells for index in range(2)]
    chains = {study._chain_stream(TINY, unit).random() for unit in units}
    assert len(chains) == 2 * len(cells)
    starts = {study._start_stream(TINY, unit).random() for unit in units}
    assert len(starts) == 2 * len({cell[:5] for cell in cells})


@pytest.fixture
def tiny(monkeypatch, problem):
    """A scale of one size, on a problem that is compiled already."""
    monkeypatch.setitem(study.SCALES, "tiny", dict.fromkeys(("table 1", "table 3", "real", "Abalone"), TINY))
    monkeypatch.setattr(study, "_problem", lambda *place: problem)
    study.preliminary.cache_clear()
    yield "tiny"
    study.preliminary.cache_clear()


def test_plain_rows_of_a_problem_share_their_step_size(tiny):
    cells = [Cell("table 1", study.SIMULATED, 50, 2, "isotropic", name) for name in study.METHODS["table 1"]]
    sizes = {cell.method: study.run_unit(tiny, Unit(cell, 0))["step_size"] for cell in cells}
    assert len({sizes[name] for name in study.ESTIMATORS}) == 1
    assert sizes["AA"] is sizes[study.OURS] is None


def test_our_rows_differ_in_the_approximation(problem):
    """And in nothing else: the first one is what `pmgp.PseudoMarginal()` is."""
    other = problem.with_laplace
    assert other.model is problem.model
    assert other.pseudo_marginal.approximation == Laplace()
    assert problem.pseudo_marginal.approximation == ExpectationPropagation()
    assert other.pseudo_marginal.scheme == problem.pseudo_marginal.scheme


def test_traces_are_those_of_the_draws(tiny, problem):
    """Thinned, of the log length-scale, without tuning."""
    chain = Traced(PlainPseudoMarginal(APPROXIMATIONS["LA"], 1, 1.5))
    start = problem.start(np.random.default_rng(1))
    result = run_chain(np.random.default_rng(2), chain, problem, start, TINY)
    assert np.mean(chain.trace, axis=0) == pytest.approx(result["means"][-1])
    real = study.run_unit(tiny, Unit(Cell("real", "Breast", 0, 0, "isotropic", "AA"), 0))
    assert len(real["trace"]) == TINY.draws // study.THINNING


def test_a_run_resumes_and_takes_more_chains(tiny, tmp_path, monkeypatch):
    cells = [Cell("table 1", study.SIMULATED, 50, 2, "isotropic", name) for name in ("AA", "PM EP (1)")]
    seen = []
    original = study.run_unit
    monkeypatch.setattr(study, "run_unit", lambda name, unit: seen.append(unit) or original(name, unit))
    run(tiny, cells[:1], tmp_path / "runs", tmp_path)
    assert missing(tiny, cells, tmp_path) == cells[1:]
    monkeypatch.setitem(study.SCALES[tiny], "table 1", replace(TINY, chains=4))
    assert missing(tiny, cells, tmp_path) == cells
    run(tiny, cells, tmp_path / "runs", tmp_path)
    assert [unit.chain for unit in seen] == [0, 1, 2, 3, 0, 1, 2, 3]
    table = pd.read_csv(tmp_path / "tiny.csv")
    assert table["method"].tolist() == ["PM EP (1)", "AA"]
    assert (table["chains"] == 4).all()
    assert (table["operations_mean"] >= 1.0).all()


# ---- R-hat, tables and figures


def test_the_limit_of_rhat_is_above_it_and_that_of_known_variances():
    """Chains with nearly equal variances: the quantile of the F distribution is that of a chi-squared one."""
    means, variances = np.array([0.1, -0.2, 0.05, 0.3]), 1.0 + 1e-7 * np.arange(4)
    chains = [Moments(np.array([[m]]), np.array([[v]])) for m, v in zip(means, variances, strict=True)]
    [[upper]] = results.rhat_upper_at(chains, [100])
    quantile = chi2.ppf(0.975, 3) / 3
    assert upper == pytest.approx(np.sqrt(0.99 + quantile * means.var(ddof=1)), rel=1e-6)
    assert upper > rhat_at(chains, [100]).item()


def row(method: str, ess: list[float], experiment: str = "table 1", draws: int = 10000) -> dict:
    scale = Scale("paper", 1, len(ess), 100, draws, (1000, 1500), 1)
    rest = {"means": [[0.0]] * 2, "variances": [[1.0]] * 2, "latent_acceptance": np.nan, "seconds": 2.0}
    rest |= {"cholesky": 3 * draws, "inverse": draws, "matmul": 0, "step_size": None}
    rest |= {"version": "1", "machine": "m", "streams": "s"}
    chains = [rest | {"ess": e, "ess_autoregressive": 2.0 * e, "acceptance": 0.01 * e} for e in ess]
    return results.row(scale, Cell(experiment, study.SIMULATED, 50, 2, "isotropic", method), chains)


def test_rows_keep_the_articles_checkpoints_and_the_last_rhat():
    one = row("AA", [10.0, 14.0])
    assert rhat_columns(pd.DataFrame([one])) == ["rhat_1000"]
    assert one["rhat"] == pytest.approx(np.sqrt(1499 / 1500))
    assert (one["operations_mean"], one["operations_sd"]) == (4.0, 0.0)
    assert one["acceptance_sd"] == pytest.approx(np.std([0.1, 0.14], ddof=1))


def test_table_1_is_beside_the_articles():
    shown = comparison.table(pd.DataFrame([row("AA", [10.0, 14.0]), row(study.OURS, [3.0, 5.0])]), 1)
    assert shown.index.tolist() == [("n = 50, d = 2", "AA"), ("n = 50, d = 2", study.OURS)]
    first = shown.loc[("n = 50, d = 2", "AA"), "isotropic"]
    assert first["ESS"] == "12 (3)"
    assert first["ESS (AR)"] == "24 (6)"
    assert (first["article's ESS"], first["article's acc."], first["acc. %"]) == (
        "287 (58)",
        "22.7 (0.9)",
        "12.0 (2.8)",
    )
    assert shown.loc[("n = 50, d = 2", study.OURS), ("isotropic", "article's ESS")] == comparison.DASH


def test_shorter_chains_count_for_ten_thousand_draws_and_repeats_for_single_updates():
    rows = comparison.beside_article(pd.DataFrame([row("SURR", [10.0, 14.0], "table 3", 2000)]), 3)
    assert rows["ess_mean"].item() == pytest.approx(60.0)
    assert rows["per_operation"].item() == pytest.approx(120.0 / (4.0 / 20.0))
    assert rows["article_per_operation_mean"].item() == 234


def test_operations_are_pooled_over_numbers_of_samples():
    cells = pd.DataFrame([row("PM LA (1)", [1.0, 2.0]), row("PM LA (64)", [1.0, 2.0])])
    cells.loc[1, "operations_mean"] = 6.0
    counted = comparison.operations(cells).loc[("n = 50, d = 2", "PM LA"), "isotropic"]
    assert counted[["all", "article"]].tolist() == [5.0, 8.2]


def test_coverage_counts_what_there_is():
    covered = comparison.coverage(pd.DataFrame([row("AA", [1.0, 2.0])]))
    assert covered.loc[("table 1", "n = 50, d = 2"), ["cells", "of", "chains"]].tolist() == [1, 20, "2"]
    assert covered.loc[("real", "Pima"), "cells"] == 0


def test_estimates_are_unbiased_and_spread_less_with_more_samples():
    """Both approximations, one and 64 samples: the same mean within Monte Carlo error of the sums of weights."""
    repetitions, grid = 400, np.geomspace(0.2, 1.0, 3)
    spreads = estimator.spreads(5, sizes=[12], repetitions=repetitions, grid=grid)
    wide = spreads.pivot(index="lengthscale", columns=["approximation", "draws"], values=["mean", "sd_log"])
    best = wide["mean"]["EP"][64]
    for name in ("LA", "EP"):
        for draws in estimator.DRAWS:
            # The relative standard deviation of a log-normal estimate.
            error = np.sqrt(np.expm1(wide["sd_log"][name][draws] ** 2) / repetitions)
            assert (np.abs(wide["mean"][name][draws] / best - 1.0) < 5.0 * error).all()
        assert (wide["sd_log"][name][64] < 0.5 * wide["sd_log"][name][1]).all()
    assert np.trapezoid(best, grid) == pytest.approx(1.0)
    table = comparison.estimator_table(spreads)
    assert (table["EP"] < table["LA"]).all()


def test_spread_where_labels_are_independent():
    """The weight of f is a product there, of the weights of single latent values given one label of a probit model."""
    n, repetitions, rng = 12, 2000, np.random.default_rng(8)
    found = estimator.spreads_of_independent_labels(5, [n], lengthscale=1e-3, repetitions=repetitions).loc[n]
    for variance in found.index:
        mean = np.sqrt(2.0 / np.pi) * variance / np.sqrt(1.0 + variance)
        q = norm(mean, np.sqrt(variance - mean**2))
        f = q.rvs((repetitions, max(estimator.DRAWS), n), rng)
        logs = (norm.logcdf(f) + norm.logpdf(f, scale=np.sqrt(variance)) - q.logpdf(f)).sum(axis=-1)
        spread = logsumexp(logs, axis=-1).std(ddof=1)
        assert found[variance] == pytest.approx(spread, rel=0.12), variance


def test_autocorrelations_of_a_known_series():
    correlations = figures.autocorrelations(np.array([1.0, -1.0, 1.0, -1.0]), 5)
    np.testing.assert_allclose(correlations, [1.0, -0.75, 0.5, -0.25, 0.0, 0.0])
    np.testing.assert_array_equal(figures.autocorrelations(np.ones(4), 2), 1.0)


def test_figures_draw_what_there_is():
    cells = pd.DataFrame([row("AA", [10.0, 14.0])])
    assert len(figures.against_article(cells).axes) == 4
    place = {"data": "Breast", "method": "AA"}
    traces = pd.DataFrame([place | {"draws": 10 * i, "log_lengthscale": float(i % 3)} for i in range(1, 30)])
    convergence = pd.DataFrame([place | {"draws": count, "rhat": 1.1, "upper": 1.2} for count in (100, 200)])
    assert len(figures.real_data(traces, convergence, "Breast").axes) == 3
