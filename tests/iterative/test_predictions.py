"""Predictions of multivariate normal observations: a factorization, and solutions to a tolerance."""

from __future__ import annotations

import re
import tracemalloc

import arviz as az
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp.core.iterative.solvers import NotConvergedError
from pmgp.interface.prediction import setting
from pmgp.interface.prediction.observed_process import ObservedProcess

RNG = np.random.default_rng(0)
N, M = 150, 12
X, XNEW = RNG.uniform(-2.0, 2.0, (N, 2)), RNG.uniform(-2.5, 2.5, (M, 2))
Y = 1.0 + np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_normal(N)
# Outside the old inputs, where the process is not known, and near each other.
ROW = np.column_stack([np.linspace(2.1, 2.6, 6), np.full(6, 2.4)])
QUIETLY = {"progressbar": False}


def regression(cov=None, noise=True, n=N, data=X, y=Y):
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0)
        mean = pm.gp.mean.Constant(pm.Normal("level", 0.0, 1.0))
        kernel = pm.gp.cov.Matern52(2, ls=lengthscale) if cov is None else cov(lengthscale)
        gp = pm.gp.Marginal(mean_func=mean, cov_func=kernel)
        sigma = pm.LogNormal("noise", -1.0, 1.0) if noise else 0.0
        gp.marginal_likelihood("y", data[:n], y[:n], sigma=sigma, jitter=1e-6 if noise else 0.0)
    return model, gp


MODEL, GP = regression()


def trace(lengthscales, noise=0.2):
    shape = np.shape(lengthscales)
    values = {"lengthscale": np.array(lengthscales), "level": np.full(shape, 0.7), "noise": np.full(shape, noise)}
    return az.from_dict({"posterior": values})


THREE = trace([[0.4, 0.7, 1.5]])
ONE = trace([[0.6]])


def matern52(one, other):
    distances = np.sqrt(5.0 * np.square(one[:, None] - other[None]).sum(axis=2)) / 0.6
    return (1.0 + distances + distances**2 / 3.0) * np.exp(-distances)


def moments(inputs):
    """Return mean and covariance of the process at new inputs, by dense algebra, for the hyper-parameters of ONE."""
    C, between = matern52(X, X) + (0.04 + 1e-6) * np.eye(N), matern52(X, inputs)
    mean = 0.7 + between.T @ np.linalg.solve(C, Y - 0.7)
    return mean, matern52(inputs, inputs) - between.T @ np.linalg.solve(C, between)


def test_a_factorization_gives_what_dense_algebra_gives():
    found = pmgp.predict(ONE, XNEW, model=MODEL, gp=GP, **QUIETLY)
    mean, covariance = moments(XNEW)
    for name in ("latent_mean", "mean"):
        assert_allclose(found[name], mean, rtol=1e-9)
    assert_allclose(found["latent_variance"], covariance.diagonal(), rtol=1e-9)
    assert_allclose(found["variance"], covariance.diagonal() + 0.04 + 1e-6, rtol=1e-9)
    assert found.attrs["solved"] == "by a Cholesky factorization"


def errors(tolerance, **given):
    """Return the largest errors of the mean, in posterior deviations, and of the deviation, relative to it."""
    solver = pmgp.marginal.Iterative(tolerance=tolerance, rank=8)
    found, exact = (
        pmgp.predict(ONE, XNEW, model=MODEL, solver=one, **given, **QUIETLY) for one in (solver, "cholesky")
    )
    deviation = np.sqrt(exact["latent_variance"])
    of_mean = np.abs(found["latent_mean"] - exact["latent_mean"]) / deviation
    return float(of_mean.max()), float(np.abs(np.sqrt(found["latent_variance"]) / deviation - 1.0).max())


def test_solutions_keep_to_their_tolerance():
    assert max(errors(1e-3, block_size=5)) < 1e-3


def test_the_residual_is_shown(capsys):
    solver = pmgp.marginal.Iterative(tolerance=1e-3, rank=8)
    pmgp.predict(ONE, XNEW, model=MODEL, solver=solver)
    # The tolerance of variances is that of squared deviations.
    assert re.search(r"Predicting: residual [\d.e-]+ \(to 0.032\) .*100%", capsys.readouterr().out)


def test_a_larger_tolerance_does_not():
    assert max(errors(0.5)) > 1e-3


def misfit(solver, joint, number=2000):
    """Return the largest deviations of draws' mean and covariance from the exact ones, in standard errors."""
    idata = trace(np.full((1, number), 0.6))
    given = {"model": MODEL, "draws": number, **QUIETLY}
    drawn = pmgp.sample_predictions(idata, ROW, solver=solver, joint=joint, random_seed=1, **given)["predictions"]
    found = []
    mean, of_process = moments(ROW)
    for name, noise in (("latent", 0.0), ("y", 0.04)):
        covariance = of_process + noise * np.eye(len(ROW))
        values = drawn[name].to_numpy()[0]
        variances = covariance.diagonal()
        error = np.sqrt((np.outer(variances, variances) + covariance**2) / number)
        found.append(np.abs(np.cov(values, rowvar=False) - covariance) / error)
        found.append(np.abs(values.mean(axis=0) - mean) / np.sqrt(variances / number))
    return max(one.max() for one in found)


def test_joint_draws_have_the_posteriors_moments():
    assert misfit("cholesky", True) < 5.0


def test_pathwise_draws_have_them_too():
    """Fewer of them, as the map from normal numbers to a draw has its own test (`test_square_root.py`)."""
    assert misfit("iterative", True, 500) < 5.0


def test_draws_at_each_input_by_itself_do_not():
    assert misfit("iterative", False) > 10.0


def test_length_scales_may_be_short():
    """Squared distances in length-scales have rounding errors then, which differ by the part of K they are in."""
    short = trace([[1e-3]])
    found, exact = (
        pmgp.predict(short, X[:4] + 1e-4, model=MODEL, solver=s, **QUIETLY) for s in ("iterative", "cholesky")
    )
    for name in ("mean", "variance"):
        assert_allclose(found[name], exact[name], atol=2e-3)


def test_the_cap_gives_no_prediction():
    solver = pmgp.marginal.Iterative(rank=1, cap=2)
    with pytest.raises(
        NotConvergedError, match=r"after 2 iterations the residual of 1 right-hand sides is up to .* a cap over 2"
    ):
        pmgp.predict(ONE, XNEW, model=MODEL, solver=solver, **QUIETLY)


def test_more_points_are_solved_iteratively_with_the_same_averages(monkeypatch):
    monkeypatch.setattr(setting, "LARGEST_WHOLE", N - 1)
    found, exact = (pmgp.predict(THREE, XNEW, model=MODEL, solver=solver, **QUIETLY) for solver in ("auto", "cholesky"))
    for name in exact:
        assert_allclose(found[name], exact[name], atol=5e-3)
    assert found.attrs["solved"] == "by preconditioned conjugate gradients, to 0.01 posterior standard deviations"


@pytest.mark.parametrize(("joint", "allowed"), [(False, 6e6), (True, 6e6), (False, 2.5e7)])
def test_memory_is_kept(joint, allowed, monkeypatch):
    """The largest amount has room for the elements of K, 10 megabytes, and for solutions at some new inputs."""
    n, before = 1500, []
    given_theta = ObservedProcess.given_theta

    def noting(*args):
        """Leave out what compilation takes."""
        before.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.reset_peak()
        return given_theta(*args)

    monkeypatch.setattr(ObservedProcess, "given_theta", noting)
    inputs = np.random.default_rng(1).uniform(-2.0, 2.0, (n, 2))
    model, _ = regression(n=n, data=inputs, y=np.sin(inputs[:, 0]))
    solver = pmgp.marginal.Iterative(memory=allowed, rank=16, tolerance=0.3)
    given = {"model": model, "solver": solver, **QUIETLY}
    # What the first predictions load stays in memory.
    (pmgp.sample_predictions if joint else pmgp.predict)(trace([[1.5]], 0.5), XNEW[:1], **given)
    before.clear()
    tracemalloc.start()
    try:
        if joint:
            pmgp.sample_predictions(trace([[1.5, 1.5]], 0.5), np.tile(XNEW, (3, 1)), **given)
        else:
            pmgp.predict(trace([[1.5]], 0.5), XNEW[:9] if allowed < 1e7 else np.tile(XNEW, (20, 1)), **given)
        peak = tracemalloc.get_traced_memory()[1] - before[0]
    finally:
        tracemalloc.stop()
    # An n by n matrix takes 18 megabytes.
    assert 0.3 * allowed < peak < allowed
    if allowed > 1e7:
        return
    if joint:
        with pytest.raises(
            MemoryError, match=r"a draw at 240 new inputs together, given 1500 old ones, takes .* MB, and"
        ):
            pmgp.sample_predictions(trace([[1.5]], 0.5), np.tile(XNEW, (20, 1)), **given)
        return
    with pytest.raises(MemoryError, match=r"36 new inputs at a time with 1500 old ones take more than the 6e"):
        pmgp.predict(trace([[1.5]], 0.5), np.tile(XNEW, (3, 1)), block_size=36, **given)


@pytest.mark.parametrize(
    ("solver", "error", "said"),
    [
        ("lu", ValueError, "solver='lu': choose one of auto, cholesky, iterative, or give a pmgp.marginal.Iterative"),
        (
            pmgp.marginal.Iterative(memory=1e3),
            MemoryError,
            "with a preconditioner of rank 15, and memory=",
        ),
        (
            pmgp.marginal.Iterative(rank=151),
            ValueError,
            "rank must be at least 1 and at most the number of points, 150",
        ),
    ],
)
def test_settings_that_cannot_serve_are_refused(solver, error, said):
    with pytest.raises(error, match=said):
        pmgp.predict(ONE, XNEW, model=MODEL, solver=solver, **QUIETLY)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tolerance": 1.0}, "tolerance must be positive and less than 1, not 1.0"),
        ({"cap": 0}, "cap must be a whole number of at least 1, not 0"),
        ({"probes": 1}, "probes must be a whole number of at least 2, not 1"),
        ({"memory": 0.0}, "memory=0.0: give a positive number of bytes"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        pmgp.marginal.Iterative(**settings)


def test_models_that_have_no_such_systems_are_refused():
    latent = pmgp.models.classifier(X, Y > 1.0)
    with pytest.raises(ValueError, match="has draws of 'f' in its posterior, whose covariance has no noise"):
        pmgp.predict(ONE, XNEW, model=latent, solver="iterative", **QUIETLY)
    periodic, _ = regression(lambda lengthscale: pm.gp.cov.Periodic(2, period=2.0, ls=lengthscale))
    with pytest.raises(pmgp.ModelError, match="covariance of 'y' cannot be computed in parts"):
        pmgp.predict(ONE, XNEW, model=periodic, solver="iterative", **QUIETLY)
    assert pmgp.predict(ONE, XNEW, model=periodic, **QUIETLY)["variance"].min() > 0.04
    noiseless, _ = regression(noise=False)
    with pytest.raises(pmgp.ModelError, match="the observations have no noise"):
        pmgp.predict(ONE, XNEW, model=noiseless, solver="iterative", **QUIETLY)


def test_noise_of_each_observation_asks_for_a_latent_process():
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.Matern52(2, ls=pm.LogNormal("lengthscale", 0.0, 1.0)))
        gp.marginal_likelihood("y", X[:9], Y[:9], sigma=np.linspace(0.1, 0.3, 9))
    words = r'\(9,\) has a value for each of the 9 old inputs; the deviations .* pm\.Normal\("y", f, deviations'
    with pytest.raises(pmgp.ModelError, match=words):
        pmgp.predict(ONE, XNEW, model=model, **QUIETLY)
