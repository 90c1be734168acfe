"""Sums of kernels over sources: as written out, in models, at new inputs; and what is refused."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.taking_apart import take_apart

N, M, CLASSES = 12, 5, 3
RNG = np.random.default_rng(2)
MATRICES = {"shape": RNG.normal(size=(N, 3)), "texture": 2.0 * RNG.normal(size=(N, 2))}
NEW = {"texture": RNG.normal(size=(M, 2)), "shape": RNG.normal(size=(M, 3))}
LABELS = np.arange(N) % CLASSES
WEIGHTS = np.array([0.3, 1.7])
FAST = {"mode": "FAST_COMPILE"}


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


@pytest.fixture
def sources():
    return pmgp.gp.Sources(MATRICES)


def normalized(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Products of features, divided by their mean square length in the old observations."""
    lengths = {name: np.square(matrix).sum(axis=1).mean() for name, matrix in MATRICES.items()}
    return [first[name] @ second[name].T / length for name, length in lengths.items()]


def test_the_sum_is_that_of_products_of_features(sources):
    kernel = pmgp.gp.KernelSum(sources.kernels(), WEIGHTS)
    assert sources.names == ["shape", "texture"]
    old = sum(w * c for w, c in zip(WEIGHTS, normalized(MATRICES, MATRICES), strict=True))
    cross = sum(w * c for w, c in zip(WEIGHTS, normalized(MATRICES, NEW), strict=True))
    assert_allclose(kernel(sources.X).eval(mode=INTERPRETED), old)
    assert_allclose(kernel(sources.X, sources.join(NEW)).eval(mode=INTERPRETED), cross)
    assert_allclose(kernel(sources.X, diag=True).eval(mode=INTERPRETED), old.diagonal())
    assert np.trace(old) == pytest.approx(N * WEIGHTS.sum())


def test_kernels_of_ones_own_see_their_columns(sources):
    kernels = sources.kernels(lambda d, active_dims: pm.gp.cov.ExpQuad(d, ls=1.5, active_dims=active_dims))
    squares = [np.square(x[:, None] - x[None]).sum(axis=-1) for x in MATRICES.values()]
    for kernel, distances in zip(kernels, squares, strict=True):
        assert_allclose(kernel(sources.X).eval(mode=INTERPRETED), np.exp(-0.5 * distances / 1.5**2))


def gamma_weights():
    return pm.Gamma("weights", 2, 2, shape=(CLASSES, 2))


def dirichlet_weights():
    concentration = pm.Exponential("concentration", 1)
    return pm.Dirichlet("weights", concentration * np.ones((CLASSES, 2)))


def classes(weights, sources) -> pm.Model:
    """A process for each class, with weights of its own."""
    with pm.Model() as model:
        w, X = weights(), pm.Data("X", sources.X)
        kernels = sources.kernels()
        processes = [pm.gp.Latent(cov_func=pmgp.gp.KernelSum(kernels, w[c])) for c in range(CLASSES)]
        f = [gp.prior(f"f{c}", X=X, reparameterize=False) for c, gp in enumerate(processes)]
        pmgp.MultinomialLogit("y", f, observed=LABELS)
    return model


def test_each_class_has_the_covariance_of_its_weights(sources):
    parts = take_apart(classes(gamma_weights, sources), compile_kwargs=FAST)
    theta = np.log(RNG.gamma(2.0, size=2 * CLASSES))
    prior, bases = parts.prior(theta), normalized(MATRICES, MATRICES)
    for w, covariance in zip(np.exp(theta).reshape(CLASSES, 2), prior.covariances, strict=True):
        expected = w[0] * bases[0] + w[1] * bases[1] + 1e-6 * np.eye(N)
        assert_allclose(np.tril(covariance), np.tril(expected), atol=1e-12)
    assert all(part.blocked is not None for part in parts.latent_prior.parts)


def test_predictions_know_the_weights_of_each_draw(sources):
    model = classes(gamma_weights, sources)
    weights, f = RNG.gamma(2.0, size=(1, 8, CLASSES, 2)), RNG.normal(size=(CLASSES, 1, 8, N))
    idata = az.from_dict({"posterior": {"weights": weights} | {f"f{c}": f[c] for c in range(CLASSES)}})
    found = pmgp.predict(idata, sources.join(NEW), model=model, progressbar=False)
    old, cross = normalized(MATRICES, MATRICES), normalized(MATRICES, NEW)
    for c in range(CLASSES):
        means = [
            (w[0] * cross[0] + w[1] * cross[1]).T
            @ np.linalg.solve(w[0] * old[0] + w[1] * old[1] + 1e-6 * np.eye(N), value)
            for w, value in zip(weights[0, :, c], f[c, 0], strict=True)
        ]
        assert_allclose(found["latent_mean"][c], np.mean(means, axis=0), rtol=1e-5, atol=1e-5)
    assert_allclose(found["probabilities"].sum("category"), 1.0)


@pytest.mark.parametrize(
    ("dimension", "names", "expected"),
    [
        ("class", ["ash", "elm", "oak"], ["ash", "elm", "oak"]),
        ("category", ["ash", "elm", "oak"], ["ash", "elm", "oak"]),
        ("class", ["ash", "elm"], [0, 1, 2]),
        ("school", ["ash", "elm", "oak"], [0, 1, 2]),
    ],
)
def test_the_names_of_the_classes_are_those_of_their_dimension(sources, dimension, names, expected):
    model = classes(gamma_weights, sources)
    model.add_coord(dimension, names)
    weights, f = np.ones((1, 2, CLASSES, 2)), np.zeros((1, 2, N))
    idata = az.from_dict({"posterior": {"weights": weights} | {f"f{c}": f for c in range(CLASSES)}})
    found = pmgp.predict(idata, sources.join(NEW), model=model, progressbar=False)
    assert list(found["category"].to_numpy()) == expected


@pytest.mark.parametrize("weights", [gamma_weights, dirichlet_weights])
def test_weights_are_hyper_parameters_like_others(weights, sources):
    model = classes(weights, sources)
    with model:
        step = pmgp.PseudoMarginal(compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(0), 10, 10)
    point, moved = model.initial_point(), set()
    for _ in range(30):
        point, _ = step.step(point)
        moved.add(next(value.tobytes() for name, value in point.items() if name.startswith("weights")))
    assert len(moved) > 5
    assert all(np.isfinite(value).all() for value in point.values())


COLUMN = np.ones((N, 1))
WRONG_SOURCES = {
    "sources must have a row for each of the same observations: 'a' has 12, 'b' has 11": {"a": COLUMN, "b": COLUMN[1:]},
    "there must be at least one source": {},
    "source 'a' must be a matrix with a row for each observation, not of shape": {"a": np.ones(N)},
    "source 'a' has masked values, 1 of": {"a": np.ma.masked_array(np.ones((N, 1)), np.arange(N)[:, None] == 2)},
    "source 'a' has dates": {"a": np.arange(N).astype("datetime64[D]")[:, None]},
    "source 'a' has nan in row 0, column 0": {"a": np.nan * COLUMN},
}


@pytest.mark.parametrize("message", WRONG_SOURCES)
def test_wrong_sources_are_named(message):
    with pytest.raises(ValueError, match=message):
        pmgp.gp.Sources(WRONG_SOURCES[message])


def test_features_that_are_all_zero_have_no_scale():
    with pytest.raises(ValueError, match="all features of source 'b' are 0"):
        pmgp.gp.Sources({"a": COLUMN, "b": 0.0 * COLUMN}).kernels()


def test_other_observations_have_the_same_sources(sources):
    with pytest.raises(ValueError, match="the sources must be shape, texture, not shape"):
        sources.join({"shape": NEW["shape"]})
    with pytest.raises(ValueError, match="source 'shape' has 2 columns, but it had 3 before"):
        sources.join(NEW | {"shape": NEW["shape"][:, 1:]})


def kernel(columns=2):
    return pm.gp.cov.ExpQuad(columns, ls=1.0)


def test_constants_and_white_noise_have_weights_too():
    X = np.arange(6.0).reshape(3, 2)
    total = pmgp.gp.KernelSum([kernel(), pm.gp.cov.Constant(2.0), pm.gp.cov.WhiteNoise(0.5)], [3.0, 0.5, 4.0])
    expected = 3.0 * kernel()(X).eval() + 1.0 + np.eye(3)
    np.testing.assert_allclose(total(X).eval(), expected)
    np.testing.assert_allclose(total(X, diag=True).eval(), expected.diagonal())
    with pytest.raises(ValueError, match="at least one kernel of input columns"):
        pmgp.gp.KernelSum([pm.gp.cov.Constant(2.0)], [1.0])


WRONG_SUMS = {
    "a sum needs at least one kernel": ([], []),
    "must have the same input_dim, not \\[2, 3\\]": ([kernel(2), kernel(3)], WEIGHTS),
    "one weight for each of 2 kernels, not weights of shape \\(3,\\)": ([kernel(), kernel()], np.ones(3)),
    "one weight for each of 2 kernels, not weights of shape \\(\\)": ([kernel(), kernel()], 1.0),
    "not all 0; they are \\[0.0, 0.0\\]": ([kernel(), kernel()], np.zeros(2)),
    "0 or more and not all 0; they are \\[-1.0, 2.0\\]": ([kernel(), kernel()], np.array([-1.0, 2.0])),
}


@pytest.mark.parametrize("message", WRONG_SUMS)
def test_wrong_sums_are_named(message):
    with pytest.raises(ValueError, match=message):
        pmgp.gp.KernelSum(*WRONG_SUMS[message])
