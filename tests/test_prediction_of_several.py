"""Predictions of models with several latent vectors: by brute force, by PyMC's own draws, and refused in words."""

from __future__ import annotations

import re

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.polynomial.hermite_e import hermegauss
from numpy.testing import assert_allclose
from scipy.special import expit, ndtr, softmax

import pmgp
from pmgp.core.numerics.ledger import counted
from pmgp.core.numerics.quadrature import normal_expectation
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.prediction import averages
from pmgp.interface.prediction.latent_process import LARGEST
from pmgp.interface.prediction.latent_processes import LatentProcesses
from pmgp.interface.prediction.latent_rows import LatentRows

N, M, D, CLASSES = 9, 4, 2, 3
CHAINS, DRAWS = 2, 20
JITTER = 1e-6  # what pm.gp adds to the diagonal
RNG = np.random.default_rng(8)
X, XNEW = 2.0 * RNG.normal(size=(N, D)), 2.0 * RNG.normal(size=(M, D))
LABELS, REALS = RNG.integers(0, CLASSES, size=N), RNG.normal(size=N)
LENGTHSCALES = (0.8, 1.3, 2.0)
QUIETLY = {"progressbar": False}


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def covariance(variance, lengthscale):
    return variance * pm.gp.cov.ExpQuad(D, ls=lengthscale)


def process(name, variance, lengthscale, inputs=None, **settings):
    gp = pm.gp.Latent(cov_func=covariance(variance, lengthscale))
    return gp.prior(name, X=X if inputs is None else inputs, reparameterize=False, **settings)


def own_kernels(variance):
    return [process(f"f{c}", variance, lengthscale) for c, lengthscale in enumerate(LENGTHSCALES)]


def softmax_of_several(variance):
    pmgp.MultinomialLogit("y", own_kernels(variance), observed=LABELS)


def softmax_in_another_order(variance):
    f = own_kernels(variance)
    pmgp.MultinomialLogit("y", [f[2], f[0], f[1]], observed=LABELS)


def softmax_of_one_kernel(variance):
    pmgp.MultinomialLogit("y", [process(f"f{c}", variance, 1.0) for c in range(CLASSES)], observed=LABELS)


def softmax_of_a_batch(variance):
    pmgp.MultinomialLogit("y", process("f", variance, 1.0, n_outputs=CLASSES).T, observed=LABELS)


def softmax_of_kernels_of_a_batch(variance):
    kernels = [covariance(variance, lengthscale)(X) + JITTER * pt.eye(N) for lengthscale in LENGTHSCALES]
    f = pm.MvNormal("f", mu=pt.zeros((CLASSES, N)), cov=pt.stack(kernels))
    pmgp.MultinomialLogit("y", f.T, observed=LABELS)


def categorical(variance):
    pm.Categorical("y", logit_p=pt.stack(own_kernels(variance), axis=-1), observed=LABELS)


def categorical_of_a_batch(variance):
    f = process("f", variance, 1.0, n_outputs=CLASSES)
    pm.Categorical("y", p=pm.math.softmax(f, axis=0).T, observed=LABELS)


def built(observe) -> pm.Model:
    with pm.Model() as model:
        observe(pm.Gamma("variance", 3, 1))
    return model


def posterior(model: pm.Model) -> xr.DataTree:
    """Draws that no sampler made: predictions are functions of whatever they are."""
    rng = np.random.default_rng(1)
    values = {"variance": rng.gamma(3.0, 0.5, size=(CHAINS, DRAWS))}
    rows = rng.normal(size=(CLASSES, CHAINS, DRAWS, N))
    for row, variable in enumerate(rv for rv in model.free_RVs if rv.name != "variance"):
        values[variable.name] = rows[row] if variable.ndim == 1 else np.moveaxis(rows, 0, 2)
    return az.from_dict({"posterior": values})


def moments(idata: xr.DataTree, lengthscales=LENGTHSCALES) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of each process at the new inputs for each draw: (C, draws, m) arrays."""
    draws = idata["posterior"].to_dataset().stack(sample=("chain", "draw"))
    variances = draws["variance"].to_numpy()
    f = [draws[name].transpose(..., "sample", f"{name}_dim_{draws[name].ndim - 2}") for name in draws if "f" in name]
    values = np.concatenate([each.to_numpy().reshape(-1, len(variances), N) for each in f])
    joint = np.concatenate([X, XNEW])
    squares = np.square(joint[:, None] - joint).sum(axis=-1)
    means, spreads = np.empty((2, len(values), len(variances), M))
    for c, lengthscale in enumerate(lengthscales[: len(values)]):
        for i, variance in enumerate(variances):
            k = variance * np.exp(-0.5 * squares / lengthscale**2) + JITTER * np.eye(N + M)
            weights = np.linalg.solve(k[:N, :N], k[:N, N:])
            means[c, i] = values[c, i] @ weights
            spreads[c, i] = k.diagonal()[N:] - (k[:N, N:] * weights).sum(axis=0)
    return means, spreads


def averaged(function, means: np.ndarray, variances: np.ndarray, order: int = 24) -> np.ndarray:
    """Average of a function of (C, nodes, m), over a grid of Gauss-Hermite nodes and over the draws."""
    nodes, weights = hermegauss(order)
    grid = np.stack(np.meshgrid(*[nodes] * len(means), indexing="ij")).reshape(len(means), -1)
    mass = np.stack(np.meshgrid(*[weights / weights.sum()] * len(means), indexing="ij")).prod(axis=0).ravel()
    found = [
        np.tensordot(mass, function(mean[:, None] + np.sqrt(variance)[:, None] * grid[:, :, None]), axes=1)
        for mean, variance in zip(means.swapaxes(0, 1), variances.swapaxes(0, 1), strict=True)
    ]
    return np.mean(found, axis=0)


def class_probabilities(f: np.ndarray) -> np.ndarray:
    return np.moveaxis(softmax(f, axis=0), 0, -1)


SHARED = (1.0, 1.0, 1.0)
CLASSIFIERS = {
    softmax_of_several: LENGTHSCALES,
    softmax_in_another_order: LENGTHSCALES,
    softmax_of_one_kernel: SHARED,
    softmax_of_a_batch: SHARED,
    softmax_of_kernels_of_a_batch: LENGTHSCALES,
    categorical: LENGTHSCALES,
    categorical_of_a_batch: SHARED,
}


@pytest.mark.parametrize("observe", CLASSIFIERS, ids=lambda observe: observe.__name__)
def test_probabilities_of_classes_are_integrals_over_all_processes(observe):
    model = built(observe)
    idata = posterior(model)
    found = pmgp.predict(idata, XNEW, model=model, **QUIETLY)
    means, variances = moments(idata, CLASSIFIERS[observe])
    assert found["latent_mean"].dims == ("process", "point")
    assert_allclose(found["latent_mean"], means.mean(axis=1), atol=1e-9)
    assert_allclose(found["latent_variance"], variances.mean(axis=1) + means.var(axis=1), atol=1e-9)
    if observe is softmax_in_another_order:
        means, variances = means[[2, 0, 1]], variances[[2, 0, 1]]
    expected = averaged(class_probabilities, means, variances, NODES)
    assert found["probabilities"].dims == ("point", "category")
    assert_allclose(found["probabilities"].sum("category"), 1.0)
    assert_allclose(found["probabilities"], expected, atol=TOLERANCE)
    # What would come out of other processes than those of the classes, or of no spread at all.
    assert np.abs(averaged(class_probabilities, means[::-1], variances[::-1], NODES) - expected).max() > 4 * TOLERANCE
    assert np.abs(averaged(class_probabilities, means, 0.0 * variances, NODES) - expected).max() > 4 * TOLERANCE


# Of an average over 64 nodes for each of 40 draws.
TOLERANCE = 1e-3
# In each of three dimensions: the error is 4e-7.
NODES = 12


def test_nodes_of_different_draws_are_different():
    first, *others = (averages._part(3, draw) for draw in (0, 1, 16, 17, 32))
    assert not any(np.isin(first, other).any() for other in others)
    assert np.array_equal(first, averages._part(3, 0))
    nodes, weights = averages._nodes(3, averages.parts_of(2, 5), wide=False)
    assert np.array_equal(nodes[:, 32:64], averages._part(3, 7))
    assert_allclose([weights.sum(), *nodes @ weights], [1.0, 0.0, 0.0, 0.0], atol=1e-12)
    # Each part once, by however many draws.
    assert sorted(part for draw in range(5) for part in averages.parts_of(draw, 5)) == list(range(averages.PARTS))


@pytest.mark.parametrize("number", [2, 6])
def test_the_error_of_wide_averages_falls_with_the_number_of_draws(number):
    mean, variance = np.full((number, 2), [0.2, 0.7]), np.full((number, 2), 9.0)
    expected = normal_expectation(expit, mean.sum(axis=0), variance.sum(axis=0))

    def error(draws):
        return np.abs(np.mean([average(draw) for draw in draws], axis=0) - expected).max()

    def average(draw):
        rows, parts = list(range(number)), range(draw, draw + 1)
        return averages.expectation_over(lambda f: expit(f.sum(axis=0)), mean, variance, rows, parts)

    # The nodes of successive draws are better than independent ones, of which 512 would leave 9e-4.
    assert error(range(512)) < 2e-3
    # A twin: the same nodes for each draw.
    assert np.mean([error([draw]) for draw in range(32)]) > 5e-3


def heteroscedastic(variance):
    mean, log_scale = process("f0", variance, LENGTHSCALES[0]), process("f1", variance, LENGTHSCALES[1])
    pm.Normal("y", mean, pm.math.exp(log_scale), observed=REALS)


def additive(variance):
    first, second = process("f0", variance, LENGTHSCALES[0]), process("f1", variance, LENGTHSCALES[1])
    pm.Poisson("y", pm.math.exp(0.5 * (first + second)), observed=LABELS)


def zero_inflated(variance):
    rate, gate = process("f0", variance, LENGTHSCALES[0]), process("f1", variance, LENGTHSCALES[1])
    pm.ZeroInflatedPoisson("y", psi=pm.math.sigmoid(gate), mu=pm.math.exp(0.5 * rate), observed=LABELS)


def varying_noise(variance):
    f, log_noise = process("f0", variance, LENGTHSCALES[0]), process("f1", variance, LENGTHSCALES[1])
    pmgp.OrdinalProbit("y", f, [-0.5, 0.5], pm.math.exp(0.3 * log_noise), observed=LABELS)


MEANS = {
    heteroscedastic: lambda f: f[0],
    additive: lambda f: np.exp(0.5 * (f[0] + f[1])),
    zero_inflated: lambda f: np.exp(0.5 * f[0]) * expit(f[1]),
}


@pytest.mark.parametrize("observe", MEANS, ids=lambda observe: observe.__name__)
def test_expected_observations_of_two_processes(observe):
    model = built(observe)
    idata = posterior(model)
    found = pmgp.predict(idata, XNEW, model=model, **QUIETLY)
    assert_allclose(found["mean"], averaged(MEANS[observe], *moments(idata)), rtol=1e-7)
    assert list(found["process"].to_numpy()) == ["f0", "f1"]


def test_a_noise_that_is_a_process_is_averaged_over():
    """The closed form of an ordinal label has a noise that is known."""
    model = built(varying_noise)
    idata = posterior(model)
    found = pmgp.predict(idata, XNEW, model=model, **QUIETLY)

    def probabilities(f):
        below = ndtr((np.array([-0.5, 0.5]) - f[0][..., None]) / np.exp(0.3 * f[1])[..., None])
        return np.diff(below, prepend=0.0, append=1.0, axis=-1)

    assert_allclose(found["probabilities"], averaged(probabilities, *moments(idata), order=60), atol=3e-4)


@pytest.mark.parametrize(
    ("observe", "processes"),
    [(softmax_of_one_kernel, 1), (softmax_of_a_batch, 1), (softmax_of_several, 3), (softmax_of_kernels_of_a_batch, 3)],
)
def test_a_covariance_that_processes_share_is_factorized_once_for_each_theta(observe, processes):
    model = built(observe)
    idata = posterior(model)
    idata["posterior"]["variance"][:] = np.repeat([0.7, 0.9], DRAWS).reshape(CHAINS, DRAWS)
    with counted() as counts:
        pmgp.predict(idata, XNEW, model=model, **QUIETLY)
    assert counts.total.cholesky == 2 * processes


@pytest.mark.parametrize("observe", [softmax_of_several, softmax_of_a_batch])
@pytest.mark.parametrize("joint", [True, False])
def test_draws_have_the_moments_of_the_predictions(observe, joint):
    model = built(observe)
    idata = posterior(model)
    idata = xr.DataTree.from_dict({"posterior": idata["posterior"].to_dataset().isel(draw=np.tile(range(DRAWS), 100))})
    drawn = pmgp.sample_predictions(idata, XNEW, model=model, draws=None, joint=joint, random_seed=2, **QUIETLY)
    found = pmgp.predict(idata, XNEW, model=model, draws=None, **QUIETLY)
    predictions = drawn["predictions"].to_dataset()
    if observe is softmax_of_a_batch:
        assert predictions["f"].dims == ("chain", "draw", "f_dim_0", "point")
        f = np.moveaxis(predictions["f"].to_numpy(), 2, 0).reshape(CLASSES, -1, M)
    else:
        f = np.stack([predictions[f"f{c}"].to_numpy() for c in range(CLASSES)]).reshape(CLASSES, -1, M)
    number = f.shape[1]
    mean, variance = found["latent_mean"].to_numpy(), found["latent_variance"].to_numpy()
    assert np.abs((f.mean(axis=1) - mean) / np.sqrt(variance / number)).max() < 4.0
    labels = predictions["y"].to_numpy().reshape(-1, M)
    expected = found["probabilities"].to_numpy()
    frequencies = (labels[:, :, None] == np.arange(CLASSES)).mean(axis=0)
    assert np.abs((frequencies - expected) / np.sqrt(expected * (1 - expected) / number)).max() < 4.0
    # A label is drawn given the latent values of the same draw: given f, its residuals have mean zero.
    residuals = (labels == 0) - softmax(f, axis=0)[0]
    for c in range(CLASSES):
        product = residuals * f[c]
        assert np.abs(product.mean(axis=0) / (product.std(axis=0) / np.sqrt(number))).max() < 4.0


def test_rows_of_a_matrix_have_the_names_of_their_coordinates():
    with pm.Model(coords={"class": ["red", "green", "blue"], "observation": range(N)}) as model:
        f = process("f", pm.Gamma("variance", 3, 1), 1.0, n_outputs=CLASSES, dims=("class", "observation"))
        pmgp.MultinomialLogit("y", f.T, observed=LABELS)
    idata = posterior(model)
    found = pmgp.predict(idata, XNEW, model=model, **QUIETLY)
    assert list(found["process"].to_numpy()) == ["f[red]", "f[green]", "f[blue]"]
    drawn = pmgp.sample_predictions(idata, XNEW, model=model, draws=10, random_seed=1, **QUIETLY)
    assert list(drawn["predictions"]["class"].to_numpy()) == ["red", "green", "blue"]
    assert drawn["predictions"]["f"].shape == (CHAINS, 5, CLASSES, M)


def test_at_the_old_inputs_each_process_is_what_was_drawn():
    model = built(softmax_of_several)
    idata = posterior(model)
    found = pmgp.predict(idata, X, model=model, **QUIETLY)
    expected = [idata["posterior"][f"f{c}"].mean(("chain", "draw")) for c in range(CLASSES)]
    assert_allclose(found["latent_mean"], expected, atol=1e-3)


def test_blocks_of_new_inputs_do_not_change_the_result():
    model = built(softmax_of_several)
    idata = posterior(model)
    whole = pmgp.predict(idata, XNEW, model=model, **QUIETLY)
    parts = pmgp.predict(idata, XNEW, model=model, block_size=3, **QUIETLY)
    for name in whole:
        assert_allclose(parts[name], whole[name], atol=1e-12)


def test_one_of_several_vectors_may_be_named_for_its_own_sake():
    """The others are hyper-parameters then, whose values at new inputs nobody knows."""
    model = built(softmax_of_several)
    idata = posterior(model)
    with pytest.warns(UserWarning, match="'f0' has a value of its own for each observation"):
        found = pmgp.predict(idata, XNEW, model=model, latent="f1", **QUIETLY)
    assert_allclose(found["latent_mean"], moments(idata)[0][1].mean(axis=0), atol=1e-9)


def test_processes_that_are_observed_elsewhere_are_given_alone():
    def crossed(variance):
        first, second = process("f0", variance, 1.0), process("f1", variance, 1.0)
        pm.Normal("y", first + second[np.arange(N)[::-1]], 1.0, observed=REALS)

    model = built(crossed)
    with pytest.warns(UserWarning, match="an observation depends on several elements of 'f0' and 'f1'"):
        found = pmgp.predict(posterior(model), XNEW, model=model, **QUIETLY)
    assert set(found.data_vars) == {"latent_mean", "latent_variance"}


def test_an_observation_for_each_process_is_none_of_a_new_point():
    def by_rows(variance):
        f = process("f", variance, 1.0, n_outputs=CLASSES)
        pm.Normal("y", f.sum(axis=1), 1.0, observed=np.zeros(CLASSES))

    model = built(by_rows)
    with pytest.warns(UserWarning, match="observation for each row of 'f'"):
        pmgp.predict(posterior(model), XNEW, model=model, **QUIETLY)


def test_different_inputs_are_refused():
    def two(variance):
        pm.Normal("y", process("f0", variance, 1.0) + process("f1", variance, 1.0, X + 1.0), 1.0, observed=REALS)

    model = built(two)
    with pytest.raises(ModelError, match=re.escape("'f0' and 'f1' are built from different inputs")):
        pmgp.predict(posterior(model), XNEW, model=model, **QUIETLY)


def test_vectors_of_different_lengths_are_refused():
    def coefficients(variance):
        weights = pm.MvNormal("f1", np.zeros(D), np.eye(D))
        pm.Normal("y", process("f0", variance, 1.0) + pt.dot(X, weights), 1.0, observed=REALS)

    with pytest.raises(ModelError, match=re.escape("(f1, f0); say which are f with latent=...: with 2, 9 elements")):
        pmgp.predict(None, XNEW, model=built(coefficients), **QUIETLY)


@pytest.mark.parametrize(("number", "nodes"), [(2, 324), (3, 64), (10, 64)])
def test_the_values_that_are_averaged_at_a_time_are_bounded(number, nodes):
    with pm.Model() as model:
        f = process("f", pm.Gamma("variance", 3, 1), 1.0, n_outputs=number)
    processes = LatentProcesses(LatentRows([f]), [model["variance"]])
    processes.compile(XNEW, [np.asarray(1.0)])
    assert averages.number_of_nodes(number) == nodes
    size = processes.block_size(10**6)
    assert number * nodes * size <= LARGEST < number * nodes * (size + 1)
