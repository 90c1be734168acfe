"""A chain of f by control variables (Titsias, Lawrence and Rattray, 2009), one of the article's competitors.

A few values of f, the control variables, are redrawn one at a time from the prior given the others, each time together
with all of f given them; as both are draws from the prior, the ratio of likelihoods decides. More control variables
leave less of f to chance, so they are added until proposals are accepted often enough. Their authors optimize inputs
for them, so that little variance is left; here they are the values of f itself that leave least, which changes how fast
the chain moves, and not where it goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pmgp.core.likelihoods import Likelihood

__all__ = ["Controls", "State", "burnt_in", "sampled"]

FIRST = 3
"""Control variables at the start, the article's number."""
SWEEPS = 100
"""Moves of each control variable, between which the acceptance rate is looked at."""
LEAST_ACCEPTANCE, GROWTH = 0.25, 1.2
EXCHANGES = 5
"""How often each control variable is exchanged at most, when some are added."""


class State(NamedTuple):
    """The chain: f, its log-likelihood, and the share of accepted proposals in the last sweeps."""

    f: np.ndarray
    log_likelihood: float
    acceptance: float = 0.0


class Controls:
    """Control variables among the values of f, and the prior given them.

    Parameters
    ----------
    covariance : (n, n) array
        Of f, positive definite.
    negligible : float
        Variances of f given the control variables that count as none.
    """

    def __init__(self, covariance: np.ndarray, negligible: float) -> None:
        self.covariance, self.negligible = covariance, negligible
        self.indices: list[int] = []

    def __len__(self) -> int:
        """Number of control variables."""
        return len(self.indices)

    def add(self, number: int) -> None:
        """Add those values of f that leave the least variance to the others, then exchange all for better ones."""
        residual = self._condition()
        for _ in range(number):
            if residual.diagonal().max() <= self.negligible:
                break
            best, column = self._best(residual)
            residual -= np.outer(column, column)
            self.indices.append(best)
        residual = self._condition()
        for _ in range(EXCHANGES):
            if not self._exchanged(residual):
                break
        values, vectors = np.linalg.eigh(residual)
        kept = values > self.negligible
        self.factor = vectors[:, kept] * np.sqrt(values[kept])

    def _condition(self) -> np.ndarray:
        """Condition f on the control variables, and return its covariance given them."""
        self.precision = np.linalg.inv(self.covariance[np.ix_(self.indices, self.indices)])
        self.weights = self.covariance[:, self.indices] @ self.precision
        return self.covariance - self.weights @ self.covariance[self.indices]

    def _best(self, residual: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the value of f whose knowledge takes most variance from the others, and the square root of that."""
        variances = residual.diagonal()
        free = variances > self.negligible
        explained = np.square(residual).sum(axis=0)
        best = int(np.argmax(np.divide(explained, variances, out=np.zeros_like(explained), where=free)))
        return best, residual[:, best] / np.sqrt(variances[best])

    def _exchanged(self, residual: np.ndarray) -> bool:
        """Exchange each control variable for the best one beside the others; whether any was another one before."""
        before = list(self.indices)
        for i, old in enumerate(before):
            without = self.weights[:, i] / np.sqrt(self.precision[i, i])
            residual += np.outer(without, without)
            best, column = self._best(residual)
            residual -= np.outer(column, column)
            if best != old:
                self.indices[i] = best
                residual[:] = self._condition()
        return self.indices != before

    def sweep(self, rng: np.random.Generator, state: State, likelihood: Likelihood) -> State:
        """Redraw each control variable given the others, and f given all of them."""
        controls = state.f[self.indices]
        mean, tilt = self.weights @ controls, self.precision @ controls
        spread = 1.0 / self.precision.diagonal()
        normals = rng.standard_normal(len(self))
        rest = self.factor @ rng.standard_normal((self.factor.shape[1], len(self)))
        thresholds = np.log(rng.uniform(size=len(self)))
        f, value, accepted = state.f, state.log_likelihood, 0
        for i, threshold in enumerate(thresholds):
            # Given the others, a control variable has the mean u_i - tilt_i / P_ii and the variance 1 / P_ii.
            change = np.sqrt(spread[i]) * normals[i] - tilt[i] * spread[i]
            proposed_mean = mean + change * self.weights[:, i]
            proposed = proposed_mean + rest[:, i]
            new = float(likelihood.log_likelihood(proposed))
            if threshold < new - value:
                f, value, mean = proposed, new, proposed_mean
                tilt = tilt + change * self.precision[:, i]
                accepted += 1
        return State(f, value, accepted / len(self))

    def sweeps(self, rng: np.random.Generator, state: State, likelihood: Likelihood) -> tuple[State, np.ndarray]:
        """Return the state after :data:`SWEEPS` of them, with their acceptance rate, and f after each: (sweeps, n)."""
        kept, rates = np.empty((SWEEPS, len(state.f))), np.empty(SWEEPS)
        for number in range(SWEEPS):
            state = self.sweep(rng, state, likelihood)
            kept[number], rates[number] = state.f, state.acceptance
        return state._replace(acceptance=float(rates.mean())), kept


def burnt_in(rng: np.random.Generator, controls: Controls, state: State, likelihood: Likelihood, sweeps: int) -> State:
    """Return the state after so many sweeps, between which control variables are added if few moves are accepted."""
    for _ in range(sweeps // SWEEPS):
        state, _ = controls.sweeps(rng, state, likelihood)
        if state.acceptance < LEAST_ACCEPTANCE:
            controls.add(int(np.ceil((GROWTH - 1.0) * len(controls))))
    return state


def sampled(
    rng: np.random.Generator, covariance: np.ndarray, likelihood: Likelihood, sweeps: int, burn_in: int, jitter: float
) -> Iterator[np.ndarray]:
    """Values of f from a chain that starts at zero, :data:`SWEEPS` of them at a time: (sweeps, n).

    Parameters
    ----------
    rng : numpy.random.Generator
    covariance : (n, n) array
        Of the prior, with `jitter` on its diagonal, without which smooth processes have a singular one.
    likelihood : Likelihood
    sweeps, burn_in : int
        Moves of each control variable: those that are kept, and those before, in which control variables are added.
    jitter : float
    """
    controls = Controls(covariance, 10.0 * jitter)
    controls.add(FIRST)
    zero = np.zeros(len(covariance))
    state = State(zero, float(likelihood.log_likelihood(zero)))
    state = burnt_in(rng, controls, state, likelihood, burn_in)
    for done in range(0, sweeps, SWEEPS):
        state, kept = controls.sweeps(rng, state, likelihood)
        yield kept[: sweeps - done]
