"""The sampled last layer against closed forms and quadrature, each with a twin that the same comparison rejects."""

from __future__ import annotations

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_ndtr

from pmgp.core.deep.last_layer import touching
from pmgp.core.deep.likelihoods import LIKELIHOODS
from pmgp.deep import RandomFeatureGP
from pmgp.interface.deep import last_layer

RNG = np.random.default_rng(1)
X = RNG.uniform(-2, 2, size=(40, 1))
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=40)
ONES = (X[:, 0] > 0).astype(float)
SMALL = {"layers": 1, "features": 3, "steps": 20, "evaluate_every": 20, "batch_size": 30, "validation_fraction": 0.0}


def fitted(y=Y, **given):
    return RandomFeatureGP(**SMALL | {"dtype": "float64"} | given).fit(X, y, progressbar=False)


def features(process):
    with process._computing():
        return np.asarray(last_layer.features(process._problem_, process.parameters_, X))


def errors_of_means(weights, function, expected):
    """Monte Carlo errors between means of a function of the weights, (chains, draws, ...), and expectations."""
    values = function(weights)
    values = values.reshape(*values.shape[:2], -1)
    sizes = np.array([az.ess(values[..., k]) for k in range(values.shape[-1])])
    error = values.std(axis=(0, 1)) / np.sqrt(sizes)
    return np.abs(values.mean(axis=(0, 1)) - np.ravel(expected)) / error


def test_a_gaussian_likelihood_has_the_closed_form():
    process = fitted()
    Phi, noise = features(process), np.exp(float(process.parameters_["likelihood"][0]))
    covariance = np.linalg.inv(np.eye(6) + Phi.T @ Phi / noise)
    mean = covariance @ Phi.T @ Y / noise
    weights = process.sample_last_layer(X, Y, draws=1500)["posterior"]["weights"].to_numpy()[..., 0]

    def squares(weights):
        deviation = weights - mean
        return deviation[..., :, None] * deviation[..., None, :]

    assert errors_of_means(weights, lambda w: w, mean).max() < 5
    assert errors_of_means(weights, squares, covariance).max() < 5
    # Independent weights with the right precisions, the optimum of q, are found out.
    assert errors_of_means(weights, squares, np.diag(1 / np.diag(np.linalg.inv(covariance)))).max() > 15


def plane(process, y):
    """Means and mean squares of the two weights of one feature with a probit link, on a grid."""
    Phi, line = features(process), np.linspace(-5.0, 5.0, 201)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    log = log_ndtr((2 * y - 1) * (grid @ Phi.T)).sum(axis=1) - (grid**2).sum(axis=1) / 2
    density = np.exp(log - log.max())
    density /= density.sum()
    return density @ grid, density @ grid**2


def test_a_probit_likelihood_has_the_posterior_of_quadrature():
    process = fitted(ONES, features=1, likelihood="probit")
    mean, square = plane(process, ONES)
    weights = process.sample_last_layer(X, ONES, draws=2000)["posterior"]["weights"].to_numpy()[..., 0]
    assert errors_of_means(weights, lambda w: w, mean).max() < 5
    assert errors_of_means(weights, np.square, square).max() < 5
    # Draws from the Gaussian at the mode, without the slices, are found out.
    with jax.enable_x64(True):
        reference = touching(LIKELIHOODS["probit"], [], jnp.asarray(features(process)), jnp.asarray(ONES), 1)
        normals = np.random.default_rng(2).normal(size=(4_000, 2))
        twin = np.asarray(reference.mean + jax.vmap(reference.deviation)(normals))[..., 0].reshape(2, -1, 2)
    assert errors_of_means(twin, lambda w: w, mean).max() > 15


def test_classes_have_the_gradient_of_zero_on_average():
    """E[d log p(W | y) / dW] = 0 under the posterior, for any smooth density; other labels are the twin."""
    y = np.digitize(X[:, 0], [-0.7, 0.7]).astype(float)
    process = fitted(y, likelihood="softmax")
    weights = process.sample_last_layer(X, y, draws=500)["posterior"]["weights"].to_numpy()
    Phi = features(process)

    def gradient(labels):
        seen = np.eye(3)[labels.astype(int)]

        def found(weights):
            f = Phi @ weights
            p = np.exp(f - f.max(axis=-1, keepdims=True))
            return Phi.T @ (seen - p / p.sum(axis=-1, keepdims=True)) - weights

        return found

    assert errors_of_means(weights, gradient(y), np.zeros(18)).max() < 5
    assert errors_of_means(weights, gradient(np.roll(y, 3)), np.zeros(18)).max() > 15


def test_predictions_are_those_of_the_drawn_weights():
    """With resampled frequencies, which must be the same ones for all inputs."""
    process = fitted(omega="var-resampled")
    idata = process.sample_last_layer(X, Y, draws=30, tune=10)
    f = features(process) @ idata["posterior"]["weights"].to_numpy().reshape(60, -1).T
    found = process.predict(X, last_layer=idata, draws=60)
    assert found["mean"].to_numpy() == pytest.approx(f.mean(axis=1), abs=1e-10)
    assert found.attrs["draws"] == process.predict(X, last_layer=idata).attrs["draws"] == 60
    assert process.sample_predictions(X, last_layer=idata, draws=7)["y"].shape == (7, 40)
    sd = np.exp(float(process.parameters_["likelihood"][0]) / 2)
    density = np.exp(-(((Y[:, None] - f) / sd) ** 2) / 2).mean(axis=1) / (sd * np.sqrt(2 * np.pi))
    assert process.log_predictive_density(X, Y, last_layer=idata) == pytest.approx(np.log(density))


def test_the_same_seed_gives_the_same_draws():
    process = fitted()
    one, other, third = (process.sample_last_layer(X, Y, draws=3, tune=2, random_seed=seed) for seed in (1, 1, 2))
    assert one["posterior"].equals(other["posterior"])
    assert not one["posterior"].equals(third["posterior"])
    # Iterations that are left out with `tune` are those that come first without it.
    whole = process.sample_last_layer(X, Y, draws=5, tune=0, random_seed=1)["posterior"]["weights"]
    np.testing.assert_array_equal(whole[:, 2:], one["posterior"]["weights"])


def test_what_is_refused():
    process = fitted()
    with pytest.raises(ValueError, match="draws=0"):
        process.sample_last_layer(X, Y, draws=0)
    with pytest.raises(ValueError, match="tune=-1: give an integer of at least 0"):
        process.sample_last_layer(X, Y, tune=-1)
    other = az.from_dict({"posterior": {"weights": np.zeros((1, 2, 8, 1))}})
    with pytest.raises(ValueError, match="weights of 8 features, but the process has 6"):
        process.predict(X, last_layer=other)


def test_a_likelihood_without_a_mode_is_named():
    process = fitted(likelihood=lambda y, f: f[:, 0] ** 2 + f[:, 0])
    with pytest.raises(FloatingPointError, match="no mode of the last layer's weights"):
        process.sample_last_layer(X, Y)
