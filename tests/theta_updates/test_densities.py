"""The conditional densities of theta equal dense formulas, and cost what they should."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import DensePrior
from pmgp.core.gaussians.sites import SiteApproximation
from pmgp.core.numerics.ledger import counted
from pmgp.core.theta_updates import schemes
from pmgp.core.theta_updates.densities import AncillaryDensity, JointState, LatentPart, SufficientDensity, ThetaDensity
from pmgp.core.theta_updates.joint_update import JointDensity
from pmgp.core.theta_updates.surrogate import BOUNDS, SurrogateDensity, surrogate_noise
from pmgp.core.theta_updates.variance import ConjugateVariance
from tests.finite_differences import central_differences
from tests.latent_updates.cases import GaussianLikelihood
from tests.theta_updates.gibbs_geweke import DifferentiableToy, N, draw_jointly

THETA = np.array([0.3, -0.4])
GRADIENTS = [SufficientDensity, AncillaryDensity]


@pytest.fixture
def here(rng) -> tuple[JointState, DifferentiableToy]:
    return draw_jointly(rng)


def joint(model: DifferentiableToy, current: JointState, approximation: Laplace) -> JointDensity:
    normals = np.random.default_rng(0).standard_normal((2, 1, N))
    return JointDensity(model, current, approximation, normals)


def every_density(current: JointState, model: DifferentiableToy, seed: int = 0) -> list[ThetaDensity]:
    rng = np.random.default_rng(seed)
    return [
        SufficientDensity(model, current),
        AncillaryDensity(model, current),
        SurrogateDensity(model, current, rng.standard_normal(N)),
        JointDensity(model, current, Laplace(), rng.standard_normal((2, 1, N))),
    ]


def dense(model: DifferentiableToy, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, covariance and its factor."""
    prior = model.prior(theta)
    K = np.array(prior.covariance)
    return prior.mean, K, np.linalg.cholesky(K)


def log_normal(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    return float(stats.multivariate_normal(mean, covariance).logpdf(x))


def log_likelihood(model: DifferentiableToy, f: np.ndarray) -> float:
    return float(stats.poisson(np.exp(f)).logpmf(model.y).sum())


# The toy model's own derivatives


@pytest.mark.parametrize(
    ("scheme", "densities"),
    [
        (schemes.SufficientScheme(), [SufficientDensity]),
        (schemes.AncillaryScheme(), [AncillaryDensity]),
        (schemes.InterweavingScheme(), [SufficientDensity, AncillaryDensity]),
        (schemes.SurrogateScheme(), [SurrogateDensity]),
        (schemes.JointScheme(), [JointDensity]),
    ],
)
def test_a_scheme_moves_in_its_densities(here, scheme, densities, rng):
    """Any sequence of them would leave the posterior invariant, so that no statistical test tells."""
    current, model = here
    assert [type(stage(model, current, rng)) for stage in scheme.stages] == densities


def test_derivatives_of_the_toy_model(here):
    _, model = here
    means, covariances = model.pushforward(THETA)
    assert_allclose(means, central_differences(lambda t: model.prior(t).mean, THETA, 1e-3), atol=1e-9)
    assert_allclose(covariances, central_differences(lambda t: model.prior(t).covariance, THETA, 1e-3), atol=1e-9)
    nothing = np.zeros((N, N)), np.zeros(N), np.zeros(N)
    slope = central_differences(model.log_prior, THETA, 1e-3)
    assert_allclose(model.theta_gradient(THETA, *nothing), slope, atol=1e-8)
    curvature = -central_differences(lambda t: model.theta_gradient(t, *nothing), THETA, 1e-3)
    assert_allclose(model.curvature(THETA, np.zeros(N)), curvature, atol=1e-8)


# Values


def test_sufficient(here):
    current, model = here
    f = current.latent.f
    m, K, _ = dense(model, THETA)
    point = SufficientDensity(model, current).at(THETA)
    expected = model.log_prior(THETA) + log_normal(f, m, K) + log_likelihood(model, f)
    assert point.log_density == pytest.approx(expected)
    assert point.payload.f is f


def test_ancillary(here):
    current, model = here
    m, _, L = dense(model, current.theta)
    nu = np.linalg.solve(L, current.latent.f - m)
    m, _, L = dense(model, THETA)
    f = m + L @ nu
    point = AncillaryDensity(model, current).at(THETA)
    assert_allclose(point.payload.f, f, rtol=1e-10)
    assert point.log_density == pytest.approx(model.log_prior(THETA) + log_likelihood(model, f))


def test_surrogate(here):
    """N(g|m, K + S) p(y|f), f moving with theta so that eta = D^-1 (f - m_g) stays."""
    current, model = here
    density = SurrogateDensity(model, current, np.random.default_rng(3).standard_normal(N))
    g, eta = density.surrogate, []
    for theta in (current.theta, THETA):
        m, K, _ = dense(model, theta)
        S = np.diag(surrogate_noise(model.prior(theta), model.likelihood(theta)))
        R = S - S @ np.linalg.solve(S + K, S)
        point = density.at(theta)
        mean = m + R @ np.linalg.solve(S, g - m)
        eta.append(np.linalg.solve(np.linalg.cholesky(R), point.payload.f - mean))
        constant = 0.5 * N * np.log(2.0 * np.pi)
        expected = model.log_prior(theta) + log_normal(g, m, K + S) + log_likelihood(model, point.payload.f)
        assert point.log_density == pytest.approx(expected + constant)
    assert_allclose(eta[0], eta[1], rtol=1e-6, atol=1e-8)


def test_surrogate_data_are_drawn_about_f(here):
    current, model = here
    noise = surrogate_noise(current.latent.prior, model.likelihood(current.theta))
    rng = np.random.default_rng(0)
    draws = np.array([SurrogateDensity(model, current, rng.standard_normal(N)).surrogate for _ in range(800)])
    standard = (draws - current.latent.f) / np.sqrt(noise)
    assert stats.kstest(standard.ravel(), "norm").pvalue > 1e-3
    assert stats.kstest(1.2 * standard.ravel(), "norm").pvalue < 1e-3


@pytest.mark.parametrize("sweeps", [0, 2])
def test_joint(here, sweeps):
    """p(y|f) N(f|m, K) / q(f) with f kept at the chain's theta, and drawn from q elsewhere."""
    current, model = here
    density = joint(model, current, Laplace(sweeps=sweeps))
    for theta in (current.theta, THETA):
        m, K, _ = dense(model, theta)
        point = density.at(theta)
        f, q = point.payload.f, point.payload.extra
        covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(q.precision))
        log_weight = log_likelihood(model, f) + log_normal(f, m, K) - log_normal(f, q.mean, covariance)
        assert point.log_density == pytest.approx(model.log_prior(theta) + log_weight)
        assert (f is current.latent.f) == (theta is current.theta)


def test_f_of_the_joint_update_comes_from_its_approximation(here):
    current, model = here
    rng = np.random.default_rng(0)
    densities = [JointDensity(model, current, Laplace(), rng.standard_normal((2, 1, N))) for _ in range(600)]
    draws = np.array([density.at(THETA).payload.f for density in densities])
    q = densities[0].at(THETA).payload.extra
    K = model.prior(THETA).covariance
    covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(q.precision))
    standard = np.linalg.solve(np.linalg.cholesky(covariance), (draws - q.mean).T)
    assert stats.kstest(standard.ravel(), "norm").pvalue > 1e-3
    assert stats.kstest(1.2 * standard.ravel(), "norm").pvalue < 1e-3


# Gradients and metrics


@pytest.mark.parametrize("density", GRADIENTS)
def test_gradients(here, density):
    current, model = here
    conditional = density(model, current)
    for theta in (THETA, current.theta):
        expected = central_differences(lambda t: conditional.at(t).log_density, theta, 1e-3)
        assert_allclose(conditional.at(theta, gradient=True).gradient, expected, rtol=1e-7, atol=1e-7)
        assert_allclose(conditional.gradient(theta), expected, rtol=1e-7, atol=1e-7)
    assert conditional.at(THETA).gradient.size == 0


def test_sufficient_metric(here):
    """The Fisher information is the expected negative Hessian of log N(f|m, K), to be seen by averaging over f."""
    current, model = here
    rng = np.random.default_rng(0)
    density = SufficientDensity(model, current)
    density.with_metric(density.at(THETA))
    K = model.prior(THETA)
    scores = []
    for f in K.sample(rng, 4000):
        here_f = JointState(THETA, LatentPart(K, f))
        gradient = SufficientDensity(model, here_f).gradient(THETA)
        scores.append(gradient - model.theta_gradient(THETA, np.zeros((N, N)), np.zeros(N), f))
    products = np.einsum("ri,rj->rij", scores, scores)
    error = products.std(axis=0) / np.sqrt(len(products))
    factor = density.with_metric(density.at(THETA)).metric_factor
    information = factor @ factor.T - model.curvature(THETA, current.latent.f)
    assert (np.abs(products.mean(axis=0) - information) < 4.0 * error).all()


def test_sufficient_metric_by_dense_algebra(here):
    current, model = here
    density = SufficientDensity(model, current)
    factor = density.with_metric(density.at(THETA, gradient=True)).metric_factor
    _, K, _ = dense(model, THETA)
    means, changes = model.pushforward(THETA)
    solved = np.linalg.solve(K, changes)
    expected = 0.5 * np.einsum("aij,bji->ab", solved, solved) + means @ np.linalg.solve(K, means.T)
    assert_allclose(factor @ factor.T, expected + model.curvature(THETA, current.latent.f), rtol=1e-8)


def test_the_sufficient_metric_of_another_theta_is_its_own(here):
    """What the chain knows of the metric where it stands is of no use elsewhere."""
    current, model = here
    density = SufficientDensity(model, current)
    fresh = density.with_metric(density.at(THETA))
    known = density.with_metric(density.at(current.theta)).payload
    again = SufficientDensity(model, current._replace(latent=known))
    assert_array_equal(again.with_metric(again.at(THETA)).metric_factor, fresh.metric_factor)
    assert not np.allclose(again.with_metric(again.at(current.theta)).metric_factor, fresh.metric_factor)


def test_ancillary_metric_by_the_jacobian_of_f(here):
    current, model = here
    density = AncillaryDensity(model, current)
    point = density.with_metric(density.at(THETA, gradient=True))
    jacobian = central_differences(lambda t: density.at(t).payload.f, THETA, 1e-3)
    expected = jacobian @ np.diag(np.exp(point.payload.f)) @ jacobian.T + model.curvature(THETA, point.payload.f)
    assert_allclose(point.metric_factor @ point.metric_factor.T, expected, rtol=1e-7)


@pytest.mark.parametrize("density", GRADIENTS)
def test_an_indefinite_metric_gets_the_sizes_of_its_eigenvalues(here, density, monkeypatch):
    current, model = here
    expected = density(model, current)
    metric = expected.with_metric(expected.at(THETA)).metric_factor
    information = metric @ metric.T - model.curvature(THETA, current.latent.f)
    monkeypatch.setattr(DifferentiableToy, "curvature", lambda self, theta, f: -information + np.diag([-2.0, 3.0]))
    conditional = density(model, current)
    factor = conditional.with_metric(conditional.at(THETA)).metric_factor
    assert_allclose(factor @ factor.T, np.diag([2.0, 3.0]), rtol=1e-6, atol=1e-6)
    assert_array_equal(factor, np.tril(factor))
    assert factor.flags.f_contiguous


@pytest.mark.parametrize("density", GRADIENTS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_metric_that_cannot_be_computed(here, density, value, monkeypatch):
    current, model = here
    monkeypatch.setattr(DifferentiableToy, "curvature", lambda self, theta, f: np.diag([value, 1.0]))
    conditional = density(model, current)
    assert conditional.with_metric(conditional.at(THETA)) is None


# Where the density is zero


@pytest.mark.parametrize("theta", [[25.0, 0.0], [np.nan, 0.0], [0.0, np.inf]])
def test_outside_the_support(here, theta):
    current, model = here
    for density in every_density(current, model):
        with counted() as counts:
            point = density.at(np.array(theta))
            assert point.log_density == -np.inf
            assert point.payload is None
        assert counts.total.cubic == (0, 0, 0)
    for density in every_density(current, model)[:2]:
        assert np.isnan(density.gradient(np.array(theta))).all()
        assert density.with_metric(density.at(np.array(theta))) is None


def test_an_indefinite_covariance(here, monkeypatch):
    current, model = here
    densities = every_density(current, model)
    indefinite = DensePrior(np.zeros(N), np.asfortranarray(np.eye(N) - 0.5))
    monkeypatch.setattr(DifferentiableToy, "prior", lambda self, theta: indefinite)
    for density in densities:
        assert density.at(THETA).log_density == -np.inf


def test_numbers_that_grow_too_large_give_no_warning(here, monkeypatch):
    current, model = here
    densities = every_density(current, model)
    right = DifferentiableToy.prior

    def far_out(self, theta):
        prior = right(self, theta)
        return DensePrior(prior.mean - 1e300, prior.covariance)

    monkeypatch.setattr(DifferentiableToy, "prior", far_out)
    with np.errstate(all="raise"):
        for density in densities:
            assert not density.at(THETA).log_density > -1e100


def test_no_density_draws_random_numbers(here):
    """Asked twice, or by two densities of the same randomness, the answer is the same."""
    current, model = here
    for density, same in zip(every_density(current, model), every_density(current, model), strict=True):
        values = [one.at(theta).log_density for one in (density, same) for theta in (THETA, current.theta, THETA)]
        assert values[:3] == values[3:]
        assert values[0] == values[2]


# What is not computed again


def test_nothing_is_computed_again_where_the_chain_stands(here):
    """F is the chain's own array: its coordinates and back would add rounding."""
    current, model = here
    for density in every_density(current, model):
        extra = density.at(current.theta).payload.extra
        again = type(density)
        known = current._replace(latent=current.latent._replace(extra=extra))
        arguments = {SurrogateDensity: (np.zeros(N),), JointDensity: (Laplace(), np.zeros((2, 1, N)))}
        conditional = again(model, known, *arguments.get(again, ()))
        with counted() as counts:
            assert conditional.at(current.theta).payload.f is current.latent.f
        assert counts.total.cubic == (0, 0, 0)


def test_what_is_known_where_the_chain_stands_is_not_used_elsewhere(here):
    current, model = here
    fresh = every_density(current, model)
    for position, density in enumerate(fresh):
        extra = density.at(current.theta).payload.extra
        known = current._replace(latent=current.latent._replace(extra=extra))
        expected, found = density.at(THETA), every_density(known, model)[position].at(THETA)
        assert found.log_density == expected.log_density
        assert_array_equal(found.payload.f, expected.payload.f)
        assert found.payload.prior is not current.latent.prior


def test_operation_counts(here):
    """Count the operations of one proposal when K at the current theta is factorized; Table 1 of the article."""
    current, model = here
    counts = {}
    for density in every_density(current, model):
        with counted() as made:
            density.at(THETA)
        counts[type(density).__name__] = made.total.cubic
    assert counts["SufficientDensity"] == (1, 0, 0)
    assert counts["AncillaryDensity"] == (1, 0, 0)
    assert counts["SurrogateDensity"] == (2, 1, 0)
    # K, Newton's steps, and two sweeps with an inversion each.
    newton = joint(model, current, Laplace()).at(THETA).payload.extra.iterations
    assert counts["JointDensity"] == (1 + newton + 2, 2, 0)


@pytest.mark.parametrize(
    ("density", "gradient", "metric"),
    [(SufficientDensity, (1, 1, 0), (0, 0, 2)), (AncillaryDensity, (2, 0, 0), (2, 0, 0))],
)
def test_operation_counts_of_derivatives(here, density, gradient, metric):
    """K^-1 and d products, or the reverse mode of the factorization and d times its forward mode."""
    current, model = here
    conditional = density(model, current)
    with counted() as counts:
        point = conditional.at(THETA, gradient=True)
    assert counts.total.cubic == gradient
    with counted() as counts:
        conditional.with_metric(point)
    assert counts.total.cubic == metric


def test_the_fisher_information_of_theta_is_kept(here):
    """It does not depend on f, which moves between two updates of theta."""
    current, model = here
    density = SufficientDensity(model, current)
    moved = density.with_metric(density.at(THETA))
    f = current.latent.f + 0.5
    later = SufficientDensity(model, JointState(THETA, moved.payload._replace(f=f)))
    with counted() as counts:
        factor = later.with_metric(later.at(THETA)).metric_factor
    assert counts.total.cubic == (0, 0, 0)
    assert_array_equal(factor, moved.metric_factor)


# Surrogate data


@pytest.mark.parametrize("smallest", [1e-3, 1.0, 1e3])
def test_the_frame_by_dense_algebra(here, smallest, rng):
    current, _ = here
    prior, f = current.latent.prior, current.latent.f
    S = smallest * np.diag(1.0 + rng.uniform(size=N))
    with counted() as counts:
        frame = prior.observed(1.0 / S.diagonal())
    assert counts.total.cubic == (2, 1, 0)
    K, g = np.array(prior.covariance), f + rng.normal(size=N)
    R = np.linalg.inv(np.linalg.inv(K) + np.linalg.inv(S))
    D = np.tril(frame.factor)
    assert_allclose(D @ D.T, R, rtol=1e-6, atol=1e-9 * R.max())
    mean = R @ (np.linalg.solve(K, prior.mean) + np.linalg.solve(S, g))
    assert_allclose(frame.mean_given(g), mean, rtol=1e-6, atol=1e-9)
    assert_allclose(frame.unwhiten(frame.whiten(f)), f, rtol=1e-7)
    assert_allclose(frame.pull(g), D.T @ g, rtol=1e-12)
    constant = 0.5 * N * np.log(2.0 * np.pi)
    assert frame.log_density_of(g) == pytest.approx(log_normal(g, prior.mean, K + S) + constant, rel=1e-9)


def test_noise_says_what_the_observation_says(here):
    """For normal observations the noise of g is theirs."""
    current, _ = here
    noise = np.linspace(0.3, 2.0, N)

    class Normal(GaussianLikelihood):
        def tilted_moments(self, mean, variance, near=None):
            both = 1.0 / (1.0 / variance + self.precision)
            return both * (mean / variance + self.precision * self.y), both

    likelihood = Normal(np.zeros(N), noise)
    assert_allclose(surrogate_noise(current.latent.prior, likelihood), noise**2, rtol=1e-9)


def test_noise_by_taylors_expansion(here, monkeypatch):
    current, model = here
    prior, likelihood = current.latent.prior, model.likelihood(current.theta)
    matched = surrogate_noise(prior, likelihood)
    monkeypatch.setattr(type(likelihood), "tilted_moments", lambda *args: None)
    expanded = surrogate_noise(prior, likelihood)
    assert_allclose(expanded, np.exp(-prior.mean), rtol=1e-9)
    assert not np.allclose(matched, expanded, rtol=0.05)


@pytest.mark.parametrize(("precision", "bound"), [(1e-12, BOUNDS[1]), (1e12, BOUNDS[0])])
def test_noise_is_bounded(here, precision, bound):
    prior = here[0].latent.prior

    class Flat(GaussianLikelihood):
        def tilted_moments(self, mean, variance, near=None):
            return None

    noise = surrogate_noise(prior, Flat(np.zeros(N), np.full(N, precision**-0.5)))
    assert_allclose(noise, bound * prior.covariance.diagonal(), rtol=1e-9)


def test_duplicate_inputs_get_the_jitter_of_the_prior(here, monkeypatch):
    """K is singular; so is I - B^-1, to rounding."""
    _, model = here
    monkeypatch.setattr(
        DifferentiableToy, "prior", lambda self, theta: DensePrior(np.zeros(N), np.ones((N, N), order="F"))
    )
    prior = model.prior(THETA).factorized()
    f = prior.sample(np.random.default_rng(0), 1)[0]
    density = SurrogateDensity(
        model, JointState(THETA, LatentPart(prior, f)), np.random.default_rng(0).standard_normal(N)
    )
    point = density.at(THETA + 0.1)
    assert np.isfinite(point.log_density)
    assert_allclose(point.payload.f, f, atol=1e-2)


# A conjugate variance


def sigma_draws(variance: ConjugateVariance, current: JointState, draws: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.exp([variance.draw(rng, current).theta[1] for _ in range(draws)])


def test_the_full_conditional_of_the_variance(here):
    """Its density in log sigma is p(theta) N(f|m, K) up to a constant, and its draws have it."""
    current, model = here
    f = current.latent.f
    m, K, _ = dense(model, current.theta)
    Q = K / np.exp(current.theta[1])
    quadratic = (f - m) @ np.linalg.solve(Q, f - m)
    conditional = stats.invgamma(model.shape + 0.5 * N, scale=model.scale + 0.5 * quadratic)
    log_sigma = np.linspace(-1.0, 1.5, 6)
    density = SufficientDensity(model, current)
    values = [density.at(np.array([current.theta[0], value])).log_density for value in log_sigma]
    expected = conditional.logpdf(np.exp(log_sigma)) + log_sigma
    assert_allclose(np.diff(values), np.diff(expected), rtol=1e-8)
    draws = sigma_draws(ConjugateVariance(1, model.shape, model.scale), current, 2000)
    assert stats.kstest(draws, conditional.cdf).pvalue > 1e-3
    broken = sigma_draws(ConjugateVariance(1, model.shape + 0.5 * N, model.scale), current, 2000)
    assert stats.kstest(broken, conditional.cdf).pvalue < 1e-6


@pytest.mark.parametrize("known", [(), ("factor",), ("factor", "inverse")])
def test_a_drawn_variance_scales_what_is_known(here, known):
    current, model = here
    prior = model.prior(current.theta)
    for name in known:
        getattr(prior, name)
    current = JointState(current.theta, LatentPart(prior, current.latent.f, np.ones(2)))
    with counted() as counts:
        drawn = ConjugateVariance(1, model.shape, model.scale).draw(np.random.default_rng(0), current)
        assert counts.total.cubic == (0 if known else 1, 0, 0)
        expected = model.prior(drawn.theta)
        assert drawn.theta[0] == current.theta[0]
        assert drawn.theta[1] != current.theta[1]
        assert_allclose(drawn.latent.prior.covariance, expected.covariance, rtol=1e-12)
        assert_allclose(np.tril(drawn.latent.prior.factor), np.tril(expected.factor), rtol=1e-9, atol=1e-12)
        assert_allclose(np.tril(drawn.latent.prior.inverse), np.tril(expected.inverse), rtol=1e-7, atol=1e-9)
    assert counts.total.inverse == (1 if "inverse" in known else 2)
    assert drawn.latent.f is current.latent.f
    assert drawn.latent.extra is None


def test_a_scaled_prior_keeps_its_relative_jitter():
    prior = DensePrior(np.zeros(3), np.full((3, 3), 2.0, order="F")).factorized()
    scaled = prior.scaled(4.0)
    again = DensePrior(np.zeros(3), np.full((3, 3), 8.0, order="F")).factorized()
    assert scaled.jitter == pytest.approx(again.jitter)
    assert_allclose(np.tril(scaled.covariance), np.tril(again.covariance), rtol=1e-14)


def test_the_inverse_of_a_prior_is_made_once(here):
    prior = here[0].latent.prior
    with counted() as counts:
        inverse = np.tril(prior.inverse)
        assert prior.inverse is prior.inverse
    assert counts.total.inverse == 1
    assert_allclose(inverse, np.tril(np.linalg.inv(prior.covariance)), rtol=1e-6, atol=1e-9)


def test_theta_whose_approximation_has_lost_its_digits_has_no_density(here, monkeypatch):
    current, model = here
    assert np.isfinite(joint(model, current, Laplace()).at(THETA).log_density)
    monkeypatch.setattr(SiteApproximation, "resolved", False)
    assert joint(model, current, Laplace()).at(THETA).log_density == -np.inf
