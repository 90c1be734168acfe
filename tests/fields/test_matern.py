"""Matern fields on lattices and meshes: covariance of the kernel, densities and evidences of dense algebra."""

from __future__ import annotations

import re

import numpy as np
import pymc as pm
import pytest
from scipy import sparse
from scipy.special import kv
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.approximations import Laplace
from pmgp.core.markov import PathSampling, PrecisionPrior
from pmgp.core.markov.fields import matern_coefficients, matern_on_mesh
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.steps.starts import unusable_start
from tests.fields.models import around

LATTICE = pmgp.gp.Lattice((4, 3), spacing=(0.5, 1.0), origin=(1.0, 0.0), border=1)
POINTS = np.random.default_rng(1).uniform([1.0, 0.0], [3.0, 3.0], (9, 2))
LENGTHSCALE, SIGMA = 0.8, 0.7


def dense_covariance(mesh, lengthscale=LENGTHSCALE, sigma=SIGMA) -> np.ndarray:
    """Return the covariance by definition: the inverse of tau^2 (kappa^2 C + G) C^-1 (kappa^2 C + G)."""
    kappa = np.sqrt(2.0) / lengthscale
    tau = 1.0 / (np.sqrt(4.0 * np.pi) * kappa * sigma)
    operator = kappa**2 * np.diag(mesh.mass) + mesh.stiffness.toarray()
    return np.linalg.inv(tau**2 * operator @ np.diag(1.0 / mesh.mass) @ operator)


def middle_of(lattice) -> tuple[int, np.ndarray]:
    """The cell in the middle, and how far the others are from it."""
    center = int(np.argmin(np.square(lattice.centers - lattice.centers.mean(axis=0)).sum(axis=1)))
    return center, np.sqrt(np.square(lattice.centers - lattice.centers[center]).sum(axis=1))


def largest_deviation(lengthscale: float, assumed: float) -> float:
    """From the Matern kernel in the middle of a large lattice, up to three length-scales away."""
    lattice = pmgp.gp.Lattice((32, 32), spacing=0.25, border=12)
    summed = matern_on_mesh(lattice.mass, lattice.stiffness)
    center, distance = middle_of(lattice)
    unit = np.eye(1, lattice.size, center)[0]
    found = summed.prior(matern_coefficients(lengthscale, SIGMA)).product(unit)
    near = (distance < 3.0 * lengthscale) & (distance > 0.0)
    scaled = np.sqrt(2.0) * distance[near] / assumed
    return float(np.abs(found[near] / SIGMA**2 - scaled * kv(1, scaled)).max())


def test_covariances_are_those_of_the_kernel_in_the_middle_of_a_lattice():
    assert largest_deviation(1.5, 1.5) < 0.03
    # A twin that takes the length-scale for the range.
    assert largest_deviation(1.5, 3.0) > 0.06


def test_the_variance_is_inflated_at_edges_and_a_border_takes_it_away():
    lattice = pmgp.gp.Lattice((20, 20), spacing=0.5, border=8)
    summed = matern_on_mesh(lattice.mass, lattice.stiffness)
    variance = summed.prior(matern_coefficients(1.5, SIGMA)).variance / SIGMA**2
    assert variance.max() > 2.5
    np.testing.assert_allclose(variance[lattice.interior], 1.0, atol=0.08)


@pytest.mark.parametrize(
    ("lengthscale", "ratio"),
    [(0.25, 0.31), (0.5, 0.76), (1.0, 1.10), (1.5, 1.13), (2.0, 1.12), (3.0, 1.08), (5.0, 1.04), (8.0, 1.02)],
)
def test_the_variance_in_the_middle_is_as_documented(lengthscale, ratio):
    lattice = pmgp.gp.Lattice((1, 1), border=27)
    summed = matern_on_mesh(lattice.mass, lattice.stiffness)
    variance = summed.prior(matern_coefficients(lengthscale, SIGMA)).variance / SIGMA**2
    assert variance[lattice.interior] == pytest.approx(ratio, abs=0.0051)
    assert re.search(rf"\b{ratio:.2f}\b", pmgp.gp.SPDE.__doc__)


class Unit:
    """Gives unit vectors in place of normals, so that draws are the columns of a root of the covariance."""

    def standard_normal(self, shape):
        return np.eye(*shape)


@pytest.mark.parametrize("points", [None, POINTS], ids=["nodes", "points"])
def test_draws_have_the_covariance_of_the_precision(points):
    design = sparse.eye_array(LATTICE.size) if points is None else LATTICE.at(points)
    prior = matern_on_mesh(LATTICE.mass, LATTICE.stiffness, design).prior(matern_coefficients(LENGTHSCALE, SIGMA))
    root = prior.sample_deviations(Unit(), LATTICE.size)
    expected = design @ dense_covariance(LATTICE) @ design.T
    np.testing.assert_allclose(root.T @ root, expected, atol=1e-12)
    np.testing.assert_allclose(prior.variance, np.diag(expected), rtol=1e-10)


def on(mesh=LATTICE, X=None, likelihood=None, **settings) -> pm.Model:
    """A model of two hyper-parameters."""
    with pm.Model() as model:
        sigma, lengthscale = pm.HalfNormal("sigma", 1.0), pm.InverseGamma("l", 3.0, 3.0)
        settings = {"lengthscale": lengthscale, "mean": np.float64(0.3)} | settings
        f = pmgp.gp.SPDE(mesh, sigma=sigma, **settings).prior("f", X=X)
        seen = len(POINTS) if X is not None else mesh.size
        normal = lambda f: pm.Normal("y", f, np.float64(0.5), observed=np.cos(np.arange(seen)))  # noqa: E731
        (likelihood or normal)(f[:seen])
    return model


def values_of(parts, theta) -> tuple[float, float]:
    named = dict(zip(parts.theta_names, np.exp(theta), strict=True))
    return named["l_log__"], named["sigma_log__"]


@pytest.mark.parametrize("X", [None, POINTS], ids=["nodes", "points"])
def test_normal_observations_have_the_evidence_of_dense_algebra(X):
    parts = take_apart(on(X=X))
    design = np.eye(LATTICE.size) if X is None else LATTICE.at(X).toarray()
    y = np.cos(np.arange(len(design)))
    for theta in around(parts):
        covariance = design @ dense_covariance(LATTICE, *values_of(parts, theta)) @ design.T
        exact = multivariate_normal(np.full(len(y), 0.3), covariance + 0.25 * np.eye(len(y))).logpdf(y)
        q = Laplace(sweeps=0).fit(parts.prior(theta), parts.likelihood(theta))
        # A site that nothing is observed at has the smallest precision that there is, 1e-10.
        assert q.log_evidence == pytest.approx(exact, rel=1e-10, abs=1e-10 * LATTICE.size if X is not None else 0.0)
        estimate = PathSampling(8, width=3).estimate(np.random.default_rng(1), q, parts.likelihood(theta))
        assert estimate.log_evidence == pytest.approx(exact, abs=1e-8)


def spectral_covariance(lengthscale: float, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and variances of the waves of the lattice: for long length-scales no other digits are left."""
    waves, vectors = np.linalg.eigh(LATTICE.stiffness.toarray() / LATTICE.area)
    waves[0], vectors[:, 0] = 0.0, 1.0 / np.sqrt(LATTICE.size)
    squared = 2.0 / lengthscale**2
    return vectors, 4.0 * np.pi * squared * sigma**2 / np.square(squared + waves) / LATTICE.area


def theta_at(parts, lengthscale: float) -> np.ndarray:
    named = {"l_log__": lengthscale, "sigma_log__": SIGMA, "tau_log__": 0.5}
    return np.log([named[name] for name in parts.theta_names])


@pytest.mark.parametrize("lengthscale", [1e1, 1e3, 1e5, 1e7])
def test_long_lengthscales_keep_the_level(lengthscale):
    parts, y = take_apart(on(X=POINTS)), np.cos(np.arange(len(POINTS)))
    theta = theta_at(parts, lengthscale)
    vectors, variances = spectral_covariance(lengthscale, SIGMA)
    rows = LATTICE.at(POINTS) @ vectors
    covariance = (rows[:, 1:] * variances[1:]) @ rows[:, 1:].T + 0.25 * np.eye(len(y))
    # The level is added by the lemma of the determinant, and Woodbury's identity.
    inverse, ones, level = np.linalg.inv(covariance), rows[:, 0], variances[0]
    size, seen = 1.0 + level * ones @ inverse @ ones, ones @ inverse @ (y - 0.3)
    fitted = (y - 0.3) @ inverse @ (y - 0.3) - level * seen**2 / size
    exact = -0.5 * (np.linalg.slogdet(2.0 * np.pi * covariance)[1] + np.log(size) + fitted)
    prior = parts.prior(theta)
    q = Laplace(sweeps=0).fit(prior, parts.likelihood(theta))
    assert q.log_evidence == pytest.approx(exact, abs=1e-8)
    np.testing.assert_allclose(prior.variance[-LATTICE.size :], np.square(vectors) @ variances, rtol=1e-9)
    # A twin without the sums of Q's rows.
    plain = PrecisionPrior.centered(prior.pattern, prior.values).factor
    lost = plain is None or abs(plain.log_determinant - prior.factor.log_determinant) > 1e-3
    assert lost == (lengthscale > 100.0)


def test_densities_with_long_lengthscales_keep_the_level():
    model, rng = on(mean=np.float64(0.0)), np.random.default_rng(4)
    vectors, variances = spectral_covariance(1e4, SIGMA)
    normals = rng.normal(size=LATTICE.size)
    density = model.compile_fn(
        model.logp(vars=[model["f"]], sum=False)[0], inputs=model.value_vars, mode="FAST_COMPILE"
    )
    theta = {"sigma_log__": np.log(SIGMA), "l_log__": np.log(1e4)}
    found = density(theta | {"f": vectors @ (np.sqrt(variances) * normals)}).item()
    assert found == pytest.approx(-0.5 * (np.log(2.0 * np.pi * variances) + normals**2).sum(), abs=1e-5)


def test_a_sum_with_a_field_whose_level_is_lost_has_no_density():
    groups = np.arange(LATTICE.size) % 3

    def beside_groups(f):
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau", 1.0), shape=3)
        pm.Normal("y", f + u[groups], np.float64(0.5), observed=np.cos(np.arange(LATTICE.size)))

    parts = take_apart(on(likelihood=beside_groups))
    assert parts.prior(theta_at(parts, 100.0)).factorized() is not None
    assert parts.prior(theta_at(parts, 1e4)).factorized() is None
    assert "rounding loses the field's level" in unusable_start(parts, theta_at(parts, 1e4))


def test_the_field_at_points_tells_its_nodes():
    parts = take_apart(on(X=POINTS))
    theta = parts.initial_theta
    q = Laplace(sweeps=0).fit(parts.prior(theta), parts.likelihood(theta))
    f = q.sample(np.random.default_rng(1), 1)[0]
    x = q.deviation_given(np.random.default_rng(2), f)
    np.testing.assert_allclose(q.mean[-LATTICE.size :] + x, f[-LATTICE.size :])
    np.testing.assert_allclose(q.mean + q.prior.pattern.observe(x), f, atol=1e-12)


def test_densities_and_their_gradients_are_those_of_dense_algebra():
    model = on()
    point = {"sigma_log__": np.log(SIGMA), "l_log__": np.log(LENGTHSCALE)}
    f = 0.3 + np.random.default_rng(3).normal(size=LATTICE.size)
    [density] = model.logp(vars=[model["f"]], sum=False)
    evaluated = model.compile_fn(density, inputs=model.value_vars, mode="FAST_COMPILE")
    exact = multivariate_normal(np.full(LATTICE.size, 0.3), dense_covariance(LATTICE)).logpdf(f)
    assert evaluated(point | {"f": f}).item() == pytest.approx(exact, rel=1e-10)
    gradient = model.compile_fn(
        pm.pytensorf.gradient(density, model.value_vars), inputs=model.value_vars, mode="FAST_COMPILE"
    )(point | {"f": f})
    order = [value.name for value in model.value_vars]
    joined = np.concatenate([np.ravel((point | {"f": f})[name]) for name in order])

    def at(values: np.ndarray) -> float:
        shifted, start = {}, 0
        for name in order:
            size = LATTICE.size if name == "f" else 1
            shifted[name] = values[start : start + size] if name == "f" else values[start]
            start += size
        return evaluated(shifted).item()

    steps = 1e-5 * np.eye(len(joined))
    expected = [(at(joined + step) - at(joined - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)


def test_a_field_that_contradicts_itself_has_no_density():
    model = on(X=POINTS)
    point = model.initial_point()
    density = model.compile_fn(
        model.logp(vars=[model["f"]], sum=False)[0], inputs=model.value_vars, mode="FAST_COMPILE"
    )
    assert np.isfinite(density(point))
    for unit in (1.0, 1e-8):
        assert density(point | {"f": point["f"] + unit * np.eye(1, len(point["f"]))[0]}) == -np.inf


def test_impossible_parameters_have_no_density():
    with pm.Model() as model:
        signed = pm.Normal("signed", 1.0, 1.0)
        f = pmgp.gp.SPDE(LATTICE, lengthscale=signed, sigma=1.0).prior("f")
        pm.Poisson("y", pm.math.exp(f), observed=np.ones(LATTICE.size, dtype=int))
    density = model.compile_fn(
        model.logp(vars=[model["f"]], sum=False)[0], inputs=model.value_vars, mode="FAST_COMPILE"
    )
    assert density({"signed": -1.0, "f": np.zeros(LATTICE.size)}) == -np.inf
    parts = take_apart(model)
    assert parts.prior(np.array([-1.0])).factorized() is None
    assert parts.prior(np.array([1.0])).factorized() is not None
    words = r"'f' has no density there: lengthscale \(or range\) and sigma must be positive.*signed=-1\.0"
    assert re.search(words, unusable_start(parts, np.array([-1.0])))
    assert "no density" not in unusable_start(parts, np.array([1.0]))


def test_a_shape_is_no_lattice():
    with pytest.raises(ModelError, match=r"such as pmgp.gp.Lattice\(\(10, 20\)\), or a pmgp.gp.Mesh, not \(4, 3\)"):
        pmgp.gp.SPDE((4, 3), lengthscale=1.0, sigma=1.0)


def test_draws_of_a_model_are_fields():
    model = on(X=POINTS)
    with model:
        drawn = pm.draw(model["f"], draws=3, random_seed=1)
    assert drawn.shape == (3, len(POINTS) + LATTICE.size)
    at = LATTICE.at(POINTS)
    np.testing.assert_allclose(drawn[:, : len(POINTS)], 0.3 + (drawn[:, len(POINTS) :] - 0.3) @ at.T.toarray())


def test_a_range_is_twice_a_lengthscale():
    parts = [take_apart(on(lengthscale=None, range=1.6)), take_apart(on(lengthscale=0.8))]
    first, second = (one.prior(one.initial_theta).variance for one in parts)
    np.testing.assert_allclose(first, second, rtol=1e-7)


def test_a_mesh_of_the_lattices_matrices_is_the_lattice():
    consistent = sparse.diags_array(0.5 * LATTICE.mass) + sparse.diags_array(0.5 * LATTICE.mass)
    mesh = pmgp.gp.Mesh(sparse.csc_array(consistent), LATTICE.stiffness)
    parts = [take_apart(on(mesh)), take_apart(on(LATTICE))]
    first, second = (one.prior(one.initial_theta).variance for one in parts)
    np.testing.assert_allclose(first, second, rtol=1e-12)
    at = take_apart(on(mesh, X=LATTICE.at(POINTS)))
    assert at.prior(at.initial_theta).size == len(POINTS) + LATTICE.size


def test_interpolation_keeps_linear_functions():
    at = LATTICE.at(POINTS)
    np.testing.assert_allclose(at @ LATTICE.centers, POINTS, atol=1e-12)
    np.testing.assert_allclose(at.sum(axis=1), 1.0)
    np.testing.assert_allclose(LATTICE.at(LATTICE.centers).toarray(), np.eye(LATTICE.size), atol=1e-12)


def test_lattices_around_points_hold_them():
    lattice = pmgp.gp.Lattice.around(POINTS, spacing=0.3, border=1.0)
    inside = lattice.counts(POINTS)
    assert inside.sum() == len(POINTS)
    assert inside[~lattice.interior].sum() == 0
    low, high = lattice.centers.min(axis=0), lattice.centers.max(axis=0)
    assert (POINTS.min(axis=0) - low >= 0.85).all()
    assert (high - POINTS.max(axis=0) >= 0.85).all()


@pytest.mark.parametrize("spacing", [0.1, 0.5, 1.0, (0.5, 2.0)])
def test_rounded_points_are_not_in_the_border(spacing):
    """The last of them would be on an edge of the lattice."""
    points = np.round(np.random.default_rng(2).uniform(0.0, 10.0, size=(200, 2)), 1)
    lattice = pmgp.gp.Lattice.around(points, spacing=spacing, border=3.0)
    assert lattice.counts(points)[lattice.interior].sum() == len(points)


@pytest.mark.parametrize("border", [0, 3])
def test_points_on_the_upper_edge_are_in_the_last_cells(border):
    lattice = pmgp.gp.Lattice((3, 2), spacing=0.1, border=border)
    counts = lattice.counts([[0.3, 0.2], [0.1 + 0.2, 0.0], [0.0, 0.05]])[lattice.interior]
    np.testing.assert_array_equal(counts.reshape(3, 2), [[1, 0], [0, 0], [1, 1]])


def test_points_on_the_lower_edge_are_in_the_first_cells():
    """Rounding would move them into the border."""
    lattice = pmgp.gp.Lattice((3, 2), spacing=0.1, origin=(-5.0, -4.9), border=1)
    np.testing.assert_array_equal(lattice.counts([[-5.0, -4.9]])[lattice.interior], [1, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("point", [[0.4, 0.1], [-0.2, 0.1]])
def test_points_outside_the_lattice_are_named(point):
    with pytest.raises(ValueError, match=r"1 of the 2 points lie outside the lattice, the first at \["):
        pmgp.gp.Lattice((3, 2), spacing=0.1).counts([[0.1, 0.1], point])


MASKED = np.ma.masked_array([[0.5, 0.5], [9.0, 9.0], [1.5, 0.5]], [[False] * 2, [True] * 2, [False] * 2])
SIDE = np.array([[1.0, -1.0], [-1.0, 1.0]])
REFUSED = {
    "both": (lambda: on(range=2.0), "either a lengthscale or a range"),
    "outside": (lambda: on(X=POINTS + 9.0), "9 of the 9 points lie outside"),
    "coordinates": (lambda: on(X=POINTS[:, :1]), "two coordinates"),
    "weights": (lambda: on(pmgp.gp.Mesh([1.0, 1.0], SIDE), X=POINTS), r"sparse \(k, 2\) array"),
    "outside the mesh": (
        lambda: on(pmgp.gp.Mesh([1.0, 1.0], SIDE), X=sparse.csr_array([[0.5, 0.5], [0.0, 0.0], [np.nan, 1.0]])),
        "row 1 of X has weights that are zero or not finite, as 2 of 3 rows do",
    ),
    "shapes": (lambda: pmgp.gp.Mesh([1.0, 1.0, 1.0], SIDE), "a row and a column for each node"),
    "areas": (lambda: pmgp.gp.Mesh([1.0, 0.0], SIDE), "1 of the 2 row sums of C are not positive"),
    "symmetry": (lambda: pmgp.gp.Mesh([1.0, 1.0], SIDE + np.eye(2, k=1)), "not symmetric"),
    "sign": (lambda: pmgp.gp.Mesh([1.0, 1.0], -SIDE), r"G is not positive semi-definite: 2 of the 2 .* are negative"),
    "indefinite": (lambda: pmgp.gp.Mesh([1.0, 1.0], np.abs(SIDE) + np.eye(2, k=1) + np.eye(2, k=-1)), "semi-definite;"),
    "no number": (lambda: pmgp.gp.Mesh([1.0, 1.0], np.nan * SIDE), "4 elements of G are not finite"),
    "spacing": (lambda: pmgp.gp.Lattice((2, 2), spacing=0.0), "one or two positive numbers, not 0.0"),
    "three sides": (lambda: pmgp.gp.Lattice((2, 2), spacing=np.ones(3)), "one or two positive numbers"),
    "spacing around": (lambda: pmgp.gp.Lattice.around(POINTS, [0.5, 0.0], 1.0), "one or two positive numbers"),
    "nothing around": (lambda: pmgp.gp.Lattice.around(np.zeros((0, 2)), 0.5, 1.0), "one point at least"),
    "endless border": (lambda: pmgp.gp.Lattice.around(POINTS, 0.5, np.inf), "and finite, not inf"),
    "cells": (lambda: pmgp.gp.Lattice((0, 2)), "one row and one column at least, not \\(0, 2\\)"),
    "one number": (lambda: pmgp.gp.Lattice(4), "two whole numbers of cells, one row and one column at least, not 4"),
    "half a cell": (lambda: pmgp.gp.Lattice((4, 4), border=2.5), "must be a number of cells, 0 or more, not 2.5"),
    "width": (lambda: pmgp.gp.Lattice.around(POINTS, 0.5, -1.0), "border must be 0 or more, and finite, not -1.0"),
    "masked points": (lambda: pmgp.gp.Lattice((4, 4)).counts(MASKED), "points has masked values, 2 of 6, .* in row 1"),
    "masked around": (lambda: pmgp.gp.Lattice.around(MASKED, 0.5, 1.0), "points has masked values"),
    "no point": (lambda: pmgp.gp.Lattice((4, 4)).at([[1.0, 1.0], [np.nan, 1.0]]), "1 of the 2 points are not finite"),
    "one point": (lambda: pmgp.gp.Lattice((4, 4)).counts([1.0, 2.0]), "in the shape \\(k, 2\\), not \\(2,\\)"),
    "several": (lambda: on(lengthscale=np.ones(2)), "must be scalars, not of shape"),
}


@pytest.mark.parametrize(("build", "words"), REFUSED.values(), ids=REFUSED)
def test_impossible_fields_are_refused_in_words(build, words):
    with pytest.raises(ValueError, match=words):
        build()
