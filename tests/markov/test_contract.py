"""What Laplace's method, expectation propagation and importance sampling make of a sparse precision.

The same prior as a dense one is the truth: evidences, moments and gradients agree to rounding.
"""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods.base import FactorizingLikelihood
from pmgp.core.likelihoods.log_gaussian_cox import LogGaussianCox
from pmgp.core.markov import PrecisionPrior
from tests.markov.autoregressions import prior_of
from tests.markov.cases import Case, chain_case, disconnected_case, lattice_case, soft_sum_case, sparse_case

CASES = {
    "one": chain_case(1, 1, 3),
    "blocks": chain_case(6, 3),
    "sparse": sparse_case(),
    "disconnected": disconnected_case(),
    "lattice": lattice_case(),
    "sum": soft_sum_case(2, 3),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
APPROXIMATIONS = {"laplace": Laplace(tolerance=1e-18), "ep": ExpectationPropagation(tolerance=1e-12)}
every_approximation = pytest.mark.parametrize("approximation", APPROXIMATIONS.values(), ids=APPROXIMATIONS)


class NormalNoise(FactorizingLikelihood):
    """y_i ~ N(f_i, variance): all is known in closed form."""

    def __init__(self, y, variance):
        self.y, self.variance = y, variance

    def subset(self, sites):
        return NormalNoise(self.y[sites], self.variance)

    def log_density(self, f):
        return -0.5 * np.square(self.y - f) / self.variance - 0.5 * np.log(2.0 * np.pi * self.variance)

    def gradient(self, f):
        return (self.y - f) / self.variance

    def curvature(self, f):
        return np.full_like(f, 1.0 / self.variance)

    def third_derivative(self, f):
        return np.zeros_like(f)

    def fisher_information(self, f):
        return self.curvature(f)


def close(actual, expected, tolerance=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * (1.0 + np.abs(expected).max()))


def sparse_prior(case: Case, precision_values: np.ndarray | None = None) -> PrecisionPrior:
    rng = np.random.default_rng(8)
    values = case.values if precision_values is None else precision_values
    state_mean = 0.3 * rng.normal(size=case.pattern.shape)
    return PrecisionPrior(case.pattern, values, state_mean, 0.3 * rng.normal(size=case.pattern.sites))


def dense_prior(case: Case) -> DensePrior:
    """Sites that look at the same elements have a singular covariance, which B does not mind."""
    prior = sparse_prior(case)
    mean = case.design @ prior.state_mean.ravel() + prior.offset
    return DensePrior(mean, case.design @ np.linalg.inv(case.precision) @ case.design.T)


def counts(case: Case) -> LogGaussianCox:
    return LogGaussianCox(np.random.default_rng(9).poisson(1.5, size=case.pattern.sites))


@every_case
@every_approximation
def test_evidence_and_moments_are_those_of_the_dense_prior(case, approximation):
    q, dense = approximation.fit(sparse_prior(case), counts(case)), approximation.fit(dense_prior(case), counts(case))
    close(q.log_evidence, dense.log_evidence)
    close(q.mean, dense.mean)
    close(q.variance, dense.variance)
    close(q.log_normalizer, dense.log_normalizer)
    x = np.random.default_rng(1).normal(size=(q.size, 2))
    close(q.product(x), dense.product(x))
    assert q.converged
    assert q.iterations == dense.iterations


@every_case
@every_approximation
def test_gradients_of_evidences_are_their_derivatives(case, approximation):
    """In the values of Q and in c, against central differences."""
    likelihood, prior, step = counts(case), sparse_prior(case), 1e-6
    gradient = approximation.evidence_gradient(approximation.fit(prior, likelihood), likelihood)
    direction = case.pattern.outer(*np.random.default_rng(2).normal(size=(2, *case.pattern.shape)))
    along = np.random.default_rng(3).normal(size=prior.size)

    def evidence(sign: float) -> float:
        values, offset = prior.values + sign * step * direction, prior.offset + sign * step * along
        shifted = PrecisionPrior(prior.pattern, values, prior.state_mean, offset)
        return approximation.fit(shifted, likelihood).log_evidence

    expected = (evidence(1.0) - evidence(-1.0)) / (2.0 * step)
    found = float((gradient.covariance * direction).sum() + gradient.mean @ along)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)


@every_case
def test_a_predicted_start_leads_to_the_same_sites(case):
    prior, likelihood, approximation = sparse_prior(case), counts(case), ExpectationPropagation(tolerance=1e-12)
    q = approximation.fit(prior, likelihood)
    again = approximation.fit(prior, likelihood, approximation.start_from(q))
    close(again.mean, q.mean, 1e-5)
    assert again.iterations < q.iterations


@every_case
def test_draws_have_the_moments_of_q(case):
    """The root that draws are made with, column by column, and draws of the prior alike."""
    q = Laplace().fit(sparse_prior(case), counts(case))
    draws = q.sample(np.random.default_rng(0), 20_000)
    spread = np.sqrt(q.variance / len(draws))
    assert (np.abs(draws.mean(axis=0) - q.mean) < 4.5 * spread).all()
    assert (np.abs(draws.var(axis=0) / q.variance - 1.0) < 4.5 * np.sqrt(2.0 / len(draws))).all()


@every_case
def test_a_normal_likelihood_has_its_exact_evidence_and_weights_of_one(case):
    """What a Kalman filter computes."""
    prior, dense = sparse_prior(case), dense_prior(case)
    y = np.random.default_rng(5).normal(size=prior.size)
    likelihood = NormalNoise(y, 0.7)
    q = Laplace(sweeps=0).fit(prior, likelihood)
    marginal = dense.covariance + 0.7 * np.eye(prior.size)
    residual = y - dense.mean
    exact = -0.5 * (residual @ np.linalg.solve(marginal, residual) + np.linalg.slogdet(2.0 * np.pi * marginal)[1])
    close(q.log_evidence, exact)
    close(ImportanceSampling(8).estimate(np.random.default_rng(6), q, likelihood).log_weights, np.full(8, exact))


@pytest.mark.parametrize("precision", [np.nan, -1.0])
@every_approximation
def test_an_indefinite_precision_gives_no_q(precision, approximation):
    prior = prior_of(5, 0.5, 1.0)
    prior = PrecisionPrior(prior.pattern, precision * prior.values, prior.state_mean, prior.offset)
    assert approximation.fit(prior, LogGaussianCox(np.ones(5))) is None
    assert prior.factorized() is None


def test_draws_from_given_normals_need_enough_of_them():
    prior = sparse_prior(chain_case(6, 3))
    with pytest.raises(ValueError, match="more states than sites"):
        prior.deviations_from(np.zeros((1, prior.size)))
    close(prior_of(4, 0.5, 1.0).deviations_from(np.zeros((2, 4))), np.zeros((2, 4)))


@every_case
def test_states_given_the_latent_values(case):
    """They give these values, and have the moments of x given them."""
    prior = sparse_prior(case)
    q = Laplace().fit(prior, counts(case))
    f = q.sample(np.random.default_rng(1), 1)[0]
    rng = np.random.default_rng(2)
    states = np.array([q.deviation_given(rng, f) for _ in range(2000)])
    close(case.pattern.observe(states), np.tile(f - q.mean, (2000, 1)), 1e-7)
    covariance = np.linalg.inv(case.precision + case.design.T @ (q.precision[:, None] * case.design))
    gain = covariance @ case.design.T @ np.linalg.pinv(case.design @ covariance @ case.design.T, rcond=1e-10)
    left = np.diag(covariance - gain @ case.design @ covariance)
    spread = np.sqrt(np.maximum(left, 1e-12))
    states = states.reshape(2000, -1)
    assert (np.abs(states.mean(axis=0) - gain @ (f - q.mean)) < 4.5 * spread / np.sqrt(2000) + 1e-6).all()
    assert (np.abs(states.var(axis=0) - left) < 4.5 * left * np.sqrt(2.0 / 2000) + 1e-6).all()


def test_latent_values_that_no_state_gives_are_refused():
    case = chain_case(2, 1, 6)
    q = Laplace().fit(sparse_prior(case), counts(case))
    with pytest.raises(FloatingPointError, match="no state"):
        q.deviation_given(np.random.default_rng(0), q.mean + np.arange(6.0))
