"""Gradients of the log-evidence against central differences of whole fits."""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.approximations import ExpectationPropagation, Laplace, gradients
from pmgp.core.approximations.gradients import matched_gradient
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit
from pmgp.core.numerics.linalg import symmetrized
from tests.approximations.test_laplace import StudentT, covariance_of_a_process

METHODS = [Laplace(tolerance=1e-20), ExpectationPropagation(tolerance=1e-13, max_sweeps=300)]
N = 7


class Sharpened(BernoulliLogit):
    """A likelihood with a parameter of its own, the slope of the link."""

    def __init__(self, y, slope):
        super().__init__(y)
        self.sign = slope * self.sign

    def curvature(self, f):
        return np.square(self.sign) * super().curvature(self.sign * f)

    def third_derivative(self, f):
        z = self.sign * f
        return self.sign**3 * BernoulliLogit.curvature(self, z) * np.tanh(0.5 * z)


def problem(link):
    rng = np.random.default_rng(5)
    return np.linspace(-0.5, 1.0, N), covariance_of_a_process(N, 3.0), link(rng.integers(0, 2, size=N))


def evidence(method, m, K, likelihood) -> float:
    return method.fit(DensePrior(m, np.asfortranarray(K)), likelihood).log_evidence


def differences(method, m, K, likelihood, dm, dK, step: float = 1e-4) -> float:
    up, down = (evidence(method, m + s * dm, K + s * dK, likelihood) for s in (step, -step))
    return (up - down) / (2.0 * step)


@pytest.mark.parametrize("method", METHODS, ids=["laplace", "ep"])
@pytest.mark.parametrize("link", [BernoulliProbit, BernoulliLogit])
def test_gradient_in_mean_and_covariance(method, link):
    m, K, likelihood = problem(link)
    q = method.fit(DensePrior(m, np.asfortranarray(K)), likelihood)
    gradient = method.evidence_gradient(q, likelihood)
    covariance = symmetrized(gradient.covariance)
    rng = np.random.default_rng(1)
    for _ in range(4):
        dm, root = rng.standard_normal(N), rng.standard_normal((N, N))
        dK = root @ root.T / N
        expected = differences(method, m, K, likelihood, dm, dK)
        assert (covariance * dK).sum() + gradient.mean @ dm == pytest.approx(expected, rel=2e-5, abs=2e-6)


@pytest.mark.parametrize("method", METHODS, ids=["laplace", "ep"])
def test_gradient_in_a_parameter_of_the_likelihood(method):
    m, K, _ = problem(BernoulliLogit)
    y = np.random.default_rng(5).integers(0, 2, size=N)
    q = method.fit(DensePrior(m, np.asfortranarray(K)), Sharpened(y, 1.3))
    gradient = method.evidence_gradient(q, Sharpened(y, 1.3))
    along = (gradient.along(Sharpened(y, 1.3001)) - gradient.along(Sharpened(y, 1.2999))) / 2e-4
    up, down = (evidence(method, m, K, Sharpened(y, slope)) for slope in (1.3001, 1.2999))
    assert along == pytest.approx((up - down) / 2e-4, rel=1e-4)


def test_laplace_without_the_motion_of_its_mode_is_rejected():
    """The broken twin: the gradient at fixed sites, which is right for expectation propagation only."""
    m, K, likelihood = problem(BernoulliProbit)
    q = METHODS[0].fit(DensePrior(m, np.asfortranarray(K)), likelihood)
    fixed = symmetrized(matched_gradient(q, likelihood).covariance)
    assert abs((fixed * K).sum() - differences(METHODS[0], m, K, likelihood, np.zeros(N), K)) > 1e-3


class WithoutThird(BernoulliProbit):
    """The broken twin: its third derivative is zero."""

    def third_derivative(self, f):
        return np.zeros_like(f)


def test_the_motion_of_the_mode_takes_the_third_derivative():
    m, K, likelihood = problem(BernoulliProbit)
    q = METHODS[0].fit(DensePrior(m, np.asfortranarray(K)), likelihood)
    labels = (likelihood.sign > 0.0).astype(int)
    gradients = [METHODS[0].evidence_gradient(q, each) for each in (likelihood, WithoutThird(labels))]
    right, wrong = (symmetrized(gradient.covariance) for gradient in gradients)
    expected = differences(METHODS[0], m, K, likelihood, np.zeros(N), K)
    assert (right * K).sum() == pytest.approx(expected, rel=1e-5)
    assert abs((wrong * K).sum() - expected) > 1e-3


class OutlyingStudentT(StudentT):
    """A likelihood whose curvature is negative at some of the observations."""

    def __init__(self, y, scale=0.3):
        super().__init__(y)
        self.scale = scale

    def third_derivative(self, f):
        residual, power = (f - self.y) / self.scale, self.freedom + 1.0
        numerator = 2.0 * residual * (3.0 * self.freedom - np.square(residual))
        return power * numerator / (self.freedom + np.square(residual)) ** 3 / self.scale**3


class WithAbsoluteCurvature(OutlyingStudentT):
    """As in models of PyMC, whose graph does not give the Fisher information."""

    def fisher_information(self, f):
        return np.abs(self.curvature(f))


OUTLIERS = np.array([0.1, -0.2, 2.5, 0.4, 0.3, -2.0, 0.6])


def relative_errors(kind):
    """Return those of the gradients along K, along m and in the likelihood's scale."""
    m, K, _ = problem(BernoulliLogit)
    # With the Fisher information Newton's method approaches the mode by a constant factor in each step.
    method = Laplace(tolerance=1e-20, max_iterations=1000)
    q = method.fit(DensePrior(m, np.asfortranarray(K)), kind(OUTLIERS))
    assert (kind(OUTLIERS).curvature(q.mean) < 0.0).any()
    gradient = method.evidence_gradient(q, kind(OUTLIERS))
    dm = np.arange(N) - 2.0
    in_scale = [evidence(method, m, K, kind(OUTLIERS, scale)) for scale in (0.3001, 0.2999)]
    found = [
        (symmetrized(gradient.covariance) * K).sum(),
        gradient.mean @ dm,
        (gradient.along(kind(OUTLIERS, 0.3001)) - gradient.along(kind(OUTLIERS, 0.2999))) / 2e-4,
    ]
    expected = [
        differences(method, m, K, kind(OUTLIERS), np.zeros(N), K),
        differences(method, m, K, kind(OUTLIERS), dm, 0.0 * K),
        (in_scale[0] - in_scale[1]) / 2e-4,
    ]
    return np.abs(np.divide(found, expected) - 1.0)


@pytest.mark.parametrize("kind", [OutlyingStudentT, WithAbsoluteCurvature])
def test_gradients_with_outliers(kind):
    assert (relative_errors(kind) < 1e-4).all()


@pytest.mark.parametrize("kind", [OutlyingStudentT, WithAbsoluteCurvature])
def test_the_slope_of_the_curvature_in_place_of_that_of_the_sites_is_rejected(kind, monkeypatch):
    monkeypatch.setattr(gradients, "slope_of_precision", lambda likelihood, f, _: -likelihood.third_derivative(f))
    assert (relative_errors(kind)[:2] > 1e-3).any()


@pytest.mark.parametrize("kind", [OutlyingStudentT, WithAbsoluteCurvature])
def test_a_mode_that_moves_with_the_precision_of_the_sites_is_rejected(kind, monkeypatch):
    monkeypatch.setattr(gradients, "load_of_motion", lambda product, v, *_: v)
    assert (relative_errors(kind)[:2] > 1e-3).any()
