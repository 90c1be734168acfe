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
