"""What is stored of the returns since 1950, and how a path is made from draws."""

from __future__ import annotations

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from case_studies.stochastic_volatility import study


@pytest.fixture(scope="module")
def stored():
    return study.stored()


def test_a_path_has_the_quantiles_of_the_scale_on_every_twentieth_day():
    """h is standard normal on each day, so that the scale is log-normal."""
    rng, days = np.random.default_rng(1), 41
    draws = {"mu": np.full((2, 4000), 0.6), "h": rng.standard_normal((2, 4000, days))}
    idata = az.from_dict({"posterior": draws}, dims={"h": ["day"]}, coords={"day": np.arange(days)})
    found = study.path(idata, pd.date_range("1950-01-03", periods=days))
    assert list(found["date"].dt.day) == [3, 23, 12]
    expected = np.exp((0.6 + norm.ppf([0.05, 0.5, 0.95])) / 2.0)
    np.testing.assert_allclose(found[["low", "median", "high"]], np.tile(expected, (3, 1)), rtol=0.05)
    # A twin of variances.
    assert np.abs(found["high"] / expected[-1] ** 2 - 1.0).min() > 0.2


def test_stored_chains_agree(stored):
    assert set(stored["model"]) == set(study.MODELS)
    assert set(stored["variable"]) == {"mu", "rho", "sigma", "nu"}
    assert (stored["r_hat"] < 1.025).all()
    assert (stored["ess_bulk"] > 100.0).all()


def test_heavy_tails_are_preferred_by_far_more_than_the_errors(stored):
    one = stored.groupby("model")[["log_evidence", "standard_error", "pareto_k"]].first()
    difference = one["log_evidence"]["heavy tails"] - one["log_evidence"]["normal"]
    assert difference > 20.0 * np.hypot(*one["standard_error"])
    assert (one["pareto_k"] < 0.7).all()


@pytest.mark.parametrize("name", study.MODELS)
def test_stored_paths_are_as_long_as_the_series(name):
    found = study.stored_path(name)
    assert len(found) == len(range(0, 16_606, study.EVERY))
    assert (found["low"] < found["median"]).all()
    assert (found["median"] < found["high"]).all()
    # The week of October 1987 is among the most volatile.
    assert found["median"][(found["date"] - pd.Timestamp("1987-10-19")).abs().idxmin()] > 2.0 * found["median"].median()
