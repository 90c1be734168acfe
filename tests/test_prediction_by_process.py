"""A process that is handed in predicts from columns of a plain array, which its graph has kept in parts only."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from pymc.gp import cov

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.prediction.known_process import KnownProcess
from pmgp.interface.prediction.latent_process import LatentProcess

N, M, JITTER = 10, 4, 1e-6
RNG = np.random.default_rng(5)
LABELS = RNG.integers(0, 2, size=N)


def places(number):
    """Two coordinates, and one of three outputs."""
    return np.column_stack([RNG.normal(size=number), RNG.uniform(0.5, 3.0, size=number), np.arange(number) % 3])


X, XNEW = places(N), places(M)

# From a length-scale; the columns in no order.
KERNELS = {
    "space times time": lambda ls: cov.ExpQuad(3, ls=ls, active_dims=[1]) * cov.Matern32(3, ls=0.8, active_dims=[0]),
    "sum": lambda ls: cov.ExpQuad(3, ls=ls, active_dims=[1]) + 0.5 * cov.Linear(3, c=0.3, active_dims=[0]),
    "one column": lambda ls: cov.ExpQuad(3, ls=ls, active_dims=[1]),
    "two columns, turned": lambda ls: cov.ExpQuad(3, ls=[ls, 0.7], active_dims=[1, 0]),
    "all columns, and some": lambda ls: cov.ExpQuad(3, ls=ls) * cov.Matern52(3, ls=1.2, active_dims=[0]),
    "Coregion": lambda ls: (
        cov.ExpQuad(3, ls=ls, active_dims=[1])
        * cov.Coregion(3, W=np.array([[1.0], [0.5], [-0.3]]), kappa=np.ones(3), active_dims=[2])
    ),
    "Gibbs": lambda ls: cov.Gibbs(3, lengthscale_func=lambda x: ls + x**2, active_dims=[1]),
    "warped": lambda ls: (
        cov.Matern32(3, ls=ls, active_dims=[0])
        * cov.WarpedInput(
            3, warp_func=lambda x: x**3, cov_func=cov.ExpQuad(1, ls=1.0, active_dims=[0]), active_dims=[1]
        )
    ),
    "scaled": lambda ls: cov.ScaledCov(
        3, scaling_func=lambda x: 1 + x**2, cov_func=cov.ExpQuad(1, ls=ls, active_dims=[0]), active_dims=[1]
    ),
    "white noise": lambda ls: (
        cov.ExpQuad(3, ls=ls, active_dims=[1]) * cov.Periodic(3, period=2.0, ls=1.0, active_dims=[0])
        + cov.WhiteNoise(0.4)
    ),
    "sources": lambda ls: pmgp.gp.KernelSum(
        [cov.ExpQuad(3, ls=ls, active_dims=[1]), cov.Linear(3, c=0.0, active_dims=[0])], np.array([0.3, 0.7])
    ),
}
MEAN = pm.gp.mean.Linear(coeffs=np.array([0.4, -0.3, 0.2]), intercept=0.5)


@pytest.fixture(autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def observed(name, f, labels=LABELS):
    pmgp.BernoulliProbit(name, f, observed=labels)


def build(kernel, inputs=X, mean=MEAN):
    with pm.Model() as model:
        gp = pm.gp.Latent(mean_func=mean, cov_func=kernel(pm.Gamma("ls", 4, 3)))
        observed("y", gp.prior("f", X=inputs() if callable(inputs) else inputs, reparameterize=False))
    return model, gp


def as_data():
    return pm.Data("X", X)


def draws_of(model, number=4):
    with model:
        prior = pm.sample_prior_predictive(draws=number, random_seed=3, compile_kwargs={"mode": INTERPRETED})["prior"]
    return xr.DataTree.from_dict({"posterior": prior.to_dataset()})


def dense_moments(kernel, ls, f):
    """Mean and covariance of f at the new inputs, K being PyMC's own at numbers."""
    K = kernel(ls)(np.concatenate([X, XNEW])).eval(mode=INTERPRETED) + JITTER * np.eye(N + M)
    m = MEAN(np.concatenate([X, XNEW])).eval(mode=INTERPRETED)
    weights = np.linalg.solve(K[:N, :N], K[:N, N:])
    return m[N:] + weights.T @ (f - m[:N]), K[N:, N:] - K[N:, :N] @ weights


def dense_prediction(kernel, idata):
    """The law of total variance over draws."""
    posterior = idata["posterior"]
    moments = [
        dense_moments(kernel, float(ls), f)
        for ls, f in zip(posterior["ls"].to_numpy()[0], posterior["f"].to_numpy()[0], strict=True)
    ]
    means = np.array([mean for mean, _ in moments])
    return means.mean(axis=0), np.mean([K.diagonal() for _, K in moments], axis=0) + means.var(axis=0)


@pytest.mark.parametrize("name", KERNELS)
def test_predictions_from_a_plain_array(name):
    kernel = KERNELS[name]
    model, gp = build(kernel)
    idata = draws_of(model)
    found = pmgp.predict(idata, XNEW, model=model, gp=gp, progressbar=False)
    mean, variance = dense_prediction(kernel, idata)
    assert_allclose(found["latent_mean"], mean, atol=1e-6)
    assert_allclose(found["latent_variance"], variance, atol=1e-6)
    other, process = build(kernel, as_data)
    for given in ({}, {"gp": process}):
        same = pmgp.predict(idata, XNEW, model=other, progressbar=False, **given)
        xr.testing.assert_allclose(found, same, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("joint", [True, False])
def test_draws_from_a_plain_array(joint):
    kernel = KERNELS["space times time"]
    (model, gp), (other, _) = build(kernel), build(kernel, as_data)
    idata = draws_of(model)
    given = {"joint": joint, "random_seed": 4, "progressbar": False}
    found = pmgp.sample_predictions(idata, XNEW, model=model, gp=gp, **given)["predictions"]
    same = pmgp.sample_predictions(idata, XNEW, model=other, **given)["predictions"]
    for name in ("f", "y"):
        assert_allclose(found[name], same[name], atol=1e-6)


def test_the_conditional_of_pymc_agrees():
    """`gp.conditional` in the same model; its graph is evaluated, nothing is drawn."""
    kernel = KERNELS["space times time"]
    model, gp = build(kernel)
    idata = draws_of(model, 1)
    with model:
        conditional = gp.conditional("fnew", XNEW)
    f, ls = (idata["posterior"][name].to_numpy()[0, 0] for name in ("f", "ls"))
    mean, covariance, *_ = conditional.owner.op.dist_params(conditional.owner)
    mean, covariance = pytensor.function([model["f"], model["ls"]], [mean, covariance], on_unused_input="ignore")(f, ls)
    found = pmgp.predict(idata, XNEW, model=model, gp=gp, progressbar=False, latent="f")
    assert_allclose(found["latent_mean"], mean, atol=1e-6)
    # The jitter is part of the process for both; PyMC adds it to the new inputs only when it draws.
    assert_allclose(found["latent_variance"], covariance.diagonal(), atol=2 * JITTER)


def test_several_processes():
    """Two covariances, one of which two vectors have, given in another order than the vectors'."""
    with pm.Model() as model:
        ls = pm.Gamma("ls", 4, 3)
        first, second = (pm.gp.Latent(cov_func=KERNELS[name](ls)) for name in ("space times time", "sum"))
        f = [gp.prior(f"f{i}", X=X, reparameterize=False) for i, gp in enumerate((first, first, second))]
        pmgp.MultinomialLogit("y", pt.stack(f, axis=1), observed=np.arange(N) % 3)
    idata = draws_of(model)
    found = pmgp.predict(idata, XNEW, model=model, gp=[second, first], progressbar=False)
    shift = MEAN(np.concatenate([X, XNEW])).eval(mode=INTERPRETED)
    posterior = idata["posterior"]
    for row, name in enumerate(("space times time", "space times time", "sum")):
        values = zip(posterior["ls"].to_numpy()[0], posterior[f"f{row}"].to_numpy()[0], strict=True)
        means = [dense_moments(KERNELS[name], float(ls), f + shift[:N])[0] - shift[N:] for ls, f in values]
        assert_allclose(found["latent_mean"].to_numpy()[row], np.mean(means, axis=0), atol=1e-6)


def test_the_inputs_are_the_likelihood_s_too():
    """Data that hold the inputs have their values at new points from Xnew."""
    kernel = KERNELS["space times time"]
    with pm.Model() as model:
        inputs = pm.Data("X", X)
        gp = pm.gp.Latent(cov_func=kernel(pm.Gamma("ls", 4, 3)))
        observed("y", gp.prior("f", X=inputs, reparameterize=False) + inputs[:, 1])
    idata = draws_of(model)
    given, found = (pmgp.predict(idata, XNEW, model=model, gp=each, progressbar=False) for each in (gp, None))
    xr.testing.assert_allclose(given, found, rtol=1e-8, atol=1e-8)
    assert "probability" in given


def test_inputs_that_are_a_function_of_data_have_one_unit():
    """Without the process Xnew is in the units of the data, so with the process it must not be in others."""
    with pm.Model() as model:
        data = pm.Data("X", X)
        gp = pm.gp.Latent(cov_func=KERNELS["space times time"](pm.Gamma("ls", 4, 3)))
        observed("y", gp.prior("f", X=data / 2.0, reparameterize=False))
    idata = draws_of(model, 2)
    with pytest.raises(ValueError, match=r"a function of the pm\.Data X: leave gp out, and give Xnew in the units"):
        pmgp.predict(idata, XNEW, model=model, gp=gp, progressbar=False)
    with pm.Model() as direct:
        gp = pm.gp.Latent(cov_func=KERNELS["space times time"](pm.Gamma("ls", 4, 3)))
        observed("y", gp.prior("f", X=X / 2.0, reparameterize=False))
    expected = pmgp.predict(idata, XNEW / 2.0, model=direct, gp=gp, progressbar=False)
    found = pmgp.predict(idata, XNEW, model=model, progressbar=False)
    xr.testing.assert_allclose(found["latent_mean"], expected["latent_mean"], rtol=1e-7, atol=1e-7)


def test_without_the_process_the_message_asks_for_it():
    model, _ = build(KERNELS["space times time"])
    with pytest.raises(ModelError, match=r"several different input matrices, .* gp=gp"):
        pmgp.predict(draws_of(model, 2), XNEW, model=model, progressbar=False)
    model, _ = build(KERNELS["two columns, turned"], mean=pm.gp.mean.Zero())
    with pytest.raises(ValueError, match=r"Xnew has 3 columns, but the covariance uses 2; .* gp=gp"):
        pmgp.predict(draws_of(model, 2), XNEW, model=model, progressbar=False)


@pytest.mark.parametrize("gp", [pm.gp.Latent(cov_func=cov.ExpQuad(3, ls=1.0)), 3, ["f"]])
def test_what_is_no_process_with_inputs_is_refused(gp):
    model, _ = build(KERNELS["sum"])
    with pytest.raises(ValueError, match=r"gp must be a process after gp\.prior"):
        pmgp.predict(draws_of(model, 2), XNEW, model=model, gp=gp, progressbar=False)


def test_another_process_is_refused():
    model, _ = build(KERNELS["sum"])
    _, other = build(KERNELS["sum"])
    with pytest.raises(ModelError, match=r"no process in gp=\.\.\. has the covariance of 'f'"):
        pmgp.predict(draws_of(model, 2), XNEW, model=model, gp=other, progressbar=False)


@pytest.mark.parametrize("part", [lambda: pt.as_tensor(X @ X.T), lambda: cov.Linear(3, c=0.0)(X[::-1])])
def test_a_part_that_is_not_the_process_s_is_refused(part):
    """What is added to the process's covariance is not known at other inputs; another matrix is no input."""
    kernel = KERNELS["sum"]
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=kernel(pm.Gamma("ls", 4, 3)))
        gp.X = X
        K = gp.cov_func(X) + part() + JITTER * pt.eye(N)
        f = pm.MvNormal("f", pt.zeros(N), cov=K)
    with pytest.raises(ModelError, match=r"has a value for each of the 10 old inputs"):
        LatentProcess(f, [model["ls"]], known=[KnownProcess(gp)])
