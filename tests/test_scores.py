import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from pmgp import scores
from pmgp.scores import classes, counts, ordinal
from pmgp.scores.counts import PredictedCounts

Y = np.array([0, 0, 1, 1])
P = np.array([0.1, 0.6, 0.4, 0.9])


def test_values_by_hand():
    assert scores.accuracy(Y, P) == 0.5
    assert scores.brier_score(Y, P) == pytest.approx((0.01 + 0.36 + 0.36 + 0.01) / 4)
    assert scores.log_loss(Y, P) == pytest.approx(-np.log([0.9, 0.4, 0.4, 0.9]).mean())
    # Of the four pairs of a 1 and a 0, the 1 has the higher probability in three.
    assert scores.area_under_curve(Y, P) == pytest.approx(3 / 4)


def test_summary_agrees_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, size=300)
    y = (rng.uniform(size=300) < p).astype(int)
    summary = scores.summarize(y, p)
    assert summary == {
        "accuracy": pytest.approx(metrics.accuracy_score(y, p >= 0.5)),
        "log_loss": pytest.approx(metrics.log_loss(y, p)),
        "brier_score": pytest.approx(metrics.brier_score_loss(y, p)),
        "auc": pytest.approx(metrics.roc_auc_score(y, p)),
    }


def test_certain_predictions_cost_nothing_when_right_and_everything_when_wrong():
    assert scores.log_loss([0, 1], [0.0, 1.0]) == 0
    assert scores.log_loss([0, 1], [0.0, 0.0]) == np.inf


def test_a_probability_that_rounds_to_one_is_scored_by_its_complement():
    assert scores.log_loss([0, 1], [1.0, 1.0]) == np.inf
    assert scores.log_loss([0, 1], [1.0, 1.0], [1e-20, 0.0]) == pytest.approx(10 * np.log(10))
    assert scores.summarize([0, 1], [1.0, 1.0], [1e-20, 0.0])["log_loss"] == pytest.approx(10 * np.log(10))
    with pytest.raises(ValueError, match="must sum to 1"):
        scores.log_loss([0, 1], [0.3, 0.4], [0.7, 0.5])


def test_one_class_has_no_auc_and_the_summary_leaves_it_out():
    with pytest.raises(ValueError, match="both classes"):
        scores.area_under_curve([1, 1], [0.2, 0.3])
    assert set(scores.summarize([1, 1], [0.2, 0.3])) == {"accuracy", "log_loss", "brier_score"}


def test_auc_without_scikit_learn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.metrics", None)
    with pytest.raises(ImportError, match=r"pmgp\[data\]"):
        scores.area_under_curve(Y, P)


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([0, 2], [0.1, 0.2], "labels"),
        ([-1, 1], [0.1, 0.2], "labels"),
        ([0, 1], [0.1, 1.2], "between 0 and 1"),
        ([0, 1], [0.1, np.nan], "between 0 and 1"),
        ([0, 1], [0.1], "shapes"),
        ([], [], "at least 1"),
        (np.ma.masked_array([0, 1], [False, True]), [0.1, 0.2], "y has masked values, 1 of 2, the first in row 1"),
        ([0, 1], np.ma.masked_array([0.1, 0.2], [True, False]), "probability has masked values"),
    ],
)
@pytest.mark.parametrize("score", [scores.accuracy, scores.log_loss, scores.brier_score, scores.area_under_curve])
def test_every_score_refuses_what_is_not_labels_and_probabilities(score, y, p, message):
    with pytest.raises(ValueError, match=message):
        score(y, p)


# Ten points, one at each distance from 1/2; the two closest are predicted wrongly.
DISTANCES = np.array([0.03, 0.08, 0.12, 0.17, 0.22, 0.27, 0.33, 0.38, 0.42, 0.47])
CONFIDENT = 0.5 + DISTANCES * np.tile([1, -1], 5)
OUTCOMES = np.array([0, 1, 1, 0, 1, 0, 1, 0, 1, 0])


def test_abstention_curve_by_hand():
    curve = scores.abstention_curve(OUTCOMES, CONFIDENT)
    assert curve.abstention[0] == 0.0
    assert curve.abstention[-1] == pytest.approx(0.9)
    by_hand = {0.0: 0.8, 0.1: 8 / 9, 0.2: 1.0, 0.5: 1.0, 0.9: 1.0}
    for abstention, score in by_hand.items():
        at = np.isclose(curve.abstention, abstention)
        np.testing.assert_allclose(curve.score[at], score)
    # Trapezoids from 0 to 0.1 and from there to 0.2, then one; over the largest abstention.
    area = 0.1 * (0.8 + 8 / 9) / 2 + 0.1 * (8 / 9 + 1.0) / 2 + 0.7
    assert scores.capacity(OUTCOMES, CONFIDENT) == pytest.approx(area / 0.9)


def test_capacity_auc_ends_where_one_class_is_left():
    curve = scores.abstention_curve(OUTCOMES, CONFIDENT, "auc")
    assert curve.abstention[-1] == pytest.approx(0.8)
    assert curve.score[0] == pytest.approx(scores.area_under_curve(OUTCOMES, CONFIDENT))
    assert curve.score[-1] == 1.0


def test_a_probability_at_the_threshold_is_predicted():
    curve = scores.abstention_curve([0, 1, 1], [0.4, 0.6, 0.9])
    assert set(curve.abstention.round(6)) == {0.0, 0.666667}
    assert np.sum(curve.abstention == 0.0) == 11


def test_capacity_of_a_perfect_and_of_a_certain_classifier():
    assert scores.capacity([0, 1, 0, 1], [0.1, 0.9, 0.2, 0.7]) == 1.0
    assert scores.capacity([0, 1, 1, 1], [0.0, 1.0, 0.0, 1.0]) == 0.75
    assert scores.capacity([0, 1], [0.5, 0.5]) == 0.5


def test_honest_confidence_has_more_capacity_than_none():
    """Shuffling how far probabilities are from 1/2 leaves the accuracy, and loses capacity."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=2000)
    y = (rng.uniform(size=2000) < p).astype(int)
    blind = 0.5 + np.sign(p - 0.5) * rng.permutation(np.abs(p - 0.5))
    assert scores.accuracy(y, blind) == scores.accuracy(y, p)
    assert scores.capacity(y, p) > scores.capacity(y, blind) + 0.08
    # For p uniform, accuracy at abstention a is 3/4 + a/4, whose mean is 7/8.
    assert scores.capacity(y, p) == pytest.approx(0.875, abs=0.02)


@pytest.mark.parametrize(
    ("y", "p", "score", "message"),
    [([0, 1], [0.1, 0.8], "brier", "one of accuracy, auc, not 'brier'"), ([1, 1], [0.1, 0.8], "auc", "both classes")],
)
def test_curves_that_do_not_exist_are_refused(y, p, score, message):
    with pytest.raises(ValueError, match=message):
        scores.abstention_curve(y, p, score)


# Ordered categories.

GRADES = np.array([0, 1, 2, 2])
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.1, 0.3, 0.6], [0.8, 0.1, 0.1]])


def test_scores_of_ordered_categories_by_hand():
    assert ordinal.accuracy(GRADES, PROBABILITIES) == 0.5
    assert ordinal.log_loss(GRADES, PROBABILITIES) == pytest.approx(-np.log([0.7, 0.4, 0.6, 0.1]).mean())
    # Squared errors of P(y <= 0) and P(y <= 1), point by point.
    errors = [0.3**2 + 0.1**2, 0.5**2 + 0.1**2, 0.1**2 + 0.4**2, 0.8**2 + 0.9**2]
    assert ordinal.ranked_probability_score(GRADES, PROBABILITIES) == pytest.approx(np.mean(errors) / 2)
    assert set(ordinal.summarize(GRADES, PROBABILITIES)) == {"accuracy", "log_loss", "ranked_probability_score"}


def test_scores_of_ordered_categories_agree_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), size=200), rng.integers(0, 4, size=200)
    assert ordinal.log_loss(y, p) == pytest.approx(metrics.log_loss(y, p))
    assert ordinal.accuracy(y, p) == metrics.accuracy_score(y, p.argmax(axis=1))


def test_two_ordered_categories_have_the_scores_of_two_classes():
    both = np.column_stack([1 - P, P])
    assert ordinal.ranked_probability_score(Y, both) == pytest.approx(scores.brier_score(Y, both[:, 1]))
    assert ordinal.log_loss(Y, both) == pytest.approx(scores.log_loss(Y, P))


def test_the_ranked_probability_score_prefers_the_neighbor():
    near, far = np.array([[0.4, 0.6, 0.0]]), np.array([[0.4, 0.0, 0.6]])
    assert ordinal.log_loss([0], near) == ordinal.log_loss([0], far)
    assert ordinal.ranked_probability_score([0], near) < ordinal.ranked_probability_score([0], far)
    assert ordinal.ranked_probability_score([0], [[0.0, 0.0, 1.0]]) == 1.0
    assert ordinal.log_loss([0], [[0.0, 0.0, 1.0]]) == np.inf


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([0, 3], PROBABILITIES[:2], "categories must be 0, ..., 2"),
        ([0], PROBABILITIES[:2], "shapes"),
        ([], np.zeros((0, 3)), "n at least 1"),
        ([0], [[1.0]], "two categories"),
        ([0], [[0.5, 0.4]], "sum to 1"),
        ([0], [[1.2, -0.2]], "must not be negative"),
        ([0], [[np.nan, 1.0]], "must not be negative"),
        (np.ma.masked_array([0, 1], [False, True]), PROBABILITIES[:2], "y has masked values"),
    ],
)
@pytest.mark.parametrize(
    "score",
    [
        ordinal.accuracy,
        ordinal.log_loss,
        ordinal.ranked_probability_score,
        classes.balanced_accuracy,
        classes.brier_score,
        classes.confusion_matrix,
        classes.abstention_curve,
    ],
)
def test_what_are_no_categories_and_probabilities_is_refused(score, y, p, message):
    with pytest.raises(ValueError, match=message):
        score(y, p)


# Classes without an order.


def test_scores_of_classes_by_hand():
    # Predicted are the classes 0, 0, 2, 0, of the points of classes 0, 1, 2, 2.
    assert classes.confusion_matrix(GRADES, PROBABILITIES).tolist() == [[1, 0, 0], [1, 0, 0], [1, 0, 1]]
    assert classes.balanced_accuracy(GRADES, PROBABILITIES) == pytest.approx((1 + 0 + 0.5) / 3)
    errors = [0.3**2 + 0.2**2 + 0.1**2, 0.5**2 + 0.6**2 + 0.1**2, 0.1**2 + 0.3**2 + 0.4**2, 0.8**2 + 0.1**2 + 0.9**2]
    assert classes.brier_score(GRADES, PROBABILITIES) == pytest.approx(np.mean(errors))
    assert set(classes.summarize(GRADES, PROBABILITIES)) == {"accuracy", "balanced_accuracy", "log_loss", "brier_score"}


def test_scores_of_classes_agree_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    p, y = rng.dirichlet(np.ones(5), size=200), rng.integers(0, 4, size=200)
    predicted = p.argmax(axis=1)
    expected = metrics.confusion_matrix(y, predicted, labels=range(5))
    assert classes.confusion_matrix(y, p).tolist() == expected.tolist()
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        assert classes.balanced_accuracy(y, p) == pytest.approx(metrics.balanced_accuracy_score(y, predicted))
    assert classes.summarize(y, p)["accuracy"] == metrics.accuracy_score(y, predicted)


def test_two_classes_have_twice_the_brier_score():
    both = np.column_stack([1 - P, P])
    assert classes.brier_score(Y, both) == pytest.approx(2 * scores.brier_score(Y, both[:, 1]))


def test_the_least_certain_points_are_left_undecided_first():
    # The largest probabilities are 0.7, 0.5, 0.6, 0.8, of which the second and the last are of a wrong class.
    curve = classes.abstention_curve(GRADES, PROBABILITIES)
    assert curve.abstention == pytest.approx([0, 0.25, 0.5, 0.75])
    assert curve.score == pytest.approx([0.5, 2 / 3, 0.5, 0])
    alike = classes.abstention_curve([0, 1], [[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    assert (alike.abstention.tolist(), alike.score.tolist(), alike.area) == ([0.0], [0.5], 0.5)


# Counts.


def test_masked_counts_are_refused():
    masked = np.ma.masked_array([1, 2, 900], [False, False, True])
    with pytest.raises(ValueError, match="y has masked values, 1 of 3, the first in row 2"):
        counts.summarize(masked, [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0])
    with pytest.raises(ValueError, match="y has masked values"):
        counts.PredictedCounts.log_normal(np.zeros(3), np.ones(3)).log_density(masked)


def test_scores_of_counts_by_hand():
    found = counts.summarize([0, 3, 5], [1.0, 3.0, 2.0], [-1.0, -2.0, -6.0])
    assert found == {
        "log_density": -3.0,
        "mean_absolute_error": pytest.approx(4 / 3),
        "root_mean_squared_error": pytest.approx(np.sqrt(10 / 3)),
    }
    with pytest.raises(ValueError, match="equal lengths"):
        counts.summarize([0, 3], [1.0, 3.0], [-1.0])


def test_counts_without_scikit_learn_say_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.metrics", None)
    with pytest.raises(ImportError, match=r"pmgp\[data\]"):
        counts.summarize([0], [1.0], [-1.0])


def test_a_certain_rate_gives_the_poisson_distribution():
    rates = np.array([0.3, 4.0, 250.0])
    predicted = PredictedCounts.log_normal(np.log(rates), np.zeros(3))
    y = np.array([0, 6, 240])
    np.testing.assert_allclose(predicted.log_density(y), stats.poisson(rates).logpmf(y), rtol=1e-9)
    np.testing.assert_allclose(predicted.cumulative(y), stats.poisson(rates).cdf(y), rtol=1e-9)
    np.testing.assert_array_equal(predicted.cumulative(np.full(3, -1)), 0)
    for probability in (0.05, 0.5, 0.95):
        np.testing.assert_array_equal(predicted.quantile(probability), stats.poisson(rates).ppf(probability))


def test_an_uncertain_rate_widens_the_distribution_as_it_should():
    """Mean and variance of a Poisson variable with a log-normal rate, to what 500 quantiles can resolve."""
    mean, variance, exposure = np.array([0.5, 2.0]), np.array([0.1, 0.3]), np.array([3.0, 1.0])
    predicted = PredictedCounts.log_normal(mean, variance, exposure)
    grid = np.arange(400)
    for k in range(2):
        one = PredictedCounts(predicted.rates[:, [k]])
        density = np.exp([one.log_density([y])[0] for y in grid])
        assert density.sum() == pytest.approx(1)
        np.testing.assert_allclose(np.cumsum(density)[:50], [one.cumulative([y])[0] for y in grid[:50]])
        rate = exposure[k] * np.exp(mean[k] + variance[k] / 2)
        first, second = density @ grid, density @ grid**2
        assert first == pytest.approx(rate, rel=0.002)
        assert predicted.mean[k] == pytest.approx(rate)
        assert second - first**2 == pytest.approx(rate + rate**2 * np.expm1(variance[k]), rel=0.02)


def test_quantiles_are_the_smallest_counts_that_reach_the_probability():
    predicted = PredictedCounts.log_normal([0.0, 3.0, 9.0], [1.0, 0.5, 0.2])
    for probability in (0.05, 0.5, 0.95):
        found = predicted.quantile(probability)
        assert (predicted.cumulative(found) >= probability).all()
        assert not (predicted.cumulative(found - 1) >= probability).any()


def test_quantiles_of_rates_beyond_scipys_reach_the_probability():
    """As those of the log-normal rates, to what 500 quantiles resolve; the last rates overflow."""
    predicted = PredictedCounts.log_normal([5.0, 5.0], [60.0, 200.0])
    np.testing.assert_array_equal(predicted.quantile(0.5), [148, 148])
    exact = 5.0 + stats.norm.ppf(0.95) * np.sqrt([60.0, 200.0])
    np.testing.assert_allclose(np.log(predicted.quantile(0.95)), exact, atol=0.25)
    with np.errstate(over="ignore"):
        assert PredictedCounts.log_normal([5.0], [2e6]).quantile(0.95) > 1e18


@pytest.mark.parametrize(
    ("mean", "variance", "y"), [(1.0, 0.5, 100), (0.0, 9.0, 1000), (5.0, 9.0, 0), (3.0, 1e-6, 9), (-5.0, 400.0, 0)]
)
def test_densities_of_outlying_counts_are_integrals(mean, variance, y):
    """Far beyond the quantiles that represent the rates, and for log-rates that are hardly known."""
    f = np.linspace(mean - 14.0 * np.sqrt(variance), mean + 14.0 * np.sqrt(variance), 200_001)
    logs = stats.poisson.logpmf(y, 2.0 * np.exp(f)) + stats.norm.logpdf(f, mean, np.sqrt(variance))
    found = PredictedCounts.log_normal([mean], [variance], [2.0]).log_density([y])
    np.testing.assert_allclose(found, logsumexp(logs) + np.log(f[1] - f[0]), rtol=1e-6)


def test_no_exposure_gives_no_count():
    np.testing.assert_array_equal(
        PredictedCounts.log_normal([0.0] * 2, [0.5] * 2, 0.0).log_density([0, 1]), [0, -np.inf]
    )


def test_predicted_counts_refuse_what_makes_no_distribution():
    predicted = PredictedCounts.log_normal([1.0, 2.0], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"variance must not be negative, as -0\.5 is"):
        PredictedCounts.log_normal([1.0], [-0.5])
    with pytest.raises(ValueError, match=r"equal shapes, not \(1,\) and \(2,\)"):
        PredictedCounts.log_normal([1.0], [0.5, 0.5])
    with pytest.raises(ValueError, match="variance is NaN in 1 of 2 predictions"):
        PredictedCounts.log_normal([1.0, 2.0], [0.5, np.nan])
    with pytest.raises(ValueError, match="mean has masked values, 1 of 2"):
        PredictedCounts.log_normal(np.ma.masked_array([1.0, 2.0], [False, True]), [0.5, 0.5])
    for function in (predicted.log_density, predicted.cumulative):
        with pytest.raises(ValueError, match=r"y must have the shape \(2,\) of the predictions, not \(1,\)"):
            function([1])
    with pytest.raises(ValueError, match="probability must be at least 0 and below 1"):
        predicted.quantile(1.5)
