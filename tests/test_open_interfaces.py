"""What a user defines outside of the package, by the protocols alone, is as good as what is built in."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.gaussians import Conditioning
from pmgp.core.registry import resolve
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.metropolis_hastings import metropolis_choice

X = np.array([[-1.0], [0.0], [0.4], [1.3]])
LABELS = np.array([0, 1, 1, 0])


def model() -> pm.Model:
    with pm.Model() as result:
        variance = pm.LogNormal("variance", 0.5, 1.0)
        f = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(1, ls=0.8)).prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=LABELS)
    return result


@cache
def exact_moments() -> tuple[float, float]:
    """Mean and standard deviation of the log variance: p(y|theta) is an integral over an orthant."""
    log_variance = np.linspace(-4.0, 5.5, 400)
    signs = 2.0 * LABELS - 1.0
    correlation = np.exp(-0.5 * np.square((X - X.T) / 0.8)) * np.outer(signs, signs)
    evidence = [multivariate_normal.cdf(np.zeros(4), cov=np.eye(4) + np.exp(v) * correlation) for v in log_variance]
    weights = np.array(evidence) * np.exp(-0.5 * np.square(log_variance - 0.5))
    weights /= weights.sum()
    mean = float(weights @ log_variance)
    return mean, float(np.sqrt(weights @ np.square(log_variance - mean)))


def sampled(draws: int = 600, scheme=pmgp.PseudoMarginal, **settings) -> np.ndarray:
    """Draws of the log variance: (chains, draws)."""
    alone = scheme is pmgp.PseudoMarginal
    return sampled_by(lambda: scheme(**settings) if alone else [scheme(**settings), pmgp.EllipticalSlice()], draws)


def sampled_by(make_step, draws: int) -> np.ndarray:
    """Draws of the log variance by the step methods that are made in the model's context: (chains, draws)."""
    with model():
        idata = pm.sample(draws, tune=300, chains=2, cores=1, step=make_step(), random_seed=3, progressbar=False)
    return np.log(idata.posterior["variance"].to_numpy())


def distance(draws: np.ndarray) -> float:
    """The larger error of mean and standard deviation, in Monte Carlo standard errors."""
    errors = [abs(draws.mean() - exact_moments()[0]) / float(az.mcse(draws, method="mean"))]
    errors.append(abs(draws.std() - exact_moments()[1]) / float(az.mcse(draws, method="sd")))
    return max(errors)


class PriorSampling:
    """An estimator: the mean likelihood of draws from the prior. It needs no q."""

    def estimate(self, rng, approximation, likelihood, draws=None):
        return _Mean.of(likelihood, approximation.prior.sample(rng, 40))

    def estimate_given(self, rng, approximation, likelihood, retained, draws=None):
        return _Mean.of(likelihood, np.vstack([retained, approximation.prior.sample(rng, 39)]))


class _Mean(NamedTuple):
    particles: np.ndarray
    logs: np.ndarray

    @classmethod
    def of(cls, likelihood, particles):
        return cls(particles, likelihood.log_likelihood(particles))

    @property
    def log_evidence(self):
        return float(log_mean_exp(self.logs))

    effective_size = 1.0

    def choose(self, rng):
        weights = np.exp(self.logs - self.logs.max())
        return self.particles[rng.choice(len(weights), p=weights / weights.sum())]


class OneStep:
    """An approximation: Newton's first step from the prior mean."""

    def fit(self, prior, likelihood, start=None):
        precision = likelihood.curvature(prior.mean)
        conditioned = Conditioning(prior)
        if not conditioned.on(precision * prior.mean + likelihood.gradient(prior.mean), precision):
            return None
        return conditioned.approximation(conditioned.log_normalizer, 1)

    def refine(self, approximation, likelihood):
        return approximation

    def start_from(self, approximation):
        return approximation.mean


class SliceSampling:
    """A move of theta: slice sampling with stepping out, one element after another (Neal 2003)."""

    derivatives = 0
    slope = 1.0

    def start(self, dimension, length):
        return 2.0

    def learn(self, learned, point, info):
        return learned

    def freeze(self, learned):
        return learned

    def step(self, rng, point, density, width):
        for axis in np.eye(point.position.size):
            height = point.log_density - self.slope * rng.standard_exponential()
            lower = -width * rng.uniform()
            upper = lower + width
            while density.at(point.position + lower * axis).log_density > height:
                lower -= width
            while density.at(point.position + upper * axis).log_density > height:
                upper += width
            found = None
            while found is None or not found.log_density > height:
                shift = rng.uniform(lower, upper)
                found = density.at(point.position + shift * axis)
                lower, upper = (shift, upper) if shift < 0.0 else (lower, shift)
            point = found
        return point, TransitionInfo(True, 1.0, 1)


class SlicesTooHigh(SliceSampling):
    """A broken twin: slices of the density squared."""

    slope = 0.5


class MeanOfLogs(PriorSampling):
    """A broken twin: the mean of the logs in place of the log of the mean."""

    def estimate(self, rng, approximation, likelihood, draws=None):
        mean = super().estimate(rng, approximation, likelihood)
        return _Mean(mean.particles, np.full(40, mean.logs.mean()))


@pytest.mark.parametrize(("kind", "algorithm"), [("estimator", PriorSampling()), ("approximation", OneStep())])
def test_an_algorithm_from_outside_samples_exactly(kind, algorithm):
    assert distance(sampled(**{kind: algorithm})) < 4.0


MOVED = [pmgp.PseudoMarginal, pmgp.steps.Ancillary]
OPTION = {pmgp.PseudoMarginal: "proposal", pmgp.steps.Ancillary: "operator"}


@pytest.mark.parametrize("scheme", MOVED)
def test_a_move_of_theta_from_outside_samples_exactly(scheme):
    """The move samples from p(theta|y), and from p(theta|nu, y) beside f."""
    assert distance(sampled(800, scheme, **{OPTION[scheme]: SliceSampling()})) < 4.0


@pytest.mark.parametrize("scheme", MOVED)
def test_a_move_that_leaves_another_density_invariant_does_not(scheme):
    assert distance(sampled(800, scheme, **{OPTION[scheme]: SlicesTooHigh()})) > 8.0


def test_a_biased_estimator_does_not():
    assert distance(sampled(estimator=MeanOfLogs(), refresh_every=0)) > 8.0


def test_the_marginal_likelihood_by_an_estimator_from_outside():
    found = pmgp.marginal.log_likelihood(
        model(), {"variance": 2.0}, estimator=PriorSampling(), repeats=400, random_seed=1
    )
    signs = 2.0 * LABELS - 1.0
    K = 2.0 * np.exp(-0.5 * np.square((X - X.T) / 0.8)) * np.outer(signs, signs)
    expected = np.log(multivariate_normal.cdf(np.zeros(4), cov=np.eye(4) + K))
    assert abs(found.value - expected) < 4.0 * found.standard_error


class Fitting:
    def fit(self):
        """The protocol has more."""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nothing", "unknown approximation 'nothing'; known are ep, laplace"),
        (pmgp.approximations.Laplace, r"must be an instance, not the class itself: write Laplace\(\)"),
        (Fitting(), "with the methods fit, refine, start_from, not .*, which has no refine and no start_from"),
    ],
)
def test_what_does_not_follow_the_protocol_is_refused(given, message):
    from pmgp.core.approximations import NAMES, Approximation

    with pytest.raises(ValueError, match=message):
        resolve(given, NAMES, Approximation, "approximation")


def test_the_maximum_needs_a_gradient():
    with pytest.raises(ValueError, match="has no evidence_gradient"):
        pmgp.find_map(model=model(), approximation=OneStep())


class CrankNicolson:
    """A transition of f: a step towards another draw of the prior, which the likelihood accepts or rejects."""

    target_acceptance = 0.25
    largest_step_size = 1.0

    def initial_step_size(self, n):
        return 0.5

    def prepare(self, prior, likelihood):
        factorized = prior.factorized()
        return None if factorized is None else (factorized, likelihood)

    def init(self, target, f):
        return Point(f, float(target[1].log_likelihood(f)), f)

    def restore(self, target, point):
        return point

    def step(self, rng, point, target, step_size):
        prior, _ = target
        shrunk = np.sqrt(1.0 - step_size**2) * (point.payload - prior.mean)
        candidate = self.init(target, prior.mean + shrunk + step_size * prior.sample_deviations(rng, 1)[0])
        return metropolis_choice(rng, point, candidate, self.log_ratio(point, candidate), 1)

    def log_ratio(self, point, candidate):
        return candidate.log_density - point.log_density


class Inverted(CrankNicolson):
    """A broken twin: the ratio upside down."""

    def log_ratio(self, point, candidate):
        return -super().log_ratio(point, candidate)


def test_an_update_of_f_from_outside_samples_exactly_beside_a_step_for_theta():
    draws = sampled_by(lambda: [pmgp.steps.Ancillary(), pmgp.steps.LatentStep(update=CrankNicolson())], 1500)
    assert distance(draws) < 4.0


def test_an_update_with_its_ratio_upside_down_does_not():
    draws = sampled_by(lambda: [pmgp.steps.Ancillary(), pmgp.steps.LatentStep(update=Inverted())], 1500)
    assert distance(draws) > 8.0


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ("slice", "update must be an object with the methods initial_step_size, prepare, init, restore, step and the "),
        (OneStep(), "has no initial_step_size and no prepare.* and no target_acceptance and no largest_step_size"),
        (CrankNicolson, r"must be an instance, not the class itself: write CrankNicolson\(\)"),
    ],
)
def test_what_is_no_update_of_f_is_refused(update, message):
    with pytest.raises(ValueError, match=message):
        pmgp.steps.LatentStep(update=update, model=model())
