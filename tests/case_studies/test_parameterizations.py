"""The study of the parameterizations: its posteriors, its samplers, one chain, its tables, and the picture."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytensor
import pytest

from case_studies.parameterizations import comparison, figures, picture, problems, results, study
from case_studies.parameterizations.__main__ import chains_of, run
from case_studies.parameterizations.exact_variance import ExactVariance
from case_studies.parameterizations.study import Cell
from case_studies.tools import simulation
from case_studies.tools.chain import run_chain
from case_studies.tools.command_line import selected
from case_studies.tools.grid import Grid, Unit
from case_studies.tools.problem import Problem, latent_from_prior
from case_studies.tools.rows import COUNTS, row, settings
from case_studies.tools.samplers import Alternating, Conditional
from pmgp.core.gaussians import ObservedPrior
from pmgp.core.numerics.ledger import counted
from pmgp.core.theta_updates.schemes import (
    AncillaryScheme,
    InterweavingScheme,
    SufficientScheme,
)
from pmgp.interface.graphs.compilation import INTERPRETED
from tests.case_studies.grids import grid_means
from tests.confirmation import confirmed

TINY = study.Scale("tiny", seed=3, chains=3, tune=20, draws=60, checkpoints=(20, 60), datasets=2)


@pytest.fixture(scope="module")
def given_latent():
    return problems.given_latent(3, 12, 2, 0, "LRG")


@pytest.fixture(scope="module")
def given_whitened():
    return problems.given_whitened(3, 12, 2, 0, "LRG")


def one_lengthscale(n: int):
    """A posterior of one hyper-parameter, and its densities on a grid."""
    rng = np.random.default_rng(5)
    problem = picture.logistic_problem(n, 2, -1.5, rng)
    # Short length-scales are all alike, so that only the prior ends the tail on the left.
    return problem, picture.conditionals(problem, 120, rng, np.linspace(-12.0, 3.0, 151), 1000)


@pytest.fixture(scope="module")
def weak_data():
    """So few that all schemes mix."""
    return one_lengthscale(8)


@pytest.fixture(scope="module")
def stronger_data():
    """Enough for surrogate data to say something about theta."""
    return one_lengthscale(40)


def truth(n: int, d: int) -> simulation.Simulated:
    return simulation.data_set(3, n, d, 0)


def chain(problem, sampler, scale, seed=0):
    start = problem.start(np.random.default_rng([seed, 1]))
    return run_chain(np.random.default_rng([seed, 2]), sampler, problem, start, scale)


# ---- posteriors and starts


def test_the_covariance_is_that_of_the_simulation(given_latent):
    data = truth(12, 2)
    K = given_latent.model.prior(data.log_lengthscales).covariance
    np.testing.assert_allclose(np.tril(K), np.tril(data.covariance), rtol=1e-12)
    assert given_latent.model.parts.theta_names == ["lengthscale_log__"]


@pytest.mark.parametrize("model", simulation.MODELS)
def test_observations_are_those_of_the_other_study(model, rng):
    """Log-likelihoods differ by a constant at most (labels and counts), whatever f is."""
    problem = problems.jointly(3, 10, 2, 0, model)
    expected = simulation.observations(truth(10, 2), model, 3, 10, 2, 0)
    f = rng.standard_normal((5, 10))
    found = problem.model.likelihood(np.zeros(3)).log_likelihood(f)
    np.testing.assert_allclose(found, expected.log_likelihood(f), rtol=1e-10)


def test_real_inputs_are_standardized(monkeypatch):
    """Mean zero and standard deviation one, as the article says, and length-scales from their prior."""
    X = np.random.default_rng(1).normal(3.0, 7.0, size=(15, 2))
    data = problems.datasets.Dataset("spect", X, np.arange(15) % 2, ("a", "b"), ("no", "yes"), "")
    monkeypatch.setattr(problems.datasets, "load", lambda name: data)
    problem = problems.on_real_data("SPECT")
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    K = problem.model.prior(np.zeros(3)).covariance
    expected = np.exp(-0.5 * np.square(standardized[1] - standardized[0]).sum())
    assert K[1, 0] == pytest.approx(expected, rel=1e-12)
    assert problem.variance is not None
    starts = np.array([problem.start(np.random.default_rng(seed)).theta for seed in range(400)])
    # Lengthscales and 1 / sigma are exponential with mean one.
    for draws in (np.exp(starts[:, 0]), np.exp(starts[:, 1]), np.exp(-starts[:, 2])):
        assert abs(draws.mean() - 1.0) < 4.0 / np.sqrt(400)


def test_what_is_given_stays_as_it_was_simulated(given_latent, given_whitened):
    """F in Table 3 and nu in Table 4, after every chain; theta has moved, and sigma is part of it in Table 4 only."""
    data = truth(12, 2)
    for problem, dimension in ((given_latent, 2), (given_whitened, 3)):
        scheme = SufficientScheme() if problem is given_latent else AncillaryScheme()
        sampler, rng = Conditional(scheme), np.random.default_rng(1)
        current = problem.start(rng)
        iterate = sampler.start(rng, problem, current, 0, 0)
        for _ in range(200):
            iterate = sampler.step(rng, problem, iterate, True)
        f = iterate.state.point.payload.f
        assert iterate.theta.shape == (dimension,)
        assert not np.allclose(iterate.theta, current.theta)
        assert iterate.latent_acceptance != iterate.latent_acceptance
        if problem is given_latent:
            np.testing.assert_array_equal(f, data.f)
        else:
            nu = problem.model.prior(iterate.theta).whiten(f)
            np.testing.assert_allclose(nu, np.linalg.solve(np.linalg.cholesky(data.covariance), data.f), atol=1e-6)


def test_chains_start_where_the_article_says(given_latent, given_whitened):
    starts = np.array([given_whitened.start(np.random.default_rng(seed)).theta for seed in range(200)])
    low, high = simulation.LOG_LENGTHSCALES
    assert ((low < starts[:, :2]) & (starts[:, :2] < high)).all()
    assert abs(starts[:, :2].mean() - 0.5 * (low + high)) < 4.0 * (high - low) / np.sqrt(12.0 * 400)
    assert abs(np.exp(-starts[:, 2]).mean() - 1.0) < 4.0 / np.sqrt(200)


def test_methods_share_their_starts_and_no_two_chains_their_random_numbers():
    cells = study.cells(TINY)
    units = [Unit(cell, index) for cell in cells for index in range(2)]
    chains = {study._chain_stream(TINY, unit).random() for unit in units}
    assert len(chains) == 2 * len(cells)
    starts = {study._start_stream(TINY, unit).random() for unit in units}
    assert len(starts) == 2 * len({cell[:6] for cell in cells})


# ---- samplers


def test_proposals_stay_isotropic_unless_they_learn(given_whitened):
    factors = {}
    for learns in (False, True):
        sampler, rng = Alternating(AncillaryScheme(), 1, learns), np.random.default_rng(2)
        iterate = sampler.start(rng, given_whitened, given_whitened.start(rng), 100, 0)
        for _ in range(100):
            iterate = sampler.step(rng, given_whitened, iterate, True)
        factors[learns] = iterate.state.adaptations[0].factor
        assert iterate.state.adaptations[0].step_size.iteration > 0
    np.testing.assert_array_equal(factors[False], np.eye(3))
    assert np.ptp(np.diag(factors[True])) > 0.0


def test_nothing_is_learned_after_tuning(given_whitened):
    sampler, rng = Alternating(InterweavingScheme(), 2, True), np.random.default_rng(2)
    iterate = sampler.start(rng, given_whitened, given_whitened.start(rng), 100, 0)
    before = iterate.state
    for _ in range(5):
        iterate = sampler.step(rng, given_whitened, iterate, False)
    assert iterate.state.latent_step == before.latent_step
    assert iterate.state.adaptations[0].step_size == before.adaptations[0].step_size


@pytest.mark.parametrize("operator", study.OPERATORS)
def test_what_is_kept_where_a_chain_stands_is_what_would_be_computed_there(given_latent, given_whitened, operator):
    """The draws are those of a scheme that computes everything again in each iteration, with fewer operations."""
    for problem, kind in ((given_latent, SufficientScheme), (given_whitened, AncillaryScheme)):
        scheme = kind(study.OPERATORS[operator])
        sampler, rng, again = Conditional(scheme), np.random.default_rng(3), np.random.default_rng(3)
        current = problem.start(np.random.default_rng(4))
        iterate, adaptations = sampler.start(rng, problem, current, 0, 0), scheme.start(problem.dimension, 0)
        with counted() as kept:
            for _ in range(12):
                iterate = sampler.step(rng, problem, iterate, True)
        with counted() as anew:
            for _ in range(12):
                current, adaptations, _ = scheme.step(again, current, problem.model, adaptations, True)
        np.testing.assert_allclose(iterate.theta, current.theta, rtol=1e-6)
        assert sum(kept.total.cubic) <= sum(anew.total.cubic) - 12 * (operator != "MH") * (kind is AncillaryScheme)


def z_score(problem, expected: picture.Picture, sampler, first=0) -> float:
    """Distance of the chain's mean of theta from the grid's, in Monte Carlo standard errors of four chains."""
    scale = dataclasses.replace(TINY, tune=300, draws=3000, checkpoints=(3000,))
    mean, _ = picture.moments(expected.marginal, expected.grid)
    chains = [chain(problem, sampler, scale, seed) for seed in range(first, first + 4)]
    means = np.array([one["means"][-1][0] for one in chains])
    error = np.sqrt(np.mean([one["variances"][-1][0] / one["ess"] for one in chains]) / 4)
    return float((means.mean() - mean) / error)


def test_the_study_s_chains_sample_the_marginal_posterior(weak_data):
    """The schemes themselves have Geweke's test (``theta_updates/``)."""
    problem, expected = weak_data
    sampler = Alternating(AncillaryScheme(), 1)
    assert confirmed(lambda first: abs(z_score(problem, expected, sampler, first)), 4.0, seeds=(0, 4)) < 4.0


def test_a_chain_that_never_moves_f_by_itself_is_found_out(weak_data):
    """The broken twin of the test above: nu stays at its start."""
    problem, expected = weak_data
    assert abs(z_score(problem, expected, Conditional(AncillaryScheme()))) > 4.0


@pytest.fixture(scope="module")
def two_unknowns():
    """The posterior of a variance and one length-scale, and its means."""
    rng = np.random.default_rng(8)
    f = 2.0 * rng.standard_normal(8)
    observe = problems.OBSERVE["LRG"](simulation.likelihood("LRG", f, rng))
    model = problems.covariance_model(rng.uniform(size=(8, 2)), observe, isotropic=True)
    problem = Problem(model, problems.uniform, latent_from_prior)
    axes = {"lengthscale_log__": np.linspace(-9.0, 3.0, 25), "variance_log__": np.linspace(-2.5, 11.0, 28)}
    return problem, grid_means(problem.model.parts, *(axes[name] for name in problem.model.parts.theta_names))


def worst_difference(problem, scheme, expected) -> float:
    """Largest distance of the means of four chains from those of a grid, in Monte Carlo standard errors."""
    scale = dataclasses.replace(TINY, tune=300, draws=2000, checkpoints=(2000,))
    chains = [chain(problem, Alternating(scheme, 1), scale, seed) for seed in range(4)]
    errors = np.sqrt(np.mean([np.array(one["variances"][-1]) / one["ess"] for one in chains], axis=0) / len(chains))
    return float(np.max(np.abs(np.mean([one["means"][-1] for one in chains], axis=0) - expected) / errors))


@pytest.mark.parametrize("interweaving", [False, True])
def test_moving_the_rest_of_theta_leaves_the_posterior_as_it_is(two_unknowns, interweaving):
    problem, expected = two_unknowns
    scheme = ExactVariance(variance=problem.variance, interweaving=interweaving)
    assert worst_difference(problem, scheme, expected) < 4.0


def test_a_wrong_draw_of_the_variance_is_found_out(two_unknowns):
    """The broken twin of the test above: n observations are counted as n + 4."""
    problem, expected = two_unknowns
    wrong = dataclasses.replace(problem.variance, shape=problem.variance.shape + 2.0)
    assert worst_difference(problem, ExactVariance(variance=wrong), expected) > 4.0


# ---- the picture


def worst_z_score(picture_: picture.Picture, name: str) -> float:
    """Return the largest z-score of total expectations, of theta and its squared distance from the marginal mean."""
    mean, variance = picture.moments(picture_.marginal, picture_.grid)
    means, variances = picture.moments(picture_.given[name], picture_.grid)
    squares = variances + np.square(means - mean)
    root = np.sqrt(len(means))
    return float(
        max(
            abs(means.mean() - mean) / means.std(ddof=1) * root,
            abs(squares.mean() - variance) / squares.std(ddof=1) * root,
        )
    )


@pytest.mark.parametrize("name", ["SA", "AA", "SURR"])
def test_the_conditionals_average_to_the_marginal(stronger_data, name):
    _, computed = stronger_data
    np.testing.assert_allclose(np.trapezoid(computed.given[name], computed.grid), 1.0, rtol=1e-12)
    assert worst_z_score(computed, name) < 4.0


def test_a_conditional_without_the_density_of_g_does_not(stronger_data, monkeypatch):
    """The broken twin of the test above."""
    problem, computed = stronger_data
    monkeypatch.setattr(picture, "DENSITIES", {"SURR": picture.DENSITIES["SURR"]})
    monkeypatch.setattr(ObservedPrior, "log_density_of", lambda self, observations: 0.0)
    wrong = picture.conditionals(problem, 120, np.random.default_rng(6), computed.grid, 1000)
    assert worst_z_score(wrong, "SURR") > 4.0


def test_shares_of_the_variance_are_ordered_as_in_the_article():
    """And are those of normal densities whose variances are known."""
    grid = np.linspace(-10.0, 10.0, 2001)

    def normal(mean, sd):
        return np.exp(-0.5 * np.square((grid - mean) / sd)) / (sd * np.sqrt(2.0 * np.pi))

    given = {name: np.stack([normal(0.0, sd), normal(0.5, sd)]) for name, sd in (("SA", 0.1), ("AA", 0.5))}
    table = picture.shares(picture.Picture(grid, normal(0.2, 1.0), given, np.zeros(2)))
    np.testing.assert_allclose(table["share of the variance"], [0.01, 0.25, 1.0], rtol=1e-8)
    np.testing.assert_allclose(table.iloc[:, -1], [199.0, 7.0, 1.0], rtol=1e-8)


# ---- one chain, the grid and the tables


def tiny_cells(monkeypatch, problem, methods, table=4):
    """Cells of Table 3 or 4 on a problem that is compiled already."""
    monkeypatch.setattr(study, "_problem", lambda *place: problem)
    return [Cell(table, "simulated", 12, 2, 0, "LRG", *method) for method in methods]


def test_operations_are_those_of_the_articles_table_1(monkeypatch):
    """T C for Metropolis; for HMC T + T lambda or fewer, as reverse mode costs one more a step and not d more."""
    methods = [("MH", "identity"), ("HMC", "identity"), ("SMMALA", "own")]
    counts = {}
    # Compilation would take a minute.
    with pytensor.config.change_flags(mode=INTERPRETED):
        for table, build in ((3, problems.given_latent), (4, problems.given_whitened)):
            for cell in tiny_cells(monkeypatch, build(3, 12, 2, 0, "LRG"), methods, table):
                result = study.run_unit(TINY, Unit(cell, 0))
                counts[table, cell.method] = tuple(result[name] / TINY.draws for name in COUNTS)
    assert counts[3, "MH"] == counts[4, "MH"] == (1.0, 0.0, 0.0)
    cholesky, inverse, matmul = counts[3, "HMC"]
    assert 4.0 < cholesky < 7.0
    assert inverse <= cholesky
    assert matmul == 0.0
    assert counts[3, "SMMALA"] == pytest.approx((1.0, 1.0, 2.0), abs=0.1)
    assert 8.0 < counts[4, "HMC"][0] < 14.0
    # A factorization, and derivatives of the factor: one backward, and one forward for each element of theta.
    assert counts[4, "SMMALA"][0] == pytest.approx(1.0 + 1.0 + 3.0, abs=0.2)
    assert counts[4, "HMC"][1:] == counts[4, "SMMALA"][1:] == (0.0, 0.0)


def test_a_chain_is_complete_and_reproducible(monkeypatch, given_whitened):
    [cell] = tiny_cells(monkeypatch, given_whitened, [("HMC", "learned")])
    first, second = (study.run_unit(TINY, Unit(cell, 1)) for _ in range(2))
    assert first.pop("seconds") > 0.0
    second.pop("seconds")
    assert str(first) == str(second)
    assert np.shape(first["means"]) == np.shape(first["variances"]) == (2, 3)
    assert 0.0 < first["acceptance"] <= 1.0


def test_joint_cells_of_every_method(monkeypatch):
    problem = problems.jointly(3, 12, 2, 0, "LRG")
    monkeypatch.setattr(study, "_problem", lambda *place: problem)
    for method, proposal in study._methods(study.SCHEMES, "identity"):
        result = study.run_unit(TINY, Unit(Cell(5, "simulated", 12, 2, 0, "LRG", method, proposal), 0))
        assert result["cholesky"] >= TINY.draws
        assert (result["latent_acceptance"] > 0.0) == (method != study.OURS)


def test_a_stopped_run_keeps_its_chains_and_adds_to_the_table(monkeypatch, tmp_path, given_whitened):
    cells = tiny_cells(monkeypatch, given_whitened, [("MH", "identity"), ("MH", "learned")])
    grid, table = Grid(tmp_path / "runs", TINY.settings()), results.table_of(tmp_path / "tiny.csv")
    list(grid.run(study.units(TINY, cells)[:4], lambda unit: study.run_unit(TINY, unit)))
    seen = []
    original = study.run_unit
    monkeypatch.setattr(study, "run_unit", lambda scale, unit: seen.append(unit) or original(scale, unit))
    run(TINY, cells[:1], grid, table)
    before = table.read()
    run(TINY, cells, grid, table)
    assert [unit.chain for unit in seen] == [1, 2]
    after = table.read()
    pd.testing.assert_frame_equal(after[:1], before)
    assert after["proposal"].tolist() == ["identity", "learned"]
    assert (after[["rhat_20", "rhat_60"]] > 0.9).all(axis=None)
    assert table.missing(cells, settings(TINY)) == []
    assert table.missing(cells, settings(dataclasses.replace(TINY, seed=9))) == cells


@pytest.mark.parametrize(
    ("sizes", "number"),
    [
        ([100.0] * 10, 4),
        # After five chains the standard error of the mean is first below a fifth of it.
        ([50.0, 100.0, 100.0, 160.0, 100.0, 100.0], 5),
        ([1.0, 100.0, 1.0, 100.0, 1.0, 100.0], 6),
        ([0.0] * 6, 4),
        ([100.0] * 3, 3),
    ],
)
def test_chains_end_when_their_mean_is_known_well_enough(monkeypatch, tmp_path, sizes, number):
    [cell] = study.cells(study.SCALES["paper"])[:1]
    scale = dataclasses.replace(TINY, chains=len(sizes))
    monkeypatch.setattr(study, "run_unit", lambda scale, unit: {"ess_autoregressive": sizes[unit.chain]})
    found = [chain["ess_autoregressive"] for chain in chains_of(scale, Grid(tmp_path, {}), cell)]
    assert found == sizes[:number]


@pytest.mark.parametrize("field", [{"dataset": 1}, {"data": "Pima"}])
def test_another_data_set_and_a_large_one_have_one_chain(monkeypatch, tmp_path, field):
    every = study.cells(study.SCALES["paper"])
    cell = next(cell for cell in every if all(getattr(cell, name) == value for name, value in field.items()))
    monkeypatch.setattr(study, "run_unit", lambda scale, unit: {"ess_autoregressive": 3.0})
    assert len(chains_of(TINY, Grid(tmp_path, {}), cell)) == 1


def test_the_grid_is_that_of_the_article_and_ours():
    cells = study.cells(study.SCALES["paper"])
    assert len(cells) == len({cell.name for cell in cells})
    assert [cell.data for cell in cells[:6]] == ["SPECT"] * 6
    article = results.read("article").drop(columns=["ess_mean", "ess_sd"]).drop_duplicates()
    ours = {(cell[:4], cell.model, cell.method) for cell in cells if cell.proposal != "learned"}
    assert {(tuple(row[:4]), *row[4:]) for row in article.itertuples(index=False, name=None)} <= ours
    assert len(article) == 4 * 3 + 4 * 4 * 3 + 4 * 5 + 4 * 5
    assert {cell.method for cell in selected(cells, {"table": [6], "data": ["Pima"], "n": None})} == set(study.SCHEMES)


def rows(values: dict[tuple[str, int], list[float]], last: dict[str, float]) -> pd.DataFrame:
    """Table 5's rows of methods on data sets, with given ESS of the chains and last R-hat."""
    moments = {"means": [[0.0]] * 2, "variances": [[1.0]] * 2}
    rest = {"acceptance": 0.2, "latent_acceptance": 0.6, "seconds": 2.0, "version": "1", "machine": "m", "streams": "s"}
    made = []
    for (method, dataset), ess in values.items():
        cell = Cell(5, "simulated", 100, 2, dataset, "LRG", method, "identity")
        chains = [
            moments | rest | {"ess": e, "ess_autoregressive": 2.0 * e, "cholesky": 60, "inverse": 0, "matmul": 60}
            for e in ess
        ]
        made.append(row(TINY, cell, chains) | {"rhat_20": 3.0, "rhat_60": last[method]})
    return pd.DataFrame(made)


def test_the_table_shows_our_figures_beside_the_articles():
    cells = rows({("AA", 0): [10.0, 12.0, 20.0], ("AA", 1): [40.0, 41.0, 48.0, 39.0]}, {"AA": 1.05})
    row = comparison.table(cells, 5).loc["AA", "n = 100, d = 2"]
    # Each data set counts alike: as though the chains of the one were there four times, and of the other three.
    every = np.concatenate([np.tile([10.0, 12.0, 20.0], 4), np.tile([40.0, 41.0, 48.0, 39.0], 3)])
    deviation = np.sqrt(every.var() / (1.0 - (1.0 / 3.0 + 1.0 / 4.0) / 4.0))
    assert row["ESS"] == f"{every.mean():.0f} ({deviation:.0f})"
    assert row["ESS (AR)"] == f"{2 * every.mean():.0f} ({2 * deviation:.0f})"
    assert row["article"] == "131 (57)"
    assert row["R-hat"] == "█▁"
    pooled = comparison.pooled(cells, 5).iloc[0]
    assert pooled["ess_sd"] == pytest.approx(deviation)
    assert pooled["per_second"] == pytest.approx(every.mean() / 2.0)
    assert pooled["per_operation"] == pytest.approx(every.mean() / (2.0 * TINY.draws))


def test_single_chains_say_how_data_sets_differ_and_nothing_of_convergence():
    cells = rows({("AA", 0): [10.0], ("AA", 1): [14.0], ("AA", 2): [30.0]}, {"AA": np.nan})
    assert cells["ess_sd"].isna().all()
    assert comparison.table(cells, 5).loc["AA", "n = 100, d = 2"]["ESS"] == "18 (11)"
    assert comparison.orderings(cells, 5).empty


def test_one_chain_has_no_deviation():
    cells = rows({("AA", 0): [10.0]}, {"AA": np.nan})
    assert comparison.table(cells, 5).loc["AA", "n = 100, d = 2"]["ESS"] == "10"
    assert np.isnan(comparison.pooled(cells, 5)["ess_sd"].item())


def test_orderings_have_the_articles_row_numbers():
    order = ("KHR", "SURR", "AA", "ASIS", "SA")
    values = {(method, dataset): [5.0, 6.0, 7.0] for method in order for dataset in range(6)}
    cells = rows(values, {method: 1.0 + 0.1 * rank for rank, method in enumerate(order)})
    assert comparison.orderings(cells, 5).tolist() == ["3|5|1|2|4"]
    beside = comparison.ordering_table(cells)
    assert beside.loc[(5, "LRG"), "n = 100, d = 2"].tolist() == ["3|5|1|2|4", "(3 5 1 2 4)?"]


def test_operations_are_printed_with_their_range():
    cells = rows({("AA", 0): [1.0, 2.0, 3.0], ("AA", 1): [1.0, 2.0, 3.0]}, {"AA": 1.05}).assign(matmul=[1.0, 3.0])
    assert comparison.operations(cells).loc[5, "d = 2", "AA"].tolist() == ["1", "0", "1 to 3"]


def test_proposals_are_compared_where_both_were_run():
    both = rows({("AA", 0): [10.0, 12.0, 14.0], ("SA", 0): [1.0, 2.0, 3.0]}, {"AA": 1.05, "SA": 2.0})
    learned = both[both["method"] == "AA"].assign(proposal="learned", ess_ar_mean=48.0)
    table = comparison.proposals(pd.concat([both, learned]))
    assert len(table) == 1
    assert comparison.proposals(both).empty
    assert table["gain", "ESS (AR)"].item() == pytest.approx(2.0)


def test_bars_of_convergence_need_several_chains():
    several = rows({("AA", 0): [10.0, 12.0, 14.0]}, {"AA": 1.05})
    alone = rows({("AA", 0): [10.0]}, {"AA": np.nan}).assign(n=400, rhat_20=np.nan)
    figure = figures.speed_of_convergence(pd.concat([several, alone]), 5)
    assert [axes.get_title() for axes in figure.axes] == ["n = 100, d = 2"]


def test_coverage_counts_what_there_is():
    cells = rows({("AA", 0): [1.0, 2.0, 3.0], ("SA", 1): [1.0, 2.0, 3.0]}, {"AA": 1.05, "SA": 2.0})
    table = comparison.coverage(cells, study.SCALES["paper"])
    assert table.loc[(5, "n = 100, d = 2")].tolist()[:4] == [2, 110, 2, 10]
    assert table.loc[(6, "Pima"), "cells"] == 0
