"""The words on a run: figures as ArviZ computes them, and a finding for each thing that is wrong, and no other."""

from __future__ import annotations

import re

import arviz
import numpy as np
import pytest
import xarray as xr

from pmgp.core.numerics.digits import above
from pmgp.interface.sampling.effective_draws import more_draws
from pmgp.interface.sampling.report import convergence, of_command, report
from tests.synthetic_posterior import FEATURES, make_posterior


@pytest.fixture
def good():
    return make_posterior(chains=4, draws=1000, correlation=0.2)


def with_stats(idata, **stats):
    shape = (idata["posterior"].sizes["chain"], idata["posterior"].sizes["draw"])
    for name, value in stats.items():
        idata["sample_stats"][name] = xr.DataArray(np.broadcast_to(value, shape).copy(), dims=("chain", "draw"))
    return idata


def test_figures_are_those_of_arviz(good):
    found = report(good)
    table = arviz.summary(good["posterior"].to_dataset(), kind="diagnostics", round_to="none").astype(float)
    worst = found.convergence
    assert worst.r_hat == pytest.approx(table["r_hat"].max())
    assert worst.bulk == pytest.approx(table["ess_bulk"].min())
    assert worst.tail == pytest.approx(table["ess_tail"].min())
    assert worst.ess == min(worst.bulk, worst.tail)
    assert found.good
    assert str(found).endswith("all is well.")
    assert "\n" not in str(found)


def test_the_element_that_is_worst_is_named(good):
    values = good["posterior"]["f"].to_numpy()
    values[:, :, 7] = np.repeat(values[:, ::50, 7], 50, axis=1)
    found = report(good)
    assert (found.convergence.bulk_of, found.convergence.tail_of) == ("f[7]", "f[7]")
    assert "f[7] has" in str(found)


def test_of_many_elements_some_are_looked_at(good):
    wide = make_posterior(chains=2, draws=20, n=500)["posterior"].to_dataset()[["f"]]
    assert convergence(wide).bulk_of in {f"f[{round(place)}]" for place in np.linspace(0, 499, 50)}


def test_chains_apart_are_found():
    idata = make_posterior(chains=4, draws=1000, correlation=0.2, shift=1.0)
    first, *_ = report(idata).findings
    assert first.startswith("R-hat of lengthscale[")
    assert "Tune longer" in first


def test_few_effective_draws_say_how_many_would_do():
    idata = make_posterior(chains=4, draws=200, correlation=0.9)
    found = report(idata, ess=1000)
    needed = 200 * 1000 / found.convergence.ess
    words = found.findings[-1]
    assert "effective draws instead of 1000: about" in words
    stated = int(words.split("about ")[1].split()[0])
    assert needed <= stated <= 1.1 * needed
    assert "ess=1000" in words


def test_the_command_has_words_of_its_own():
    """A run that was interrupted has fewer draws than were asked for, and is resumed for the rest."""
    idata = make_posterior(chains=1, draws=200, correlation=0.9)
    for asked, advice in ((200, r"--resume --draws \d+ adds them"), (10**6, "with --resume completes the run")):
        one, *_, last = report(idata, words=of_command(asked)).findings
        assert one == "one chain has no R-hat: sample four, --chains 4"
        assert re.search(advice, last)
    assert report(make_posterior(draws=5), words=of_command(5)).findings == ("draw more: --draws 1000 is a good start",)


def test_elements_are_named_by_their_coordinates(good):
    good["posterior"]["lengthscale"].to_numpy()[0, :, 1] += 10.0
    assert report(good).convergence.r_hat_of == f"lengthscale[{FEATURES[1]}]"


@pytest.mark.parametrize(
    ("value", "limit", "digits", "text"),
    [
        (1.0100004, 1.01, 4, "1.0100004"),
        (1.2, 1.01, 4, "1.2000"),
        (0.9, 1.01, 4, "0.9000"),
        (0.6449, 0.644, 2, "0.645"),
    ],
)
def test_a_number_beyond_a_limit_is_shown_beyond_it(value, limit, digits, text):
    assert above(value, limit, digits) == text


def test_one_chain_and_few_draws(good):
    assert "one chain has no R-hat" in report(make_posterior(chains=1, draws=1000)).findings[0]
    few = report(make_posterior(draws=5))
    assert few.convergence is None
    assert few.findings == ("draw more: draws=1000 is a good start",)
    assert "too few to judge convergence" in str(few)


def test_a_chain_that_never_moved_has_no_effective_draws(good):
    good["posterior"]["variance"].to_numpy()[2] = 1.0
    found = report(good)
    assert found.convergence.ess == 0.0
    assert "variance has 0 effective draws instead of 400: it hardly moves" in str(found)


def test_constants_are_no_chains_that_never_moved(good):
    before = report(good)
    good["posterior"]["variance"].to_numpy()[...] = 1.0
    assert report(good).good
    for variable in good["posterior"].data_vars.values():
        variable.to_numpy()[...] = 1.0
    assert before.good
    assert not report(good).good


def test_the_spread_of_the_estimates_is_that_of_their_weights(good):
    rng = np.random.default_rng(1)
    weights = np.exp(0.8 * rng.normal(size=(4, 1000, 200)))
    effective = weights.sum(-1) ** 2 / np.square(weights).sum(-1)
    found = report(with_stats(good, importance_ess=effective, importance_draws=200))
    # The standard deviation of the log of a mean of 200 of them, within what 4000 repetitions show.
    assert found.spread == pytest.approx(np.log(weights.mean(-1)).std(), rel=0.06)
    assert found.good


@pytest.mark.parametrize(
    ("stats", "estimator"),
    [
        ({}, "ImportanceSampling"),
        ({"orthants": False, "sequential": False}, "ImportanceSampling"),
        ({"orthants": True, "sequential": False}, "OrthantSampling"),
        ({"orthants": False, "sequential": np.arange(1000) > 300}, "SequentialSampling"),
    ],
)
def test_a_large_spread_is_found(good, stats, estimator):
    found = report(with_stats(good, importance_ess=1.4, importance_draws=64, **stats))
    assert len(found.findings) == 1
    assert f"pmgp.estimators.{estimator}(draws=...)" in found.findings[0]


@pytest.mark.parametrize(
    ("stats", "words"),
    [
        ({"exact": False}, "the draws come from the approximation"),
        (
            {"exact": False, "held": np.arange(1000) > 399},
            "those for which the statistic `held` is false (40%)",
        ),
        ({"indefinite": np.arange(1000) % 10 == 0}, "at 10% of the proposals the covariance"),
        ({"converged": np.arange(1000) % 5 > 0}, "at 20% of the proposals the approximation"),
    ],
)
def test_failures_are_found(good, stats, words):
    fine = {"exact": True, "indefinite": np.arange(1000) == 3, "converged": np.arange(1000) != 5}
    assert report(with_stats(good, **fine)).good
    (finding,) = report(with_stats(good, **fine | stats)).findings
    assert words in finding


@pytest.mark.parametrize(("ess", "least", "most"), [(1, 125, 125), (1e9, 400, 400)])
def test_runs_grow_by_bounded_steps(ess, least, most):
    assert least <= more_draws(make_posterior(draws=100), ess) <= most


def test_runs_grow_to_a_little_more_than_enough():
    idata = make_posterior(draws=400)
    now = convergence(idata["posterior"].to_dataset()).ess
    assert 1.0 < more_draws(idata, 2 * now) / 800 < 1.2
