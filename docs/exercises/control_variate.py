"""Importance sampling with a control variate: the logarithm of the weight, whose mean under q is known.

Let w = p(y|f) N(f|m, K) / q(f), c = E[log w] over q, a sum of integrals over one latent value each, and u = log w - c.
The estimate is e^c times the mean of e^u - u over draws from q: unbiased, as u has mean zero and its coefficient e^c is
a function of theta and of no draw; positive, as e^u - u >= 1; and of the variance of u^2 / 2 where u is small.

A draw of f: as q e^u = q min(e^u, e^u - u) + q max(u, 0), particle i is taken in proportion to min(e^u_i, e^u_i - u_i),
and in proportion to what then remains of the estimate a draw from q max(u, 0), which is made by rejection.
"""

from dataclasses import dataclass

import numpy as np

from pmgp.core.numerics.quadrature import normal_rule

GRID = np.linspace(-8.0, 8.0, 1601)
NODES, WEIGHTS = normal_rule(32)


class Controlled:
    """An estimate of p(y|theta) from draws of q."""

    def __init__(self, q, likelihood, particles):
        self.q, self.likelihood, self.particles = q, likelihood, particles
        self.means = WEIGHTS @ self._terms(q.mean + np.sqrt(q.variance) * NODES[:, None])
        self.u = self.terms_of_u(particles).sum(axis=-1)
        self.values = np.exp(self.u) - self.u
        self.log_evidence = q.log_normalizer + float(self.means.sum() + np.log(self.values.mean()))
        self.effective_size = float(self.values.sum() ** 2 / np.square(self.values).sum())

    def _terms(self, f):
        return self.likelihood.log_density(f) - self.q.linear * f + 0.5 * self.q.precision * f * f

    def terms_of_u(self, f):
        """What each latent value contributes to u: (..., n) -> (..., n)."""
        return self._terms(f) - self.means

    def choose(self, rng):
        kept = np.cumsum(np.exp(self.u) - np.maximum(self.u, 0.0))
        place = np.searchsorted(kept, rng.uniform() * self.values.sum())
        return self.particles[place] if place < len(kept) else self.draw_of_part(rng, 1.0)

    def draw_of_part(self, rng, sign):
        """A draw from q max(sign u, 0), by rejection from q times the sum of max(sign u_i, 0) over the terms."""
        values = self.q.mean + np.sqrt(self.q.variance) * GRID[:, None]
        masses = np.exp(-0.5 * GRID**2)[:, None] * np.maximum(sign * self.terms_of_u(values), 0.0)
        while True:
            cell, site = np.unravel_index(rng.choice(masses.size, p=masses.ravel() / masses.sum()), masses.shape)
            f = self._draw_through(rng, site, values[cell, site])
            terms = sign * self.terms_of_u(f)
            if rng.uniform() * np.maximum(terms, 0.0).sum() < terms.sum():
                return f

    def _draw_through(self, rng, site, value):
        """A draw from q given f at one site: what any draw lacks there is added along the covariances with it."""
        f, along = self.q.sample(rng, 1)[0], self.q.product(np.eye(self.q.size)[site])
        return f + along * (value - f[site]) / along[site]


@dataclass(frozen=True)
class ControlVariate:
    """Estimates p(y|theta) for likelihoods that have `log_density`."""

    draws: int = 16

    def estimate(self, rng, approximation, likelihood, draws=None):
        return Controlled(approximation, likelihood, approximation.sample(rng, draws or self.draws))

    def estimate_given(self, rng, approximation, likelihood, retained, draws=None):
        """`retained` was one of the particles, or drawn beside particles of which one is from q max(-u, 0)."""
        fresh = approximation.sample(rng, draws or self.draws)
        given = Controlled(approximation, likelihood, np.vstack([retained, fresh[1:]]))
        if rng.uniform() < 1.0 - max(given.u[0], 0.0) * np.exp(-given.u[0]):
            return given
        return Controlled(approximation, likelihood, np.vstack([given.draw_of_part(rng, -1.0), fresh[1:]]))
