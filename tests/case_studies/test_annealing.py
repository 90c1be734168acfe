"""The study of annealing: paths in two dimensions, data and priors, spread, chains, the grid and the tables."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gamma, multivariate_normal

from case_studies.annealing import chains, comparison, paths, problems, results, study
from case_studies.annealing.__main__ import run
from case_studies.annealing.spread import spread
from case_studies.annealing.study import Block, Chain, Preliminary
from case_studies.tools.command_line import selected
from case_studies.tools.effective_size import effective_sizes
from case_studies.tools.grid import Grid
from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.estimators.importance import WeightedParticles, log_mean_exp
from pmgp.core.gaussians import Conditioning, SiteApproximation
from pmgp.core.marginal.evaluation import Evaluator
from tests.truths import standard_errors_from

TINY = study.Scale("tiny", 3, 2, 60, 10, 40, (12,), 20, 5, 40, 2)


@pytest.fixture(scope="module")
def problem():
    """Probit labels at twelve points, one length-scale."""
    data = problems.simulate(np.random.default_rng(4), 12)
    return problems.classifier(data.X, data.y, "isotropic")


# ---- paths in two dimensions


def wide_reference() -> SiteApproximation:
    """A Gaussian whose tails are heavier than the posterior's, as those of Laplace's q are not: bounded weights."""
    given = paths.example()
    precision, linear = np.full(2, 0.3 / paths.VARIANCE), np.full(2, 0.3)
    conditioned = Conditioning(given.prior)
    assert conditioned.on(linear, precision)
    return conditioned.approximation(np.nan, 0)


def errors_from_truth(reference, seed: int = 1) -> float:
    given = paths.example()
    path = paths.anneal(np.random.default_rng(seed), reference, given.likelihood, paths.BETAS, 40_000)
    return standard_errors_from(np.exp(path.log_weights - paths.truth(given)), 1.0)


def test_the_truth_is_that_of_a_grid():
    given, axis = paths.example(), np.linspace(-30.0, 30.0, 401)
    f = np.stack(np.meshgrid(axis, axis), axis=-1)
    density = multivariate_normal(np.zeros(2), given.prior.covariance).pdf(f)
    total = (density * np.exp(given.likelihood.log_likelihood(f))).sum() * (axis[1] - axis[0]) ** 2
    assert np.log(total) == pytest.approx(paths.truth(given), abs=1e-6)


@pytest.mark.parametrize("start", ["prior", "wide"])
def test_annealed_particles_estimate_without_bias(start):
    assert errors_from_truth(paths.example().prior if start == "prior" else wide_reference()) < 4.0


@pytest.mark.parametrize("start", ["prior", "wide"])
def test_particles_that_move_at_the_wrong_temperature_are_found_out(start, monkeypatch):
    """The broken twin: every move is at the posterior itself."""
    right = paths.slices_on_ellipses
    monkeypatch.setattr(paths, "slices_on_ellipses", lambda *given: right(*given[:-1], 1.0))
    assert errors_from_truth(paths.example().prior if start == "prior" else wide_reference()) > 8.0


def test_densities_lie_between_reference_and_posterior():
    given = paths.example()
    f = np.array([[0.3, -0.2], [1.5, 2.0], [-3.0, 4.0]])
    precision = np.linalg.inv(given.prior.covariance) + np.diag(given.approximation.precision)
    q = multivariate_normal(given.approximation.mean, np.linalg.inv(precision)).logpdf(f)
    posterior = multivariate_normal(np.zeros(2), given.prior.covariance).logpdf(f) + given.likelihood.log_likelihood(f)
    for beta in (0.0, 0.3, 1.0):
        found = paths.log_density(given, given.approximation, beta, f)
        expected = beta * posterior + (1.0 - beta) * q
        np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-9)


def test_a_path_has_a_stop_for_every_step(rng):
    given = paths.example()
    path = paths.anneal(rng, given.approximation, given.likelihood, paths.BETAS, 3)
    assert path.particles.shape == (len(paths.BETAS) - 1, 3, 2)
    assert (np.ptp(path.particles, axis=0) > 0.0).all()


# ---- data and priors


def test_synthetic_classes_have_the_same_size():
    data = problems.simulate(np.random.default_rng(1), 40)
    assert data.X.shape == (40, 2)
    assert ((data.X > 0.0) & (data.X < 1.0)).all()
    assert data.y.sum() == 20
    # Labels follow the latent function: its sign is right far more often than not.
    assert ((data.f > 0.0) == data.y).mean() > 0.75
    with pytest.raises(ValueError, match="even n, not 7"):
        problems.simulate(np.random.default_rng(1), 7)


def test_priors_and_covariance_are_the_articles(problem):
    theta = np.log([0.4, 7.0])
    expected = gamma(1.0, scale=np.sqrt(2.0)).logpdf(0.4) + gamma(1.1, scale=10.0).logpdf(7.0) + theta.sum()
    assert problem.parts.log_prior(theta) == pytest.approx(expected)
    X = problems.simulate(np.random.default_rng(4), 12).X
    K = problem.parts.prior(theta).covariance
    squared = np.square(X[1] - X[0]).sum()
    assert K[1, 0] == pytest.approx(7.0 * np.exp(-0.5 * squared / 0.4**2))
    assert K[0, 0] == pytest.approx(7.0 + problems.JITTER)


def test_length_scales_of_their_own_have_rate_one():
    data = problems.simulate(np.random.default_rng(4), 12)
    relevance = problems.classifier(data.X, data.y, "ARD")
    theta = np.log([0.4, 2.0, 7.0])
    expected = gamma(1.0).logpdf([0.4, 2.0]).sum() + gamma(1.1, scale=10.0).logpdf(7.0) + theta.sum()
    assert relevance.parts.log_prior(theta) == pytest.approx(expected)
    starts = np.exp([relevance.start(np.random.default_rng(seed)) for seed in range(400)])
    for draws, mean, sd in ((starts[:, :2].ravel(), 1.0, 1.0), (starts[:, 2], 11.0, 10.0 * np.sqrt(1.1))):
        assert abs(draws.mean() - mean) < 4.0 * sd / np.sqrt(draws.size)


def test_chains_start_from_the_prior(problem):
    starts = np.exp([problem.start(np.random.default_rng(seed)) for seed in range(400)])
    assert abs(starts[:, 0].mean() - np.sqrt(2.0)) < 4.0 * np.sqrt(2.0 / 400)
    assert abs(starts[:, 1].mean() - 11.0) < 4.0 * 10.0 * np.sqrt(1.1 / 400)


# ---- spread


class Known:
    """An estimator whose groups of four weights are all the same: 10 to the power of their number."""

    draws = 4

    def estimate(self, rng, approximation, likelihood, draws):
        log_weights = np.repeat(np.arange(draws // 4), 4) * np.log(10.0)
        return WeightedParticles(0.0, np.empty((draws, 0)), log_weights)


def test_r_is_the_standard_deviation_of_decimal_logarithms(problem, rng):
    found = spread(rng, problem, np.log([0.3, 5.0]), Laplace(sweeps=0), Known(), 6)
    assert found["r"] == pytest.approx(np.std(np.arange(6), ddof=1))


def test_r_from_one_call_is_that_of_separate_estimates(problem):
    theta, plain = np.log([0.3, 20.0]), ImportanceSampling(4, antithetic=False)
    together = spread(np.random.default_rng(1), problem, theta, Laplace(sweeps=0), plain, 4000)["r"]
    evaluate = Evaluator(problem.parts, Laplace(sweeps=0))
    ready, rng = evaluate.prepare(evaluate(theta, None)), np.random.default_rng(2)
    logs = [plain.estimate(rng, ready.approximation, ready.likelihood).log_evidence for _ in range(4000)]
    squares = np.square(logs - np.mean(logs))
    error = squares.std() / squares.mean() / np.sqrt(4000)
    assert abs(np.log(np.std(logs) / np.log(10.0) / together)) < 4.0 * error / np.sqrt(2.0)


# ---- chains


@pytest.fixture(scope="module")
def tuned(problem):
    return chains.preliminary(np.random.default_rng(5), problem, 1000)


def test_a_preliminary_run_tunes_a_random_walk(tuned):
    assert 0.15 < tuned.acceptance < 0.35
    proposal = tuned.learned().proposal
    assert proposal.independence == 0.0
    draws = np.array([proposal.propose(np.random.default_rng(seed), np.zeros(2)).position for seed in range(2000)])
    expected = np.exp(2.0 * tuned.log_scale) * np.array(tuned.factor) @ np.array(tuned.factor).T
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=0.15 * np.trace(expected))
    thetas = np.array(tuned.thetas)
    assert np.any(thetas[1:] != thetas[:-1], axis=1).all()


def test_the_methods_are_those_of_the_article():
    plain = chains.estimator("IS", 3)
    assert plain == ImportanceSampling(3, antithetic=False)
    assert (chains.estimator("AIS", 3).start, chains.estimator("AIS prior", 3).start) == ("approximation", "prior")
    assert study.APPROXIMATIONS["Laplace"] == Laplace(sweeps=0)


@pytest.fixture(scope="module")
def truth(problem):
    """Posterior mean of theta on a grid that reaches where it is small, each p(y|theta) by many importance samples."""
    axes = np.linspace(-7.0, 4.0, 34), np.linspace(-5.0, 6.0, 34)
    thetas = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    evaluate, rng = Evaluator(problem.parts, Laplace()), np.random.default_rng(6)
    logs = []
    for theta in thetas:
        ready = evaluate.prepare(evaluate(theta, None))
        estimate = ImportanceSampling(400).estimate(rng, ready.approximation, ready.likelihood)
        logs.append(ready.log_prior + estimate.log_evidence)
    weights = np.exp(np.array(logs) - log_mean_exp(np.array(logs)))
    return weights @ thetas / weights.sum()


def distance(problem, tuned, truth, method) -> float:
    """Return the distance of the plain chain's mean from the grid's, in Monte Carlo standard errors."""
    steps = chains._plain_steps(np.random.default_rng(7), problem, tuned, Laplace(sweeps=0), method)
    thetas = np.array([step.theta for step, _ in zip(steps, range(8000), strict=False)])[500:]
    errors = thetas.std(axis=0) / np.sqrt(effective_sizes(thetas))
    return float(np.max(np.abs(thetas.mean(axis=0) - truth) / errors))


@pytest.mark.parametrize("name", ["IS", "AIS"])
def test_the_plain_chain_samples_the_posterior(problem, tuned, truth, name):
    assert distance(problem, tuned, truth, chains.estimator(name, 4)) < 4.0


def test_a_chain_that_forgets_the_normalizer_of_q_is_found_out(problem, tuned, truth):
    """The broken twin of the test above."""

    class Forgetful(ImportanceSampling):
        def estimate(self, rng, approximation, likelihood, draws=None):
            found = super().estimate(rng, approximation, likelihood, draws)
            return dataclasses.replace(found, log_evidence=found.log_evidence - approximation.log_normalizer)

    assert distance(problem, tuned, truth, Forgetful(4, antithetic=False)) > 4.0


def test_what_is_measured_is_of_the_draws_that_count():
    """The first ten steps, which are never accepted, are discarded."""
    steps = (chains.Step(np.array([float(index % 7)]), index >= 10 and index % 2 == 0) for index in range(1000))
    thetas, found = chains._measured(steps, 10, 20)
    np.testing.assert_array_equal(thetas[:, 0], np.arange(10, 30) % 7)
    assert found["acceptance"] == 0.5
    assert found["ess"] == pytest.approx(effective_sizes(thetas)[0])


# ---- the grid and the tables


def test_the_units_are_the_articles_and_ours():
    paper = study.SCALES["paper"]
    every = study.units(paper)
    assert len({unit.name for unit in every}) == len(every)
    article = results.read("article")
    wanted = {
        Chain(row.data, row.kernel, "Laplace", row.estimator, row.n_imp, chain)
        for row in article.itertuples()
        for chain in range(5)
    }
    ours = {unit for unit in every if isinstance(unit, Chain) and unit.q == "Laplace" and unit.estimator != study.OURS}
    assert wanted == ours
    assert len(article) == 40
    assert sum(isinstance(unit, Block) for unit in every) == 5 * 5 * (paper.thetas // study.BLOCK)
    assert [unit.data for unit in every if isinstance(unit, Chain)][-1] == "Banknote"
    assert {unit.chain for unit in selected(every, {"data": ["Glass"], "chain": [3], "n": None})} == {3}
    assert all(isinstance(unit, Block) for unit in selected(every, {"n": [10, 50]}))


def test_no_two_units_share_their_random_numbers():
    every = study.units(study.SCALES["quick"])
    needed = {Preliminary(unit.data, unit.kernel, unit.chain) for unit in every if isinstance(unit, Chain)}
    needed |= {study.Posterior(unit.n) for unit in every if isinstance(unit, Block)}
    drawn = {study._stream(study.SCALES["quick"], unit).random() for unit in [*every, *needed]}
    assert len(drawn) == len(every) + len(needed)


def test_a_stopped_run_is_resumed_and_shares_what_its_units_need(monkeypatch, tmp_path, problem):
    monkeypatch.setattr(study, "on_real_data", lambda *place: problem)
    monkeypatch.setattr(study, "synthetic", lambda *place: problem)
    every = study.units(TINY)
    chosen = [*selected(every, {"data": ["Glass"], "kernel": ["ARD"]}), *selected(every, {"n": [12]})]
    seen = []
    for kind, compute in list(study._COMPUTE.items()):
        counted = lambda scale, grid, unit, c=compute: seen.append(unit) or c(scale, grid, unit)  # noqa: E731
        monkeypatch.setitem(study._COMPUTE, kind, counted)
    grid, places = Grid(tmp_path / "runs", TINY.settings()), results.tables(tmp_path, "tiny")
    run(TINY, chosen[:3], grid, places)
    assert len(results.missing(TINY, chosen, places)) == len(chosen) - 3
    run(TINY, chosen, grid, places)
    assert results.missing(TINY, chosen, places) == []
    assert len(seen) == len(set(seen)) == len(chosen) + 2 + 1
    made, measured = (places[kind].read() for kind in (Chain, Block))
    assert len(made) == 2 * 9
    assert made["acceptance"].between(0.0, 1.0).all()
    assert made.loc[made["estimator"] != "PM", "preliminary_acceptance"].notna().all()
    assert (measured.groupby(["start", "estimator"])["draw"].nunique() == TINY.thetas).all()
    assert measured["r"].gt(0.0).all()
    other = dataclasses.replace(TINY, seed=9)
    assert results.missing(other, chosen, places) == chosen


def lines(values: dict[tuple, list[float]]) -> pd.DataFrame:
    """Chains of Glass, isotropic: by q, estimator and N_imp, their acceptance rates."""
    rest = {"acceptance": 0.0, "ess": 30.0, "seconds": 2.0, "version": "1", "machine": "m", "streams": "s"}
    made = [
        results.rows(TINY, Chain("Glass", "isotropic", *method, chain), rest | {"acceptance": rate, "ess": 100 * rate})
        for method, rates in values.items()
        for chain, rate in enumerate(rates)
    ]
    return pd.concat(made)


def test_the_table_shows_percent_beside_the_articles():
    given = lines({("Laplace", "IS", 1): [0.02, 0.03, 0.07], ("Laplace", "AIS", 1): [0.1] * 5, ("EP", "IS", 1): [0.9]})
    row = comparison.table(given).loc[("isotropic", "Glass", 1)]
    assert row["IS", "ours"] == f"4.0 ({np.std([2.0, 3.0, 7.0], ddof=1):.1f}) [3]"
    assert row["IS", "article"] == "2.8 (1.6)"
    assert row["AIS", "ours"] == "10.0 (0.0)"
    assert comparison.table(given).loc[("ARD", "Pima", 10), ("IS", "ours")] == "–"
    assert len(comparison.table(given)) == 20


def test_gains_are_ratios_of_annealed_to_plain():
    given = lines({("EP", "IS", 10): [0.1, 0.3], ("EP", "AIS", 10): [0.3, 0.5]})
    assert comparison.gains(given).loc[("EP", 10)].tolist() == pytest.approx([2.0, 2.0, 2.0])
    wide = comparison.by_method(given, "acceptance_mean", 1)
    assert wide.loc[("isotropic", "Glass"), ("EP", 10, "AIS")] == "40.0"
    assert wide.loc[("isotropic", "Glass"), ("Laplace", 1, "IS")] == "–"


def test_spreads_are_medians_over_the_draws():
    values = {("Laplace", "IS"): [1.0, 2.0, 9.0], ("Laplace", "AIS"): [0.5, 1.0, 1.5], ("prior", "AIS"): [7.0] * 3}
    blocks = pd.DataFrame(
        {"n": 10, "start": start, "estimator": name, "draw": index, "r": r, "seconds": 6.0 if name == "AIS" else 2.0}
        for (start, name), rs in values.items()
        for index, r in enumerate(rs)
    )
    assert comparison.spreads(blocks).loc[10, ("Laplace", "IS")] == 2.0
    assert comparison.by_size(blocks).loc[10, "Laplace"].tolist() == [2.0, 3.0]


def test_coverage_counts_what_there_is():
    given = lines({("Laplace", "IS", 1): [0.02, 0.03]})
    blocks = pd.DataFrame(columns=[*results.SPREAD_KEY, "version", "machine"])
    table = comparison.coverage(given, blocks, study.SCALES["paper"])
    assert table.loc[("Table I", "Glass")].tolist()[:2] == [2, 90]
    assert table.loc[("Figure 2", "500")].tolist()[:2] == [0, 250]
