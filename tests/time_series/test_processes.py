"""Matern processes by their states have the density, the evidence and the posterior of the dense covariance."""

from __future__ import annotations

import tracemalloc
import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal

import pmgp
from pmgp import datasets
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.evidence_gradient import evidence_gradient
from pmgp.core.markov import Line, PathSampling, PrecisionPrior, StatePattern, Times, transitions
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError
from pmgp.interface.model.taking_apart import take_apart

COV = pm.gp.cov
KERNELS = {
    "exponential": lambda length, s: s**2 * COV.Exponential(1, ls=length),
    "1/2": lambda length, s: COV.Matern12(1, ls=length) * s**2,
    "3/2": lambda length, s: s * COV.Matern32(1, ls=length) * s,
    "5/2": lambda length, s: s**2 * COV.Matern52(1, ls_inv=1.0 / length),
    "sum": lambda length, s: (
        s**2 * (COV.Matern32(1, ls=length) + 0.3 * COV.Matern12(1, ls=0.2 * length)) + 0.5 * COV.Matern52(1, 9.0)
    ),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
ORDERS = {"1/2": [0.5], "3/2": [1.5], "5/2": [2.5], "sum": [0.5, 2.5, 1.5]}
LENGTHSCALES, VARIANCES = np.array([3.0, 1.0, 20.0]), np.array([2.0, 0.5, 1.0])
THETA = {"l": 3.0, "s": 0.8}


def correlation(order: float, distance: np.ndarray) -> np.ndarray:
    scaled = np.sqrt(2.0 * order) * np.abs(distance)
    return {0.5: 1.0, 1.5: 1.0 + scaled, 2.5: 1.0 + scaled + scaled**2 / 3.0}[order] * np.exp(-scaled)


def covariance(orders, t: np.ndarray, shorter: float = 1.0) -> np.ndarray:
    lags = np.subtract.outer(t, t)
    parts = zip(orders, LENGTHSCALES, VARIANCES, strict=False)
    return sum(variance * correlation(order, lags / (shorter * length)) for order, length, variance in parts)


def prior_of(orders, t: np.ndarray) -> PrecisionPrior:
    times, lines = Times(t), list(map(Line, orders, LENGTHSCALES, VARIANCES))
    return PrecisionPrior.centered(StatePattern.of(times, lines), transitions(times, lines))


def scattered(spacing: float, n: int = 40) -> np.ndarray:
    """Unsorted, two of them equal, and two of them a thousand times closer than the others."""
    t = np.random.default_rng(1).uniform(0.0, n * spacing, n)
    t[3], t[8] = t[10], t[5] + 1e-3 * spacing
    return t


def largest_error(prior: PrecisionPrior, dense: np.ndarray) -> float:
    """Return the largest relative error of log-determinant, marginal variances and a product, given sites."""
    rng, n = np.random.default_rng(2), len(dense)
    precision, b = rng.uniform(0.5, 100.0, n), 30.0 * rng.normal(size=n)
    precision[:5] *= -1e-3
    shrinkage = prior.shrinkage(precision)
    weighted = np.eye(n) + dense * precision
    expected = np.linalg.solve(weighted, dense)
    pairs = (
        (shrinkage.log_determinant, np.linalg.slogdet(weighted)[1]),
        (shrinkage.diagonal(), np.diag(expected)),
        (shrinkage.product(b), expected @ b),
        (prior.variance, np.diag(dense)),
    )
    return max(float(np.abs(one - other).max() / np.abs(other).max()) for one, other in pairs)


@pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("spacing", [3.0, 0.1, 1e-3, 1e-5])
def test_sites_make_of_states_what_they_make_of_the_dense_covariance(orders, spacing):
    """Also where steps are a hundred-millionth of a length-scale: the precision itself would have no digit left."""
    t = scattered(spacing)
    prior = prior_of(orders, t)
    assert largest_error(prior, covariance(orders, t)) < 1e-9
    assert prior.factor.log_determinant == pytest.approx(-np.linalg.slogdet(prior.values[0])[1].sum(), rel=1e-9)
    # A twin whose length-scales are longer by a millionth.
    assert spacing < 0.1 or largest_error(prior_of(orders, t), covariance(orders, t, 1.0 + 1e-6)) > 2e-9


@pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("spacing", [0.5, 1e-3])
def test_states_given_their_process_have_its_values(orders, spacing):
    prior = prior_of(orders, scattered(spacing))
    f, q = prior.sample_deviations(np.random.default_rng(3), 1)[0], approximation_of(prior)
    state = q.deviation_given(np.random.default_rng(4), f)
    np.testing.assert_allclose(q.mean + prior.pattern.observe(state), f, atol=1e-8)


def approximation_of(prior: PrecisionPrior):
    """Return an approximation with sites of precision ten."""
    precision, found = np.full(prior.size, 10.0), prior.conditioning()
    shrinkage = prior.shrinkage(precision)
    found.keep(np.ones(prior.size), precision, shrinkage.product(np.ones(prior.size)), shrinkage)
    return found.approximation(0.0, 1)


def test_states_given_a_draw_of_their_process_are_draws_of_all():
    """The derivatives have the variance of q, which those of a twin, known from the process for certain, have not."""
    t, size = np.array([0.0, 2.0, 2.5, 7.0]), 1000
    q, rng = approximation_of(prior_of([1.5, 2.5], t)), np.random.default_rng(5)
    drawn = np.array([q.deviation_given(rng, q.mean + f) for f in q.sample_deviations(rng, size)])
    expected = np.einsum("tii->ti", q.shrinkage.covariances[0])
    errors = (np.square(drawn).mean(axis=0) / expected - 1.0) / np.sqrt(2.0 / size)
    assert np.abs(errors).max() < 4.0
    values = q.prior.values
    certain = [q.prior.pattern.moments_given(values, f)[0] for f in q.sample_deviations(rng, size)]
    twin = (np.square(certain).mean(axis=0) / expected - 1.0) / np.sqrt(2.0 / size)
    assert np.abs(twin).max() > 8.0


def on(t, kernel, likelihood=None, process=pmgp.gp.Markov, mean=0.3, **settings) -> pm.Model:
    """A model of two hyper-parameters, by states or with the covariance matrix."""
    with pm.Model() as model:
        length, scale = pm.InverseGamma("l", 3.0, 6.0), pm.HalfNormal("s", 1.0)
        gp = process(mean_func=pm.gp.mean.Constant(np.float64(mean)), cov_func=kernel(length, scale))
        f = gp.prior("f", X=t[:, None], **settings)
        (likelihood or (lambda f: pm.Normal("y", f, np.float64(0.5), observed=np.cos(t))))(f)
    return model


def parts_at(model: pm.Model) -> tuple[LatentGaussianModel, np.ndarray]:
    parts = take_apart(model)
    return parts, np.log([THETA[name.removesuffix("_log__")] for name in parts.theta_names])


@pytest.mark.parametrize("kernel", [KERNELS["exponential"], KERNELS["sum"]])
def test_the_density_of_a_process_is_that_of_its_covariance(kernel, monkeypatch):
    monkeypatch.setattr(COV.Stationary, "_sqrt", lambda self, r2: np.sqrt(r2))
    t = np.random.default_rng(5).uniform(0.0, 10.0, 9)
    model, rng = on(t, kernel), np.random.default_rng(6)
    dense = kernel(np.float64(3.0), np.float64(0.8))(t[:, None]).eval(mode=INTERPRETED)
    f = 0.3 + np.linalg.cholesky(dense) @ rng.normal(size=9)
    density = model.compile_fn(
        model.logp(vars=[model["f"]], sum=False)[0], inputs=model.value_vars, mode="FAST_COMPILE"
    )
    expected = multivariate_normal(np.full(9, 0.3), dense).logpdf
    for value in (f, f + 0.1 * rng.normal(size=9)):
        assert float(density({"l_log__": np.log(3.0), "s_log__": np.log(0.8), "f": value})) == pytest.approx(
            expected(value), rel=1e-8
        )
    drawn = pm.draw(pm.do(model, THETA)["f"], 1500, random_seed=1, mode="FAST_COMPILE")
    errors = (np.cov(drawn.T) - dense) / np.sqrt((np.outer(np.diag(dense), np.diag(dense)) + dense**2) / 1500)
    assert np.abs(errors).max() < 4.5
    assert np.abs(drawn.mean(axis=0) - 0.3).max() < 4.0 * np.sqrt(dense[0, 0] / 1500)


def test_a_process_has_one_value_at_a_time():
    t = np.array([2.0, 1.0, 2.0])
    model = on(t, KERNELS["3/2"])
    density, point = model.compile_logp(mode="FAST_COMPILE"), model.initial_point()
    assert np.isfinite(density(point | {"f": np.array([0.2, 0.4, 0.2])}))
    for unit in (1.0, 1e-8):
        assert density(point | {"f": 0.3 + unit * np.array([-0.1, 0.1, 0.2])}) == -np.inf
    drawn = pm.draw(model["f"], 5, random_seed=1, mode="FAST_COMPILE")
    np.testing.assert_allclose(drawn[:, 0], drawn[:, 2], rtol=1e-12)


@every_kernel
def test_normal_observations_have_the_evidence_of_the_dense_covariance(kernel, monkeypatch):
    """In closed form, at times in any order, and all weights are one."""
    monkeypatch.setattr(COV.Stationary, "_sqrt", lambda self, r2: np.sqrt(r2))
    t = scattered(0.5, 30)
    parts, theta = parts_at(on(t, kernel))
    marginal = kernel(np.float64(3.0), np.float64(0.8))(t[:, None]).eval(mode=INTERPRETED) + 0.25 * np.eye(len(t))
    exact = multivariate_normal(np.full(len(t), 0.3), marginal).logpdf(np.cos(t))
    likelihood = parts.likelihood(theta)
    q = Laplace(sweeps=0).fit(parts.prior(theta), likelihood)
    assert q.log_evidence == pytest.approx(exact, rel=1e-10)
    for estimator in (PathSampling(8, width=2), ImportanceSampling(8)):
        estimate = estimator.estimate(np.random.default_rng(1), q, likelihood)
        assert estimate.log_evidence == pytest.approx(exact, rel=1e-10)
        assert estimate.effective_size == pytest.approx(8.0)


def disasters(kernel=KERNELS["5/2"], process=pmgp.gp.Markov, **settings) -> pm.Model:
    """Coal mining disasters, counted in cells of 2.8 years, with decades for units of time."""
    counts, edges = np.histogram(datasets.load("coal").X[:, 0], bins=40, range=(1851.0, 1963.0))
    t = (0.5 * (edges[1:] + edges[:-1]) - 1900.0) / 10.0
    return on(t, kernel, lambda f: pmgp.likelihoods.LogGaussianCox("y", f, observed=counts), process, **settings)


def dense(build, **settings) -> pm.Model:
    return build(process=pm.gp.Latent, reparameterize=False, jitter=0.0, **settings)


APPROXIMATIONS = {"laplace": Laplace(tolerance=1e-16), "ep": ExpectationPropagation(tolerance=1e-12)}


@pytest.mark.parametrize("approximation", APPROXIMATIONS.values(), ids=APPROXIMATIONS)
@pytest.mark.parametrize("order", ["3/2", "5/2"])
def test_disasters_have_the_evidence_and_gradient_of_the_dense_process(approximation, order):
    found, expected = (
        _evidence(build, approximation)
        for build in (disasters(KERNELS[order]), dense(disasters, kernel=KERNELS[order]))
    )
    assert found[0] == pytest.approx(expected[0], rel=1e-8)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-6)
    other = _evidence(disasters(lambda length, s: KERNELS[order](length * (1.0 + 1e-5), s)), approximation)
    assert other[0] != pytest.approx(expected[0], rel=2e-8)


def test_gradients_are_those_of_the_evidence_where_times_are_close():
    """A ten-thousandth of a length-scale apart, where blocks of the precision have no digits left."""
    t = scattered(0.01, 30)
    parts, theta = parts_at(
        on(t, KERNELS["5/2"], lambda f: pm.Poisson("y", pm.math.exp(f), observed=np.arange(30) % 4))
    )
    approximation, likelihood = APPROXIMATIONS["laplace"], parts.likelihood(theta)
    q = approximation.fit(parts.prior(theta), likelihood)
    found = evidence_gradient(parts, approximation, theta, q, likelihood)
    values = [
        [approximation.fit(parts.prior(theta + s * e), likelihood).log_evidence for s in (1e-3, -1e-3)]
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(found, -np.diff(values)[:, 0] / 2e-3, rtol=1e-4)


def _evidence(model: pm.Model, approximation) -> tuple[float, np.ndarray]:
    parts, theta = parts_at(model)
    likelihood = parts.likelihood(theta)
    q = approximation.fit(parts.prior(theta), likelihood)
    return q.log_evidence, evidence_gradient(parts, approximation, theta, q, likelihood)


def test_the_order_of_times_does_not_matter():
    t = scattered(0.3, 25)
    order, counts = np.random.default_rng(7).permutation(25), np.arange(25) % 4

    def evidence(places):
        def poisson(f):
            pm.Poisson("y", pm.math.exp(f), observed=counts[places])

        return _evidence(on(t[places], KERNELS["sum"], poisson), Laplace(tolerance=1e-16))

    (one, slope), (other, other_slope) = evidence(np.arange(25)), evidence(order)
    assert one == pytest.approx(other, rel=1e-10)
    np.testing.assert_allclose(slope, other_slope, rtol=1e-6, atol=1e-8)


def moments_of(model: pm.Model) -> tuple[np.ndarray, np.ndarray]:
    """Means of log hyper-parameters and of some values of f, and their Monte Carlo errors."""
    settings = {"tune": 300, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
    with warnings.catch_warnings(), model:
        warnings.simplefilter("ignore", UserWarning)
        chains = pm.sample(800, step=pmgp.PseudoMarginal(), **settings)["posterior"].dataset
    found = [np.log(chains["l"]), np.log(chains["s"]), *(chains["f"][..., place] for place in (0, 13, 39))]
    return np.array([float(x.mean()) for x in found]), np.array([float(az.mcse(x.to_numpy())) for x in found])


def test_chains_agree_with_those_of_the_dense_process():
    (expected, error), (found, own) = moments_of(dense(disasters)), moments_of(disasters())
    differences, errors = found - expected, np.hypot(error, own)
    assert np.abs(differences / errors).max() < 4.0
    # A twin with the length-scale of another parametrization, half of it.
    assert abs(differences[0] - np.log(2.0)) / errors[0] > 8.0


def test_values_between_and_after_the_observations_are_drawn():
    """Beside the mean of the dense process given normal observations."""
    y, everywhere = np.array([0.5, -1.0, 0.2, 1.0]), np.array([3.0, 0.0, 1.0, 2.0, 1.5, 4.0, 6.0])
    model = on(everywhere, KERNELS["3/2"], lambda f: pm.Normal("y", f[:4], np.float64(0.1), observed=y))
    parts, theta = parts_at(model)
    q = Laplace(sweeps=0).fit(parts.prior(theta), parts.likelihood(theta))
    lags = np.abs(np.subtract.outer(everywhere, everywhere)) / 3.0
    dense = 0.64 * correlation(1.5, lags)
    expected = 0.3 + dense[4:, :4] @ np.linalg.solve(dense[:4, :4] + 0.01 * np.eye(4), y - 0.3)
    np.testing.assert_allclose(q.mean[4:], expected, rtol=1e-9)


REFUSED = {
    "ExpQuad": (lambda: COV.ExpQuad(1, 1.0), "ExpQuad is not a Matern kernel; .*Matern12, Matern32 and Matern52"),
    "noise": (lambda: COV.Matern32(1, 1.0) + COV.WhiteNoise(0.1), "WhiteNoise is not a Matern kernel"),
    "level": (lambda: COV.Matern32(1, 1.0) + 2.0, "is not a Matern kernel"),
    "wave": (lambda: COV.Periodic(1, 2.0, 1.0), "Periodic by itself does not forget: multiply it by a Matern kernel"),
    "waves": (
        lambda: COV.Matern12(1, 1.0) + 2.0 * COV.Cosine(1, 2.0) * COV.Periodic(1, 2.0, 1.0),
        "Cosine x Periodic by itself does not forget",
    ),
    "product": (lambda: COV.Matern32(1, 1.0) * COV.Matern12(1, 1.0), "a product of 2 kernels"),
    "columns": (lambda: COV.Matern32(2, 1.0, active_dims=[0]), "one input column, and the kernel has 2"),
    "scales": (lambda: COV.Matern32(1, np.array([1.0, 2.0])), r"must be scalars, not of shape \(2,\)"),
}


@pytest.mark.parametrize(("build", "words"), REFUSED.values(), ids=REFUSED)
def test_other_kernels_are_refused_in_words(build, words):
    with pytest.raises(ModelError, match=words):
        pmgp.gp.Markov(cov_func=build())


def test_times_that_are_not_finite_are_refused_at_once_and_after_new_data():
    with pytest.raises(ModelError, match="1 of 3 times are not finite"):
        on(np.array([1.0, np.nan, 2.0]), KERNELS["1/2"])
    with pytest.raises(ModelError, match="one time at least"):
        pmgp.gp.Markov(cov_func=COV.Matern12(1, 1.0)).prior("f", X=[])
    with pm.Model() as model:
        t = pm.Data("t", np.arange(4.0))
        f = pmgp.gp.Markov(cov_func=COV.Matern12(1, pm.HalfNormal("l"))).prior("f", X=t)
        pm.Normal("y", f, 1.0, observed=np.zeros(4))
    parts = take_apart(model)
    before = parts.prior(parts.initial_theta).values
    model.set_data("t", np.array([0.0, 1.0, 5.0, 2.0]))
    parts.refresh_data()
    assert not np.allclose(parts.prior(parts.initial_theta).values, before)
    model.set_data("t", np.array([0.0, np.inf, 2.0, 3.0]))
    with pytest.raises(ModelError, match="1 of the 4 times of 'f' are not finite"):
        parts.refresh_data()
    with pytest.raises(ModelError, match=r"one column, not of shape \(4, 2\)"):
        _prior_at(np.ones((4, 2)))


def _prior_at(X):
    with pm.Model():
        pmgp.gp.Markov(cov_func=COV.Matern12(1, 1.0)).prior("f", X=X)


def test_times_are_data():
    with pm.Model() as model:
        shift = pm.Normal("shift")
        f = pmgp.gp.Markov(cov_func=COV.Matern12(1, 1.0)).prior("f", X=np.arange(4.0) * pm.math.exp(shift))
        pm.Normal("y", f, 1.0, observed=np.zeros(4))
    with pytest.raises(ModelError, match="the times of 'f' depend on hyper-parameters"):
        take_apart(model)


def test_other_steps_are_refused_in_words():
    model = on(np.arange(4.0), KERNELS["3/2"])
    with model, pytest.raises(ModelError, match="'f' is a process in time, whose covariance matrix is never formed"):
        pmgp.steps.Ancillary()
    with pytest.raises(NotImplementedError, match=r"sample with step=pmgp\.PseudoMarginal"):
        model.compile_dlogp()


def test_memory_is_proportional_to_the_number_of_times():
    """A matrix of n x n would take 200 MB."""
    t, rng = np.random.default_rng(1).uniform(0.0, 500.0, 5000), np.random.default_rng(2)
    parts, theta = parts_at(
        on(t, KERNELS["3/2"], lambda f: pm.Poisson("y", pm.math.exp(f), observed=np.ones(5000, int)))
    )
    likelihood = parts.likelihood(theta)
    ExpectationPropagation().fit(parts.prior(theta), likelihood)
    tracemalloc.start()
    try:
        parts.refresh_data()
        q = ExpectationPropagation().fit(parts.prior(theta), likelihood)
        estimate = PathSampling(16).estimate(rng, q, likelihood)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert estimate.choose(rng).shape == (5000,)
    assert peak < 25e6
