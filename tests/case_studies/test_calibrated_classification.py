"""The study of calibrated classification: its splits, its classifiers, its scores and tables."""

from __future__ import annotations

import arviz as az
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy.special import softmax

import pmgp
from case_studies.calibrated_classification import classifiers, comparison, data, figures, process, results, study
from case_studies.calibrated_classification.__main__ import missing, run
from case_studies.calibrated_classification.classifiers import CLASSIFIERS, REFERENCE, Chain, Predicted
from case_studies.calibrated_classification.data import Labeled, Split
from case_studies.calibrated_classification.study import Block, Scale, Unit
from case_studies.tools.grid import Grid
from pmgp import scores

TINY = Scale("tiny", seed=3, tune=20, draws=30, rounds=(2, 3))


def labeled(rng: np.random.Generator, n: int, noise: float) -> Labeled:
    """Two classes, divided by a line but for the noise."""
    X = rng.standard_normal((n, 2))
    return Labeled(X, (X[:, 0] + noise * rng.standard_normal(n) > 0.0).astype(int))


def balanced(n: int, noise: float, seed: int = 0) -> Split:
    rng = np.random.default_rng(seed)
    return data.split(rng, labeled(rng, 200, noise), n)


@pytest.fixture(scope="module")
def compiled():
    """A classifier of eight points."""
    return process.for_shape(8, 2)


# ---- splits


def test_training_sets_are_balanced_and_nested():
    everything = labeled(np.random.default_rng(1), 60, 1.0)
    small, large = (data.split(np.random.default_rng(2), everything, n) for n in (10, 20))
    assert [np.bincount(one.train.y).tolist() for one in (small, large)] == [[5, 5], [10, 10]]
    assert set(map(tuple, small.train.X)) < set(map(tuple, large.train.X))
    for one in (small, large):
        assert {*map(tuple, one.train.X), *map(tuple, one.test.X)} == set(map(tuple, everything.X))
        assert len(one.train.y) + len(one.test.y) == 60


def test_sizes_leave_points_of_each_class():
    assert data.sizes(np.repeat([0, 1], [200, 51])) == [10, 20, 50]
    assert data.sizes(np.repeat([0, 1], [60, 65])) == [10, 20, 50, 100]


def test_methods_share_splits_and_no_two_chains_their_random_numbers(monkeypatch):
    monkeypatch.setattr(data, "load", lambda name: labeled(np.random.default_rng(1), 80, 1.0))
    seen = []

    def spy(rng, split, chain):
        seen.append((split.train.X.tobytes(), rng.random()))
        return Predicted(np.full(len(split.test.y), 0.5), {})

    for name in CLASSIFIERS:
        monkeypatch.setitem(CLASSIFIERS, name, spy)
    for unit in study.units(Block("Pima", 10), range(2)):
        study.labels_and_predictions(TINY, unit)
    assert len({split for split, _ in seen}) == 2
    assert len({number for _, number in seen}) == 2 * len(CLASSIFIERS)


# ---- predictions


def test_integrating_f_out_under_q_is_the_dense_formula(compiled):
    split = balanced(8, 0.5)
    compiled.set_data(split.train)
    theta, squares = np.array([0.3, 1.2]), classifiers._squares(split)
    q = process.PREDICTIVE.fit(compiled.parts.prior(theta), compiled.parts.likelihood(theta))
    K, cross = q.prior.covariance, np.exp(1.2) * np.exp(-0.5 * squares / np.exp(0.6))
    K = np.tril(K) + np.tril(K, -1).T
    mean = cross.T @ np.linalg.solve(K, q.mean)
    variance = np.exp(1.2) - np.sum(cross * np.linalg.solve(K + np.diag(1.0 / q.precision), cross), axis=0)
    expected = pmgp.core.likelihoods.BernoulliProbit.probability(mean, variance)
    np.testing.assert_allclose(compiled.probability_under_q(theta, squares), expected, atol=1e-9)


def test_predictions_given_f_are_those_of_the_package(compiled):
    """After the data were replaced, so that this fails if they are not."""
    split = balanced(8, 0.5, seed=4)
    compiled.set_data(split.train)
    theta, f = np.array([0.1, 0.8]), np.random.default_rng(1).standard_normal(8)
    draw = {"lengthscale": np.exp(0.1), "variance": np.exp(0.8), "f": f}
    idata = az.from_dict({"posterior": {name: np.asarray(value)[None, None] for name, value in draw.items()}})
    expected = pmgp.predict(idata, split.test.X, model=compiled.model, progressbar=False)["probability"]
    ours = compiled.probability_given_f(theta, f, classifiers._squares(split))
    # PyMC's jitter of 1e-6 is in the variance of the new points there, and not here.
    np.testing.assert_allclose(ours, expected, rtol=0.0, atol=5e-7)
    compiled.set_data(balanced(8, 0.5, seed=5).train)
    assert np.abs(compiled.probability_given_f(theta, f, classifiers._squares(split)) - expected).max() > 0.01


def on_grid(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Predictions under expectation propagation, theta integrated out on a grid: with its prior, and without."""
    one = process.for_shape(*split.train.X.shape)
    one.set_data(split.train)
    squares, logs, priors, predictions = classifiers._squares(split), [], [], []
    for a in np.linspace(-5.0, 4.0, 31):
        for b in np.linspace(-5.0, 5.5, 31):
            theta = np.array([a, b])
            logs.append(one.evidence(theta)[0])
            priors.append(one.parts.log_prior(theta))
            predictions.append(one.probability_under_q(theta, squares))
    densities = np.array(logs) + np.array(priors), np.array(logs)
    return tuple(softmax(density) @ np.array(predictions) for density in densities)


def in_errors(predicted: Predicted, expected: np.ndarray) -> float:
    """Distance of a chain's predictions from the expected ones, in its Monte Carlo errors."""
    distance = np.sqrt(np.mean(np.square(predicted.probability - expected)))
    return float(distance / predicted.notes["probability_error"])


def test_chains_average_over_theta():
    split = balanced(8, 0.5)
    expected, without = on_grid(split)
    for name in ("MCMC EP", REFERENCE, classifiers.OURS):
        predicted = CLASSIFIERS[name](np.random.default_rng(6), split, Chain(500, 3000))
        assert in_errors(predicted, expected) < 3.0
        # The broken twin: theta without its prior.
        assert in_errors(predicted, without) > 3.0


def test_the_error_of_a_mean_is_that_of_independent_draws():
    rng = np.random.default_rng(2)
    mean, error = classifiers._mean_and_error(rng.standard_normal((1000, 400)))
    assert error == pytest.approx(1.0 / np.sqrt(1000.0), rel=0.1)
    assert np.sqrt(np.mean(np.square(mean))) == pytest.approx(error, rel=0.15)


def test_maximum_likelihood_finds_the_largest_evidence():
    split, rng = balanced(16, 1.0, seed=2), np.random.default_rng(3)
    found = classifiers.gaussian_process_ml(rng, split, Chain(0, 0)).notes
    one = process.for_shape(16, 2)
    best = one.evidence(np.array([found["log_lengthscale"], found["log_variance"]]))[0]
    anywhere = rng.uniform((-2.6, -3.0), (3.3, 6.0), size=(200, 2))
    assert all(one.evidence(theta)[0] <= best + 1e-6 for theta in anywhere)


def test_a_maximum_on_the_border_is_told_from_one_within():
    """Where classes can be separated, the evidence increases with the variance without end."""
    separable, mixed = (
        classifiers.gaussian_process_ml(np.random.default_rng(0), split, Chain(0, 0)).notes
        for split in (balanced(16, 0.0, seed=1), balanced(16, 1.0, seed=2))
    )
    assert (separable["at_bound"], separable["log_variance"]) == (1.0, classifiers.VARIANCES[1])
    assert mixed["at_bound"] == 0.0
    assert mixed["log_variance"] < 3.0


def test_the_support_vector_machine_learns_and_is_reproducible():
    split = balanced(20, 0.3)
    first, second = (classifiers.support_vector(np.random.default_rng(1), split, Chain(0, 0)) for _ in range(2))
    np.testing.assert_array_equal(first.probability, second.probability)
    assert scores.accuracy(split.test.y, first.probability) > 0.8
    assert 0.0 < scores.log_loss(split.test.y, first.probability) < np.log(2.0)


# ---- scores and pooled predictions


def predictions(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    probability = rng.beta(0.7, 0.7, n)
    return (rng.uniform(size=n) < probability).astype(int), probability


def test_a_probability_rounded_to_one_costs_no_infinity():
    y, probability = np.array([0, 1, 1, 0]), np.array([1.0, 0.9, 0.8, 0.3])
    assert scores.log_loss(y, probability) == np.inf
    assert study.scored(y, probability)["log_loss"] == pytest.approx(
        -np.mean([np.log(np.finfo(float).eps / 2), np.log(0.9), np.log(0.8), np.log(0.7)])
    )


def test_curves_of_counts_are_those_of_the_predictions():
    y, probability = predictions(np.random.default_rng(4), 500)
    counts = study.histogram(y, probability)
    assert counts.sum() == 500
    expected = scores.abstention_curve(y, probability)
    abstention, accuracy = comparison.curve(counts)
    np.testing.assert_allclose(abstention, expected.abstention, atol=1e-12)
    np.testing.assert_allclose(accuracy, expected.score, atol=1e-12)


def test_honest_probabilities_are_found_calibrated_and_others_not():
    y, probability = predictions(np.random.default_rng(5), 20_000)
    for exponent, honest in ((1.0, True), (0.5, False)):
        odds = (probability / (1.0 - probability)) ** exponent
        predicted, observed, size = comparison.reliability(study.histogram(y, odds / (1.0 + odds)))
        standard = (observed - predicted) / np.sqrt(predicted * (1.0 - predicted) / size)
        assert size.sum() == 20_000
        assert (np.abs(standard).max() < 4.0) == honest


def test_confident_predictions_and_their_errors_are_counted():
    y, probability = np.repeat([0, 1], 10), np.tile([0.05, 0.5], 10)
    probability[:3] = 0.95
    lines = results.histograms(Block("Pima", 10), {"SVM": [{"histogram": study.histogram(y, probability).tolist()}]})
    counted = comparison.confident(pd.DataFrame(lines))
    often, low, high = np.mean(np.abs(probability - 0.5) > 0.4), probability < 0.1, probability > 0.9
    wrong = (np.sum(low & (y == 1)) + np.sum(high & (y == 0))) / np.sum(low | high)
    assert counted.loc["SVM", "n = 10"] == f"{100 * often:.0f}, {100 * wrong:.1f}"
    assert comparison.confident(pd.DataFrame(lines), 0.99).loc["SVM", "n = 10"] == comparison.DASH


# ---- the run and its tables


def fake(monkeypatch, quality: dict[str, float]) -> list[Unit]:
    """Classifiers that cost nothing: the truth, blurred more or less. Returns the list of what is run."""
    monkeypatch.setattr(data, "load", lambda name: labeled(np.random.default_rng(1), 70, 1.0))
    for name in CLASSIFIERS:

        def classify(rng, split, chain, name=name):
            logit = 2.0 * quality[name] * (2 * split.test.y - 1) + 2.0 * rng.standard_normal(len(split.test.y))
            return Predicted(1.0 / (1.0 + np.exp(-logit)), {"ess": 5.0} if "MCMC" in name else {})

        monkeypatch.setitem(CLASSIFIERS, name, classify)
    seen: list[Unit] = []
    original = study.run_unit
    monkeypatch.setattr(study, "run_unit", lambda scale, unit: seen.append(unit) or original(scale, unit))
    return seen


EQUAL = dict.fromkeys(CLASSIFIERS, 1.0)
CHOSEN = [Block("Pima", 10), Block("Glass", 20)]


def test_all_blocks_get_their_first_splits_before_any_gets_more():
    order = list(study.rounds(TINY, CHOSEN))
    assert order == [(block, splits) for splits in (range(2), range(2, 3)) for block in CHOSEN]


def test_a_stopped_run_keeps_its_units_and_writes_whole_rows(monkeypatch, tmp_path):
    seen = fake(monkeypatch, EQUAL)
    grid, tables = Grid(tmp_path / "runs", TINY.settings()), results.tables_of(tmp_path / "tiny.csv")
    first = Scale("tiny", 3, 20, 30, (2,))
    run(first, CHOSEN, grid, tables)
    assert set(tables.scores.read()["splits"]) == {2}
    assert missing(TINY, CHOSEN, tables) == CHOSEN
    run(TINY, CHOSEN, grid, tables)
    assert len(seen) == len(set(seen)) == 2 * 3 * len(CLASSIFIERS)
    after = tables.scores.read()
    assert set(after["splits"]) == {3}
    assert after["method"].tolist() == 2 * list(CLASSIFIERS)
    assert missing(TINY, CHOSEN, tables) == []
    pooled = tables.histograms.read()
    points = 3 * after.drop_duplicates(["data", "n"])["test_points"].sum() * len(CLASSIFIERS)
    assert pooled[results.COUNTS].to_numpy().sum() == points


def test_rows_are_means_and_paired_differences(monkeypatch):
    fake(monkeypatch, EQUAL)
    block = CHOSEN[0]
    chains = {m: [study.run_unit(TINY, Unit(*block, split, m)) for split in range(4)] for m in CLASSIFIERS}
    row = pd.DataFrame(results.rows(TINY, block, chains)).set_index("method").loc["SVM"]
    ours, exact = (np.array([one["brier_score"] for one in chains[m]]) for m in ("SVM", REFERENCE))
    assert row["brier_score"] == pytest.approx(ours.mean())
    assert row["brier_score_se"] == pytest.approx(ours.std(ddof=1) / 2.0)
    assert row["brier_score_difference"] == pytest.approx((ours - exact).mean())
    assert row["brier_score_difference_se"] == pytest.approx((ours - exact).std(ddof=1) / 2.0)
    assert np.isnan(row["ess"])


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A bad, a good and three equal classifiers."""
    folder, scale = tmp_path_factory.mktemp("compared"), Scale("tiny", 3, 20, 30, (4,))
    tables = results.tables_of(folder / "tiny.csv")
    with pytest.MonkeyPatch.context() as monkeypatch:
        fake(monkeypatch, EQUAL | {"SVM": 0.2, "EP ML": 3.0})
        run(scale, CHOSEN, Grid(folder / "runs", scale.settings()), tables)
    return tables.scores.read(), tables.histograms.read()


@pytest.mark.parametrize("score", ["capacity_accuracy", "log_loss"])
def test_verdicts_know_good_from_bad(compared, score):
    table = comparison.verdicts(compared[0], score)
    assert table.loc["SVM"].tolist() == ["1 / 0 / 0", "1 / 0 / 0", "2 / 0 / 0"]
    assert table.loc["EP ML", "all"] == "0 / 0 / 2"
    assert table.loc["MCMC EP", "all"] == "0 / 2 / 0"
    assert REFERENCE not in table.index
    beside = comparison.beside_article(compared[0])
    assert beside.loc["SVM", score] == "2 / 0 / 0"
    assert "worse" in beside.loc["SVM", "article"]


def test_clear_differences_have_a_star(compared):
    printed = comparison.differences(compared[0], "capacity_accuracy")
    assert printed["SVM"].str.endswith("*").all()
    assert not printed["MCMC EP"].str.endswith("*").any()
    assert comparison.table(compared[0], "accuracy").shape == (2, len(CLASSIFIERS))
    assert comparison.coverage(compared[0]).loc["Pima"].tolist() == ["4", ""]


def test_figures_show_every_data_set_and_classifier(compared):
    cells, histograms = compared
    above = figures.against_size(cells)
    assert [axes.get_title() for axes in above.axes[:2]] == ["Pima", "Glass"]
    assert len(figures.difference(cells).axes[0].containers) == len(CLASSIFIERS) - 1
    pooled = figures.pooled(histograms, 10)
    assert [len(axes.lines) for axes in pooled.axes] == [len(CLASSIFIERS) - 1, len(CLASSIFIERS)]
    plt.close("all")


def test_the_article_speaks_of_classifiers_there_are():
    article = results.read("article")
    assert set(article["method"]) <= set(CLASSIFIERS)
    assert set(article["than"]) == {REFERENCE}
    assert study.SCALES["paper"].rounds[-1] == 40
