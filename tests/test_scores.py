import numpy as np
import pytest

from pmgp import scores

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
