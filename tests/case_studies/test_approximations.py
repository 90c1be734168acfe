"""The study of approximations: a cell against quadrature, its signs, its errors, and what is stored."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_expit
from scipy.stats import norm

from case_studies.approximations import comparison, results, signs, study, summary
from case_studies.approximations.__main__ import main
from case_studies.approximations.clock import Clock
from case_studies.approximations.data import Data
from case_studies.approximations.likelihoods import LIKELIHOODS
from case_studies.approximations.methods import Budget, Method
from case_studies.approximations.posteriors import (
    POSTERIORS,
    Posterior,
    Prior,
    exact_model,
    sparse_model,
    whitened_model,
)
from case_studies.approximations.study import SCALES, Cell, Scale, cells

TINY = Scale("tiny", 1, Budget(200, 700, 200, 700, weighed=200))
PLACES, ONES, LABELS = np.array([0.0, 1.0]), np.array([0, 10]), 10


@pytest.fixture(scope="module")
def two_places():
    """Ten labels at each of two places, zeros at the first and ones at the second, so that f has two values."""
    X = np.repeat(PLACES, LABELS)[:, None]
    y = np.concatenate([np.arange(LABELS) < count for count in ONES]).astype(int)
    return Posterior("two places", "logit", lambda: Data(X, y), Prior(0.0, 2.0))


def quadrature(variance_mean: float = 2.0) -> dict[str, float]:
    """Moments of log theta, and the probability at the second place, on grids of theta and of both values of f."""
    line = np.linspace(-5.0, 5.0, 41)
    lengthscale, variance = np.exp(line), np.exp(variance_mean + line)
    correlation = (1.0 + np.sqrt(3.0) / lengthscale) * np.exp(-np.sqrt(3.0) / lengthscale)
    z = np.linspace(-6.0, 6.0, 61)
    first = np.sqrt(variance)[None, :, None, None] * z[:, None]
    slope, rest = correlation[:, None, None, None], np.sqrt(1.0 - correlation**2)[:, None, None, None]
    second = np.sqrt(variance)[None, :, None, None] * (slope * z[:, None] + rest * z)
    log_likelihood = sum(
        ones * log_expit(f) + (LABELS - ones) * log_expit(-f) for f, ones in zip((first, second), ONES, strict=True)
    )
    weights = np.exp(log_likelihood) * norm.pdf(z)[:, None] * norm.pdf(z)
    prior = norm.pdf(line)[:, None] * norm.pdf(line)
    total = prior * weights.sum(axis=(2, 3))
    total /= total.sum()
    probability = (weights * expit(second)).sum(axis=(2, 3)) / weights.sum(axis=(2, 3))
    found = {"response": float((total * probability).sum())}
    for name, axis, center in (("lengthscale", 1, 0.0), ("variance", 0, variance_mean)):
        marginal = total.sum(axis=axis)
        mean = float(marginal @ line)
        found |= {name: center + mean, f"{name}_sd": float(np.sqrt(marginal @ (line - mean) ** 2))}
    return found


@pytest.fixture(scope="module")
def truth():
    return quadrature()


@pytest.fixture(scope="module")
def ran(two_places):
    """The cell by the exact chain and by Laplace's method alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(POSTERIORS, two_places.name, two_places)
        return {method: study.run(TINY, Cell(two_places.name, method)) for method in ("exact", "Laplace")}


def standard_errors(found: dict, truth: dict) -> dict[str, float]:
    """How many Monte Carlo errors lie between a cell's moments and the truth."""
    apart = {}
    for name, one in found["theta"].items():
        apart[name] = abs(one["mean"] - truth[name]) / one["mean_error"]
        apart[f"{name}_sd"] = abs(one["sd"] - truth[f"{name}_sd"]) / one["sd_error"]
    response = found["response"]
    return apart | {"response": abs(response["mean"][-1] - truth["response"]) / response["error"][-1]}


def test_the_exact_cell_has_the_moments_of_quadrature(ran, truth):
    assert max(standard_errors(ran["exact"], truth).values()) < 3.0
    # Twins: another prior, and Laplace's method alone.
    assert max(standard_errors(ran["exact"], quadrature(1.0)).values()) > 6.0
    assert max(standard_errors(ran["Laplace"], truth).values()) > 6.0


def test_weights_of_theta_are_even_where_the_approximation_is_close(ran):
    found = ran["Laplace"]["signs"]
    assert found["pareto_k"] < found["k_limit"]
    assert found["worth"] > 0.9
    assert 0.0 < found["spread"] < 0.2


class Flat:
    """Estimates of p(y|theta) without noise, for a posterior of theta that is standard normal in two dimensions."""

    def log_joint(self, rng, theta):
        return float(norm.logpdf(theta).sum())

    def log_likelihood(self, rng, theta):
        return self.log_joint(rng, theta)


def test_weights_shift_the_means_to_those_of_the_target():
    """Draws around a half are weighted to those around zero."""
    rng = np.random.default_rng(1)
    theta = {name: 0.5 + rng.normal(size=(2, 2000)) for name in ("a", "b")}
    own = sum(norm.logpdf(values - 0.5) for values in theta.values())
    found = signs.signs(Flat(), theta, own, 4000, rng)
    error = 1.0 / np.sqrt(4000 * found["worth"])
    assert np.abs(np.array(found["shifts"]) + 0.5).max() < 3.0 * error
    assert found["worth"] == pytest.approx(np.exp(-0.5), rel=0.1)
    # A twin: the weights turned upside down.
    upside_down = signs.signs(Flat(), theta, 2.0 * sum(norm.logpdf(v) for v in theta.values()) - own, 4000, rng)
    assert np.abs(np.array(upside_down["shifts"]) + 0.5).min() > 6.0 * error


def test_fitted_draws_are_weighted_to_the_target():
    rng = np.random.default_rng(2)
    theta = {name: rng.normal(0.4, 0.8, size=(1, 500)) for name in ("a", "b")}
    found = signs.signs_of_fit(Flat(), theta, 2000, rng)
    assert np.abs(np.array(found["shifts"]) + 0.4).max() < 6.0 / np.sqrt(2000 * found["worth"])
    assert found["pareto_k"] < found["k_limit"]


# ---- errors


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two posteriors, by the exact chain, by a method with a known error, and by one without a deviation."""
    lines, rows = [], []
    for posterior, error in (("one", 0.5), ("two", -2.0)):
        for method, mean, sd in (("exact", 1.0, 2.0), ("Laplace", 1.0 + 2.0 * error, 4.0), ("GPflow", 1.0, 0.0)):
            lines.append({"posterior": posterior, "method": method, "kind": "probit", "n": 9, "pareto_k": abs(error)})
            for parameter, scale in (("a", 1.0), ("b", 0.1)):
                apart = scale * (mean - 1.0)
                noise = {"mean_error": 0.06, "sd_error": 0.08, "shift": 0.5 * apart}
                rows.append(
                    {"posterior": posterior, "method": method, "parameter": parameter, "mean": 1.0 + apart, "sd": sd}
                    | noise
                )
    return pd.DataFrame(lines), pd.DataFrame(rows)


def test_errors_are_those_of_the_worst_hyper_parameter_in_exact_deviations():
    found = comparison.errors(*tables()).set_index(["posterior", "method"])
    laplace = found.xs("Laplace", level="method")
    assert laplace["mean_error"].to_list() == pytest.approx([0.5, 2.0])
    assert laplace["mean_noise"].to_list() == pytest.approx([0.03 * np.sqrt(2.0)] * 2)
    assert laplace["sd_error"].to_list() == pytest.approx([np.log(2.0)] * 2)
    assert laplace["predicted_error"].to_list() == pytest.approx([0.125, 0.5])
    assert np.isinf(found.xs("GPflow", level="method")["sd_error"]).all()


def test_signs_are_compared_with_errors_by_rank_and_in_intervals():
    found = comparison.errors(*tables()).query("method == 'Laplace'")
    assert comparison.rank_correlation(found, "pareto_k", "mean_error", repeats=50)[0] == pytest.approx(1.0)
    split = comparison.groups(found, "pareto_k", [1.0], "mean_error")
    assert split["largest"].to_list() == pytest.approx([0.5, 2.0])
    assert split["cells"].to_list() == [1, 1]
    assert comparison.table(found, "mean_error", ["EP", "Laplace"]).shape == (2, 1)


# ---- the twenty, and running them


def test_the_twenty_are_of_all_kinds_and_sizes():
    sizes = [len(one.data.y) for one in POSTERIORS.values()]
    assert len(POSTERIORS) == 20
    assert {one.kind for one in POSTERIORS.values()} == set(LIKELIHOODS)
    assert (min(sizes), max(sizes)) == (50, 1859)
    assert all(len(one.data.X) == size for one, size in zip(POSTERIORS.values(), sizes, strict=True))


@pytest.mark.parametrize(
    "name", ["few labels", "quine", "three classes", "mcycle, scale", "coal by year", "DAX, a year", "wine", "nodal"]
)
def test_every_kind_of_model_has_the_same_hyper_parameters(name):
    given = POSTERIORS[name]
    latent, whitened = exact_model(given), whitened_model(given)
    assert [rv.name for rv in latent.free_RVs] == [*given.theta, *given.latents]
    assert [rv.name for rv in whitened.free_RVs][: len(given.theta)] == list(given.theta)
    if given.likelihood.latents == 1:
        sparse = sparse_model(given, 5)
        assert [rv.name for rv in sparse.free_RVs] == [*given.theta, "f_rotated_"]


def test_a_clock_ends_each_chain_in_its_time(monkeypatch):
    times = iter([0.0, 4.0, 9.0, 20.0, 26.0, 31.0])
    monkeypatch.setattr("case_studies.approximations.clock.time.process_time", lambda: next(times))
    clock = Clock(10.0)
    for chain in (0, 0, 0, 1, 1):
        clock(None, SimpleNamespace(chain=chain))
    assert clock.seconds == 15.0
    with pytest.raises(KeyboardInterrupt):
        clock(None, SimpleNamespace(chain=1))


@pytest.fixture
def invented(monkeypatch):
    """Methods that return normal draws of one posterior, and the number of calls."""
    calls = []

    def method(name):
        def run(posterior, budget, rng):
            calls.append(name)
            theta = {one: rng.normal(size=(2, 50)) for one in posterior.theta}
            f = rng.normal(size=(2, 50, 1, len(posterior.data.y)))
            return summary.summary(posterior, theta, f) | {"seconds": 1.0, "status": "done"}

        return run

    monkeypatch.setattr(study, "METHODS", {name: Method(method(name)) for name in ("exact", "EP")})
    monkeypatch.setattr(study, "POSTERIORS", {"nodal": POSTERIORS["nodal"]})
    return calls


def test_the_study_is_run_once_and_adds_to_its_tables(invented, tmp_path, capsys):
    words = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]
    main([*words, "--method", "EP"])
    assert invented == ["exact", "EP"]
    main(words)
    assert invented == ["exact", "EP"]
    main(words)
    assert "0 units to run" in capsys.readouterr().out
    lines, moments = (pd.read_csv(tmp_path / f"quick{end}.csv") for end in ("", "_theta"))
    assert sorted(lines["method"]) == ["EP", "exact"]
    assert lines.set_index("method").loc["exact", "response_rms"] == 0.0
    # Both means are those of a hundred standard normal draws.
    [found] = comparison.errors(lines, moments).to_dict("records")
    assert found["mean_error"] < 4.0 * found["mean_noise"] < 1.0


# ---- what is stored, and what the page says of it


@pytest.fixture(scope="module")
def stored():
    lines = results.lines(results.FOLDER, "quick").read()
    return lines, comparison.errors(lines, results.moments(results.FOLDER, "quick").read())


@pytest.fixture(scope="module")
def signed(stored):
    """Lines of Laplace and of EP alone."""
    return stored[1][stored[1]["method"].isin(["Laplace", "EP"])]


def test_stored_lines_are_of_the_study(stored):
    scale = SCALES["quick"]
    lines = stored[0]
    assert {Cell(*one) for one in lines[["posterior", "method"]].itertuples(index=False)} == set(cells(scale))
    assert all((lines[name] == value).all() for name, value in scale.settings.items())


def test_stored_exact_chains_agree(stored):
    exact = stored[0].query("method == 'exact'")
    assert (exact["rhat"] < 1.02).all()
    assert (exact["ess"] > 500.0).all()


def test_all_twenty_have_laplace_and_ep_and_ep_is_close(signed):
    assert signed.groupby("method")["posterior"].nunique().to_dict() == {"EP": 20, "Laplace": 20}
    assert signed.query("method == 'EP'")["mean_error"].max() < 0.15
    assert signed.query("method == 'Laplace'")["mean_error"].max() > 0.5


def test_even_weights_go_with_small_errors_and_uneven_ones_with_large(signed):
    assert signed.loc[signed["worth"] >= 0.98, "mean_error"].max() < 0.15
    assert signed.loc[signed["worth"] < 0.9, "mean_error"].min() > 0.2
    assert (signed["worth"] < 0.9).sum() >= 5


def test_weights_predict_errors_better_than_their_pareto_k_does(signed):
    ranks = {
        sign: comparison.rank_correlation(signed, sign, "mean_error")[0] for sign in ("predicted_error", "pareto_k")
    }
    assert ranks["predicted_error"] > ranks["pareto_k"] + 0.3
    # The largest error has a k below the limit.
    worst = signed.loc[signed["mean_error"].idxmax()]
    assert worst["pareto_k"] < worst["k_limit"]
