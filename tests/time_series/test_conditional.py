"""A process in time given its values: moments, paths and predictions at other times are those of dense algebra."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.markov import Line, StatePattern, Times, sample_path, transitions
from pmgp.interface.model.latent_variable import ModelError
from tests.time_series.test_waves import cosine, matern

COV = pm.gp.cov
# A trend, and a wave that changes its shape.
LINES = [Line(2.5, 3.0, 1.5), Line(0.5, 2.0, 0.8, 2.0 * np.pi / 2.5)]


def covariance(t: np.ndarray) -> np.ndarray:
    lag = np.subtract.outer(t, t)
    return 1.5 * matern(lag, 3.0, 2.5) + 0.8 * matern(lag, 2.0, 0.5) * cosine(lag, 2.5)


def times() -> tuple[np.ndarray, np.ndarray]:
    """Old ones, unsorted and two of them equal; new ones between them, before, after and at one of them, one twice."""
    rng = np.random.default_rng(1)
    old = np.arange(18.0) + rng.uniform(0.0, 0.5, 18)
    rng.shuffle(old)
    old[3] = old[7]
    return old, np.concatenate([rng.uniform(-4.0, 22.0, 9), [30.0, old[0], 30.0]])


def dense_moments(old: np.ndarray, new: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance at the new times given f at the old ones."""
    _, first = np.unique(old, return_index=True)
    joint = covariance(np.concatenate([old[first], new]))
    n = len(first)
    weights = np.linalg.solve(joint[:n, :n], joint[:n, n:])
    return f[first] @ weights, joint[n:, n:] - joint[n:, :n] @ weights


def given(old: np.ndarray, new: np.ndarray) -> tuple[StatePattern, np.ndarray]:
    together = Times(np.concatenate([old, new]))
    return StatePattern.of(together, LINES), transitions(together, LINES)


def test_means_and_covariances_are_those_of_dense_algebra():
    old, new = times()
    f = np.sin(old)
    pattern, values = given(old, new)
    unknown = np.full(len(new), np.nan)
    states, covariances = pattern.moments_given(values, np.concatenate([f, unknown]))
    mean, dense = dense_moments(old, new, f)
    n = len(old)
    np.testing.assert_allclose(pattern.observe(states)[n:], mean, atol=1e-8)
    np.testing.assert_allclose(pattern.site_variances(covariances[None])[n:], np.diag(dense), atol=1e-8)
    # A draw is one of the prior, and the mean given what it misses: that is its covariance.
    prior = covariance(np.concatenate([old, new]))
    missed = np.array(
        [pattern.observe(pattern.moments_given(values, np.concatenate([row[:n], unknown]))[0]) for row in prior]
    )
    np.testing.assert_allclose((prior - missed)[n:, n:], dense, atol=1e-8)
    # A twin that forgets what comes after a time.
    later = old > 8.0
    twin, _ = pattern.moments_given(values, np.concatenate([np.where(later, np.nan, f), unknown]))
    assert np.abs(pattern.observe(twin)[n:] - mean).max() > 1e-2


def conditional_model(old: np.ndarray, new: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        kernel = 1.5 * COV.Matern52(1, 3.0) + 0.8 * COV.Matern12(1, 2.0) * COV.Cosine(1, 2.5)
        gp = pmgp.gp.Markov(mean_func=pm.gp.mean.Constant(np.float64(0.3)), cov_func=kernel)
        gp.prior("f", X=old)
        gp.conditional("f_new", Xnew=new)
    return model


def close_together(lines: list[Line], step: float) -> tuple[StatePattern, np.ndarray, np.ndarray]:
    """Twelve known values, and an unknown one in the middle."""
    times = Times(step * np.append(np.arange(12.0), 5.5))
    pattern, values = StatePattern.of(times, lines), transitions(times, lines)
    f = pattern.observe(pattern.drawn_given(np.random.default_rng(1), values, np.full(13, np.nan)))
    return pattern, values, np.append(f[:-1], np.nan)


CLOSE = {
    "3/2": ([Line(1.5, 1.0, 1.0)], 1e-8, None),
    "5/2": ([Line(2.5, 1.0, 1.0)], 6e-6, 3e-6),
    "3/2 + 3/2": ([Line(1.5, 1.0, 1.0), Line(1.5, 10.0, 1.0)], 6e-5, 2e-5),
    "5/2 + 5/2": ([Line(2.5, 1.0, 1.0), Line(2.5, 3.0, 1.0)], 2e-3, 5e-4),
}


@pytest.mark.parametrize(("lines", "shortest", "refused"), CLOSE.values(), ids=CLOSE)
def test_what_rounding_does_not_resolve_is_refused_and_the_rest_has_two_digits(lines, shortest, refused):
    """Between close values a process is an integrated Wiener process: its variance goes with a power of the step."""
    variances = []
    for step in (1e-2, shortest):
        pattern, values, f = close_together(lines, step)
        covariances = pattern.moments_given(values, f)[1]
        variances.append(pattern.site_variances(covariances[None])[-1] / step ** (2.0 * lines[0].order))
    assert variances[1] == pytest.approx(variances[0], rel=0.03)
    if refused is not None:
        pattern, values, f = close_together(lines, refused)
        for function in (pattern.moments_given, partial(sample_path, np.random.default_rng(1), pattern)):
            with pytest.raises(FloatingPointError, match=r"does not resolve: times are too close .* leave out times"):
                function(values, f)


def test_paths_and_densities_are_those_of_a_normal_vector():
    """Draws beside the moments; of a twin of independent values the covariance is another."""
    old, new = times()
    new = np.concatenate([new[:3], [18.0, 18.5, 19.5]])
    f = np.sin(old)
    model = conditional_model(old, new)
    mean, dense = dense_moments(old, new, f - 0.3)
    number = 4000
    op = model["f_new"].owner.op
    parameters = [np.array(0.0 if one is model["f"] else one.eval()) for one in op.dist_params(model["f_new"].owner)]
    drawn = op.rng_fn(np.random.default_rng(1), f, *parameters[1:], (number,))
    deviations = np.sqrt(np.diag(dense))
    assert np.abs((drawn.mean(axis=0) - 0.3 - mean) / deviations).max() < 3.0 / np.sqrt(number)
    spread = np.sqrt((np.outer(deviations**2, deviations**2) + dense**2) / number)
    assert np.abs((np.cov(drawn.T) - dense) / spread).max() < 3.3
    twin = mean + deviations * np.random.default_rng(2).normal(size=drawn.shape)
    assert np.abs((np.cov(twin.T) - dense) / spread).max() > 9.0
    density = model.compile_fn(
        model.logp(vars=[model["f_new"]], sum=False)[0], inputs=model.value_vars, mode="FAST_COMPILE"
    )
    expected = multivariate_normal(mean + 0.3, dense).logpdf
    for value in drawn[:3]:
        assert float(density({"f": f, "f_new": value})) == pytest.approx(expected(value), rel=1e-7)


def test_other_times_need_a_prior():
    gp = pmgp.gp.Markov(cov_func=COV.Matern12(1, 1.0))
    with pm.Model(), pytest.raises(ModelError, match=r"call gp\.prior first"):
        gp.conditional("f_new", Xnew=np.arange(3.0))


def trend(process, old: np.ndarray, **settings) -> pm.Model:
    """Counts along a process and a covariate, in terms of the same times."""
    with pm.Model() as model:
        t = pm.Data("t", old[:, None])
        z = pm.Data("z", np.cos(old))
        length = pm.InverseGamma("length", 3.0, 6.0)
        kernel = np.float64(1.5) * COV.Matern32(1, length)
        gp = process(mean_func=pm.gp.mean.Linear(np.array([0.05])), cov_func=kernel)
        f = gp.prior("f", X=t, **settings)
        pm.Poisson("y", pm.math.exp(f + np.float64(0.3) * z), observed=np.arange(len(old)) % 4)
    return model


def made_up(draws: int, n: int) -> xr.DataTree:
    """Draws of nothing in particular: what predictions make of them is a function of them."""
    rng = np.random.default_rng(3)
    f = 0.3 * rng.normal(size=(2, draws, n))
    f[..., 3] = f[..., 7]
    coordinates = {"chain": [0, 1], "draw": np.arange(draws)}
    data = xr.Dataset(
        {
            "f": (("chain", "draw", "f_dim_0"), f),
            "length": (("chain", "draw"), rng.uniform(1.0, 4.0, (2, draws))),
        },
        coords=coordinates,
    )
    return xr.DataTree.from_dict({"posterior": data})


def test_predictions_are_those_of_the_dense_process():
    old, new = times()
    idata, settings = made_up(15, len(old)), {"at": {"z": np.cos(new)}, "progressbar": False}
    found, expected = (
        pmgp.predict(idata, X, model=model, **settings)
        for X, model in (
            (new, trend(pmgp.gp.Markov, old)),
            (new[:, None], trend(pm.gp.Latent, old, reparameterize=False, jitter=0.0)),
        )
    )
    for name in ("latent_mean", "latent_variance", "mean"):
        # The dense covariance has a jitter, as two of its times are equal.
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)
    # A twin: the same draws of a process that looks twice as far.
    twin = pmgp.predict(idata, 0.5 * new, model=trend(pmgp.gp.Markov, 0.5 * old), **settings)
    assert np.abs(twin["latent_mean"] - expected["latent_mean"]).max() > 1e-2


def test_draws_of_paths_have_the_predicted_moments():
    old, new = times()
    model, idata = trend(pmgp.gp.Markov, old), made_up(150, len(old))
    settings = {"model": model, "at": {"z": np.cos(new)}, "progressbar": False, "draws": None}
    expected = pmgp.predict(idata, new, **settings)
    paths = pmgp.sample_predictions(idata, new, random_seed=1, **settings)["predictions"].dataset
    flat = paths["f"].stack(sample=("chain", "draw"))
    deviation = np.sqrt(expected["latent_variance"])
    errors = (flat.mean("sample") - expected["latent_mean"]) / (deviation + 1e-9) * np.sqrt(300)
    assert np.abs(errors).max() < 3.3
    np.testing.assert_allclose(flat.var("sample"), expected["latent_variance"], rtol=0.3, atol=1e-9)
    # At the same time they have the same value, which draws of each time by itself have not.
    np.testing.assert_allclose(paths["f"][..., 9], paths["f"][..., 11], atol=1e-9)
    np.testing.assert_allclose(paths["f"][..., 10], idata["posterior"]["f"][..., 0], atol=1e-9)
    apart = pmgp.sample_predictions(idata, new, random_seed=1, joint=False, **settings)["predictions"]["f"]
    assert np.abs(apart[..., 9] - apart[..., 11]).max() > 0.5


def test_memory_of_paths_is_proportional_to_the_number_of_times():
    """A matrix of m x m would take 128 MB."""
    old, new = np.arange(4000.0), np.arange(4000.0) + 0.5
    model = trend(pmgp.gp.Markov, old)
    idata = made_up(1, 4000)
    settings = {"model": model, "at": {"z": np.cos(new)}, "progressbar": False, "random_seed": 1}
    pmgp.sample_predictions(idata, new, **settings)
    tracemalloc.start()
    try:
        pmgp.sample_predictions(idata, new, **settings)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30e6


def test_times_that_are_a_function_of_data_are_not_the_data():
    """New times stand for the times, and the likelihood's data have values of their own."""
    year, f = np.arange(2000.0, 2010.0), np.sin(np.arange(10.0))
    with pm.Model() as model:
        data = pm.Data("year", year)
        gp = pmgp.gp.Markov(cov_func=COV.Matern32(1, ls=pm.LogNormal("ls")))
        pm.Normal("y", gp.prior("f", X=data - 2000.0) + 0.1 * (data - 2000.0), 1.0, observed=np.zeros(10))
    draw = {"ls": (("chain", "draw"), [[1.0]]), "f": (("chain", "draw", "time"), f[None, None])}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(draw)})
    found = pmgp.predict(idata, [3.0], model=model, at={"year": [2003.0]}, progressbar=False)
    assert float(found["latent_mean"][0]) == pytest.approx(f[3], abs=1e-6)
    assert float(found["mean"][0]) == pytest.approx(f[3] + 0.3, abs=1e-6)
    with pytest.warns(UserWarning, match=r"'year' has a value for each observation: pass its values"):
        assert "mean" not in pmgp.predict(idata, [3.0], model=model, progressbar=False)
    idata["constant_data"] = xr.DataTree(xr.Dataset({"year": ("row", year + 1.0)}))
    with pytest.raises(ValueError, match="the model's 'year' has other values than when these draws were made"):
        pmgp.predict(idata, [3.0], model=model, progressbar=False)


def test_a_dimension_may_be_called_sample():
    with pm.Model(coords={"sample": np.arange(4)}) as model:
        gp = pmgp.gp.Markov(cov_func=COV.Matern32(1, ls=pm.LogNormal("ls")))
        f = gp.prior("f", X=np.arange(4.0), dims="sample")
        pm.Poisson("y", pm.math.exp(f), observed=[1, 0, 2, 3], dims="sample")
    rng = np.random.default_rng(2)
    draws = {
        "ls": (("chain", "draw"), np.ones((1, 40))),
        "f": (("chain", "draw", "sample"), rng.normal(size=(1, 40, 4))),
    }
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(draws)})
    found = pmgp.predict(idata, [1.0], model=model, progressbar=False)
    assert float(found["latent_mean"][0]) == pytest.approx(float(draws["f"][1][0, :, 1].mean()), abs=1e-6)
    assert pmgp.loo(idata, model=model, random_seed=1, progressbar=False).n_data_points == 4
