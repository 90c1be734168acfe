"""Geweke's test of the pseudo-marginal chain with a sparse prior, and broken twins that it rejects.

theta, f and y are independent draws; some iterations of the chain from there must leave all of their moments (Gandy and
Scott 2020).
"""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.likelihoods.log_gaussian_cox import LogGaussianCox
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.evidence_gradient import screen_gradient
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.core.markov import PathSampling, PrecisionPrior, SampledPaths
from pmgp.core.transitions.mixture import LearnedMixture
from pmgp.core.transitions.proposals import AdaptiveProposal
from tests import mean_changes
from tests.marginal.geweke import ready_point
from tests.markov.autoregressions import prior_of

SIZE, REPLICATES, BOUND = 5, 1500, 4.0
PRIOR_MEAN, PRIOR_SCALE = np.array([0.8, 0.3]), np.array([0.4, 0.5])
LEARNED = LearnedMixture.fixed(
    AdaptiveProposal(
        2, independence=0.5, log_scale=0.2, location=np.array([1.0, 0.1]), factor=np.array([[0.5, 0.0], [0.1, 0.6]])
    )
)


class Counts:
    """Counts along an autoregression: theta is the coefficient's artanh, and the log of the variance."""

    likelihood_elements = ()

    def __init__(self, y: np.ndarray) -> None:
        self.y = y

    def log_prior(self, theta: np.ndarray) -> float:
        return -0.5 * float(np.square((theta - PRIOR_MEAN) / PRIOR_SCALE).sum())

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return -(theta - PRIOR_MEAN) / PRIOR_SCALE**2

    def prior(self, theta: np.ndarray) -> PrecisionPrior:
        return prior_of(SIZE, np.tanh(theta[0]), np.exp(theta[1]), 0.2)

    def covariance_pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        shifts = 1e-5 * np.eye(2)
        values = [self.prior(theta + shift).values - self.prior(theta - shift).values for shift in shifts]
        return np.array([(covariance_bar * change).sum() / 2e-5 for change in values])

    def likelihood(self, theta: np.ndarray) -> LogGaussianCox:
        return LogGaussianCox(self.y)


def statistics(theta: np.ndarray, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    size = f @ f / SIZE
    return np.array([*theta, *theta**2, theta[0] * theta[1], f.mean(), size, f[1:] @ f[:-1], theta[1] * size, y @ f])


def largest_change(
    scheme: PseudoMarginalChain, replicates: int = REPLICATES, make: type[Counts] = Counts, seed: int = 1
) -> float:
    rng, frozen, rows = np.random.default_rng(seed), Frozen(LEARNED, None, scheme.estimator.draws), []
    for _ in range(replicates):
        theta = PRIOR_MEAN + PRIOR_SCALE * rng.standard_normal(2)
        model = make(np.zeros(SIZE))
        f = model.prior(theta).sample(rng, 1)[0]
        model.y = rng.poisson(np.exp(f)).astype(float)
        before = statistics(theta, f, model.y)
        evaluate = Evaluator(model, Laplace(sweeps=0))
        current = ready_point(evaluate, theta)
        state = scheme.refresh(rng, State(theta, f, 0.0, 1.0, 0), current.payload, frozen)
        for _ in range(2):
            state, current, _ = scheme.step(rng, state, current, evaluate, frozen)
        rows.append([before, statistics(state.theta, state.particle, model.y)])
    return mean_changes.largest_change(*np.swapaxes(rows, 0, 1))


PATHS = PathSampling(3, width=1, threshold=1.0)
# Few particles, and no slice moves, which would repair what a twin has broken.
REFRESHED = PseudoMarginalChain(PathSampling(2, width=1, threshold=1.0), latent_moves=0, refresh_every=1)


@pytest.mark.parametrize(
    ("estimator", "delayed_acceptance"),
    [(PATHS, True), (ImportanceSampling(3, antithetic=False), False)],
    ids=["paths", "importance"],
)
def test_joint_distribution_is_kept(estimator, delayed_acceptance):
    assert (
        largest_change(PseudoMarginalChain(estimator, delayed_acceptance=delayed_acceptance, refresh_every=2)) < BOUND
    )


def test_refreshment_in_every_iteration_keeps_the_joint_distribution():
    assert largest_change(REFRESHED) < BOUND


def test_refreshment_without_the_retained_path_is_rejected(monkeypatch):
    def forget(self, rng, approximation, likelihood, retained, draws=None):
        return self.estimate(rng, approximation, likelihood, draws)

    monkeypatch.setattr(PathSampling, "estimate_given", forget)
    assert largest_change(REFRESHED, 2 * REPLICATES) > 1.5 * BOUND


def test_paths_picked_without_their_weights_are_rejected(monkeypatch):
    def uniformly(self, rng):
        q, path = self.approximation, self.walk.path(int(rng.integers(len(self.first))))
        return q.mean + q.prior.pattern.observe(path)

    monkeypatch.setattr(SampledPaths, "choose", uniformly)
    never = PathSampling(3, width=1, threshold=0.0)
    assert largest_change(PseudoMarginalChain(never, latent_moves=0, refresh_every=1)) > BOUND


def test_the_screen_has_the_gradient_of_its_density():
    theta, step = np.array([0.7, -0.2]), 1e-4
    evaluate = Evaluator(Counts(np.array([0.0, 2.0, 1.0, 5.0, 0.0])), Laplace(tolerance=1e-18))
    ends = [[evaluate(theta + sign * shift, None).log_screen for sign in (1, -1)] for shift in step * np.eye(2)]
    expected = [(above - below) / (2.0 * step) for above, below in ends]
    np.testing.assert_allclose(screen_gradient(evaluate, evaluate(theta, None)), expected, rtol=1e-6, atol=1e-6)
