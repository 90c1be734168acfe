"""Gradients from solutions that are stopped at random, against differences of the exact evidence."""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.iterative.probes import Probes
from pmgp.core.iterative.roulette import Roulette, increments
from pmgp.core.iterative.ulisse import Ulisse
from tests.iterative.test_gaussian import GRADIENT, KERNEL, NOISE, POINTS, N, Y, gradient_of, z_scores

PRECONDITIONER = Probes(KERNEL, POINTS).preconditioner(NOISE)


class Unweighted(Roulette):
    """The twin: it goes on as often, and does not divide by the probability."""

    def stopped_at(self, uniforms, product, b, preconditioner):
        x, probability, reached = np.zeros((len(b), len(uniforms))), 1.0, 0.0
        for increment, norm in increments(product, b, preconditioner):
            if norm < self.threshold * np.sqrt(len(b)):
                reached = reached or norm
                probability = min(probability, norm / reached)
            x[:, uniforms < probability] += increment[:, None]
        return x


def gradients(roulette, size):
    rng, method = np.random.default_rng(1), Ulisse(4, roulette)
    found = [method.gradient(rng, KERNEL, NOISE, Y, PRECONDITIONER).covariance for _ in range(size)]
    return np.array([gradient_of(bar) for bar in found])


def test_gradients_are_unbiased():
    assert np.all(z_scores(gradients(Roulette(1.0), 300), GRADIENT) < 3.0)


def test_a_roulette_without_its_weight_is_rejected():
    assert np.max(z_scores(gradients(Unweighted(1.0), 300), GRADIENT)) > 6.0


def test_the_gradient_in_the_mean_is_unbiased_too():
    """In the direction of y, from two hundred estimates."""
    rng = np.random.default_rng(2)
    found = [Ulisse(1).gradient(rng, KERNEL, NOISE, Y, PRECONDITIONER).mean @ Y for _ in range(200)]
    truth = Y @ np.linalg.solve(KERNEL.K + np.diag(NOISE), Y)
    assert abs(np.mean(found) - truth) < 3.0 * np.std(found, ddof=1) / np.sqrt(200)
    assert len(Y) == N


def test_no_probe_is_refused():
    with pytest.raises(ValueError, match="probes must be a whole number of at least 1, not 0"):
        Ulisse(0)
