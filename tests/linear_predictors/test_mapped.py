"""Effects that are not centered: hyper-parameters map standard normal variables, and the images are integrated out."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from pymc.exceptions import SamplingError
from scipy.stats import multivariate_normal, norm

import pmgp
from pmgp.core.approximations import Laplace
from pmgp.core.marginal.evidence_gradient import evidence_gradient
from pmgp.core.markov import PathSampling
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.model.theta_maps import ThetaMap

N, GROUPS = 24, 5
GROUP, Z, Y = np.arange(N) % GROUPS, np.linspace(-1.0, 2.0, N), np.sin(np.arange(N))
KIND = np.array([0, 0, 1, 1, 0])
DESIGN = np.stack([np.ones(N), Z], axis=1)


def factor():
    return pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))[0]


def factor_first():
    u = pm.Deterministic("u", factor() @ pm.Normal("z", 0, 1, shape=(2, GROUPS)))
    return 0.3 + u[0, GROUP] + Z * u[1, GROUP]


def factor_last():
    u = pm.math.dot(pm.Normal("z", 0.2, 1.5, shape=(GROUPS, 2)), factor().T)
    return (DESIGN * u[GROUP]).sum(axis=1)


def correlations():
    root = pt.linalg.cholesky(pm.LKJCorr("correlations", n=2, eta=2.0))
    u = (pm.Normal("z", 0, 1, shape=(GROUPS, 2)) @ root.T) * pm.HalfNormal("sigma", 1.0, shape=2)
    return u[GROUP, 0] + Z * u[GROUP, 1]


def scales_of_columns():
    u = pm.HalfNormal("sigma", 1.0, shape=2) * pm.Normal("z", 0, 1, shape=(GROUPS, 2))
    return u[GROUP, 0] + Z * u[GROUP, 1]


def scales_by_kind():
    u = pm.Normal("level", 0, 1) + pm.HalfNormal("sigma", 1.0, shape=2)[KIND] * pm.Normal("z", 0, 1, shape=GROUPS)
    return u[GROUP]


def scales_and_a_number():
    scales = pm.HalfNormal("scales", 1.0, shape=GROUPS)
    return pm.math.dot(
        DESIGN[:, [0, 1, 1, 0, 1]], pm.Normal("z", 0, 1, shape=GROUPS) * scales * pm.HalfNormal("tau", 1)
    )


def beside_others():
    u = factor() @ pm.Normal("z", 0, 1, shape=(2, GROUPS))
    v = pm.Normal("v", 0, pm.HalfNormal("omega", 1.0), shape=4)
    return u[0, GROUP] + Z * u[1, GROUP] + v[np.arange(N) % 4]


FORMS = [
    factor_first,
    factor_last,
    correlations,
    scales_of_columns,
    scales_by_kind,
    scales_and_a_number,
    beside_others,
]


class Case(NamedTuple):
    """A model's parts, its predictor as a function of a point, and mean and deviation of z."""

    parts: Any
    eta: Any
    point: dict[str, np.ndarray]
    mean: float
    deviation: float


@cache
def case_of(form) -> Case:
    """Return the case of a form, which several tests read."""
    with pm.Model() as model:
        eta = form()
        pm.Normal("y", eta, np.float64(0.5), observed=Y)
    graph = model.replace_rvs_by_values([eta])
    rng = np.random.default_rng(1)
    point = {name: np.asarray(v + 0.4 * rng.standard_normal(np.shape(v))) for name, v in model.initial_point().items()}
    mean, deviation = (0.2, 1.5) if form is factor_last else (0.0, 1.0)
    return Case(
        # Numba takes up to twenty seconds for the density of a matrix of correlations.
        take_apart(model, compile_kwargs={"mode": INTERPRETED}),
        model.compile_fn(graph, inputs=model.value_vars, on_unused_input="ignore", mode=INTERPRETED),
        point,
        mean,
        deviation,
    )


def dense_evidence(case: Case, theta: np.ndarray) -> float:
    """From the predictor's own derivative in the elements of z, by evaluating it."""
    point, covariance = case.point | case.parts.unravel(theta), 0.25 * np.eye(N)
    shapes = case.parts.latent_vector.shapes
    means = {name: np.full(shape, case.mean if name == "z" else 0.0) for name, shape in shapes.items()}
    [mean] = case.eta(point | means)
    for name, shape in shapes.items():
        deviation = case.deviation if name == "z" else np.exp(point["omega_log__"])
        for place in range(int(np.prod(shape))):
            move = deviation * np.eye(1, int(np.prod(shape)), place).reshape(shape)
            [moved] = case.eta(point | means | {name: means[name] + move})
            covariance += np.outer(moved - mean, moved - mean)
    return float(multivariate_normal.logpdf(Y, mean, covariance))


def fitted(case: Case, theta: np.ndarray):
    return Laplace(sweeps=0).fit(case.parts.prior(theta), case.parts.likelihood(theta))


@pytest.mark.parametrize("form", FORMS)
def test_evidence_and_gradient_are_those_of_dense_algebra(form):
    case = case_of(form)
    assert set(case.parts.latent_vector.names) == ({"z", "v"} if form is beside_others else {"z"})
    theta = case.parts.ravel(case.point)
    q = fitted(case, theta)
    estimate = PathSampling(4).estimate(np.random.default_rng(1), q, case.parts.likelihood(theta))
    np.testing.assert_allclose([q.log_evidence, estimate.log_evidence], dense_evidence(case, theta), rtol=1e-9)
    found = evidence_gradient(case.parts, Laplace(sweeps=0), theta, q, case.parts.likelihood(theta))
    steps = 1e-5 * np.eye(len(theta))
    expected = [(dense_evidence(case, theta + one) - dense_evidence(case, theta - one)) / 2e-5 for one in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_twin_with_the_transposed_factor_is_rejected(monkeypatch):
    case = case_of(factor_first)
    theta, blocks = case.parts.ravel(case.point), ThetaMap.blocks
    monkeypatch.setattr(ThetaMap, "blocks", lambda self, theta: blocks(self, theta).transpose(0, 2, 1))
    assert abs(fitted(case, theta).log_evidence - dense_evidence(case, theta)) > 1e-2


@pytest.mark.parametrize("form", [factor_last, beside_others])
def test_draws_are_those_of_the_variable_as_it_is_written(form):
    case = case_of(form)
    f, theta = case.parts.latent_vector.ravel(case.point), case.parts.ravel(case.point)
    found = case.parts.unravel_latent(f, theta)
    np.testing.assert_allclose(found["z"], case.point["z"], rtol=1e-10)
    expected = norm.logpdf(Y, case.eta(case.point)[0], 0.5).sum()
    assert case.parts.likelihood(theta).log_likelihood(f) == pytest.approx(expected, rel=1e-10)


def test_they_are_sampled():
    with pm.Model():
        pm.Poisson("y", pm.math.exp(factor_first()), observed=(Y > 0).astype(int))
        settings = {"chains": 1, "cores": 1, "progressbar": False, "random_seed": 1, "quiet": True}
        # PyMC would have Numba compile each deterministic variable, such as the standard deviations, for this alone.
        settings |= {"var_names": ["z", "chol"], "compute_convergence_checks": False}
        idata = pm.sample(30, tune=60, step=pmgp.PseudoMarginal(), **settings)
    for name in ("z", "chol"):
        assert np.ptp(idata["posterior"][name].to_numpy(), axis=1).min() > 0.0


def of_groups() -> pm.Model:
    with pm.Model(coords={"effect": ["level", "slope"], "group": range(GROUPS)}) as model:
        group, z = pm.Data("group_of", GROUP), pm.Data("z_of", Z)
        u = factor() @ pm.Normal("z", 0, 1, dims=("effect", "group"))
        pm.Normal("y", u[0, group] + z * u[1, group], np.float64(0.5), observed=Y)
    return model


def test_new_groups_have_the_covariance_of_the_others():
    model, packed = of_groups(), np.array([0.8, -0.6, 0.5])
    raw = np.arange(10.0).reshape(1, 1, 2, GROUPS)
    values = {
        "chol": (("chain", "draw", "packed"), packed[None, None]),
        "z": (("chain", "draw", "effect", "group"), raw),
    }
    coords = {"effect": ["level", "slope"], "group": range(GROUPS)}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords=coords)})
    model.set_dim("group", GROUPS + 1, coord_values=range(GROUPS + 1))
    with model:
        pm.set_data({"group_of": np.array([1, GROUPS]), "z_of": np.array([2.0, 2.0])})
    found = pmgp.predict(idata, model=model)
    root, at = np.array([[0.8, 0.0], [-0.6, 0.5]]), np.array([1.0, 2.0])
    np.testing.assert_allclose(found["latent_mean"], [at @ root @ raw[0, 0, :, 1], 0.0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found["latent_variance"], [0.0, np.square(root.T @ at).sum()], atol=1e-10)


def scale_after_the_index():
    return pm.HalfNormal("sigma", 1.0, shape=2)[KIND[GROUP]] * pm.Normal("z", 0, 1, shape=GROUPS)[GROUP]


def scales_of_columns_after_the_index():
    z = pm.Normal("z", 0, 1, shape=(GROUPS, 2))
    return pm.HalfNormal("sigma", 1.0) * z[GROUP, 0] + Z * pm.HalfNormal("tau", 1.0) * z[GROUP, 1]


def known_deviation():
    pm.HalfNormal("sigma", 1.0)
    return pm.Normal("z", 0, 1, shape=GROUPS)[GROUP]


def zero_sum():
    return pm.ZeroSumNormal("z", pm.HalfNormal("sigma", 1.0), shape=GROUPS)[GROUP]


@pytest.mark.parametrize(
    ("form", "latent", "words"),
    [
        (scale_after_the_index, None, r"latent=\['z'\] integrates it out.*\(sigma\[kind\] \* z\)\[group\]"),
        (scales_of_columns_after_the_index, None, r"\(chol @ z\)\[0, group\]"),
        (known_deviation, None, r"'z' is a normal variable with a known standard deviation"),
        (zero_sum, None, r"'z' is a ZeroSumNormal.*write pm\.Normal\('z', 0, sigma, shape=G\)"),
    ],
)
def test_other_forms_are_refused_in_words(form, latent, words):
    with pm.Model() as model:
        pm.Normal("y", form(), np.float64(0.5), observed=Y)
    with pytest.raises(ModelError, match=words):
        take_apart(model, latent)


@pytest.mark.parametrize("form", [known_deviation, scale_after_the_index, scales_of_columns_after_the_index])
def test_a_known_deviation_is_integrated_out_if_it_is_named(form):
    with pm.Model() as model:
        pm.Normal("y", form(), np.float64(0.5), observed=Y)
    assert take_apart(model, ["z"]).latent_vector.names == ["z"]


def test_a_singular_matrix_is_refused_before_the_chain_starts():
    with pm.Model() as model:
        scales, slope = pm.Normal("scales", 0, 1, shape=2, initval=[0.0, 0.0]), pm.Normal("slope", 0, 1)
        factor = pt.stack([pt.stack([scales[0], 0.0]), pt.stack([slope, scales[1]])])
        u = factor @ pm.Normal("z", 0, 1, shape=(2, GROUPS))
        pm.Normal("y", u[0, GROUP] + Z * u[1, GROUP], observed=Y)
    step = {"step": pmgp.PseudoMarginal(latent="z", model=model)}
    with model, pytest.raises(SamplingError, match=r"of 'z', .*multiplies it must be finite and invertible"):
        pm.sample(1, tune=1, chains=1, progressbar=False, **step)
