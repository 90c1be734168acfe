"""The stored comparison of classifiers of the thyroid data, and the models that it comes from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from case_studies.which_kernel.study import CLASSIFIERS, FOLDER, SETTINGS, Settings, classifier, judged
from pmgp.interface.graphs.compilation import INTERPRETED


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(15, 2))
    return X, (X[:, 0] + 0.5 * rng.normal(size=15) > 0).astype(int)


def test_what_is_stored_is_of_these_models_and_settings():
    stored = pd.read_csv(FOLDER / "thyroid.csv", index_col="model")
    assert list(stored.index) == list(CLASSIFIERS)
    assert (stored[list(SETTINGS._fields)] == pd.Series(SETTINGS._asdict())).all(axis=None)
    assert (stored["standard error"] < 0.1).all()
    assert (stored["Pareto k"] <= stored["limit"]).all()
    left_out = pd.read_csv(FOLDER / "thyroid_left_out.csv")
    assert left_out.shape == (215, len(CLASSIFIERS))
    np.testing.assert_allclose(left_out.sum(), stored["elpd"], rtol=1e-3)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_priors_are_proper(name, data):
    """The evidence needs that: f given theta at the initial point has a density, and so has theta."""
    model = classifier(*CLASSIFIERS[name], *data)
    assert np.isfinite(model.compile_logp(mode=INTERPRETED)(model.initial_point()))


def test_a_small_run_gives_a_row(data):
    row, left_out = judged("smooth, probit", *data, Settings(100, 100, 2))
    assert -20.0 < row["log p(y)"] < 0.0
    assert row["elpd"] == pytest.approx(left_out.sum())
    assert len(left_out) == 15
