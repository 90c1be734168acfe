"""Matern processes in time, and their sums, as chains of states: x_t = F_t x_{t-1} + noise with covariance S_t.

A Matern process of order 1/2, 3/2 or 5/2 is Markov together with its derivatives, at any times (Hartikainen and Sarkka
2010; Sarkka and Solin 2019, section 12.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import factorial, gammainc

from pmgp.core.markov.chain import ChainFactor, ChainPattern
from pmgp.core.markov.loading import loop

__all__ = ["STATES", "StatePattern", "Times", "log_density", "sample_path", "transitions"]

STATES: dict[float, int] = {0.5: 1, 1.5: 2, 2.5: 3}
"""Elements of the state of a process of each order."""
# Covariances of a process with its derivatives, for a variance and a rate of one.
STATIONARY: dict[float, list[list[float]]] = {
    0.5: [[1.0]],
    1.5: [[1.0, 0.0], [0.0, 1.0]],
    2.5: [[1.0, 0.0, -1.0 / 3.0], [0.0, 1.0 / 3.0, 0.0], [-1.0 / 3.0, 0.0, 1.0]],
}
# The response of a process and its derivatives to a unit impulse: polynomials in the time since, times exp(-time).
IMPULSES: dict[float, list[list[float]]] = {
    0.5: [[1.0]],
    1.5: [[0.0, 1.0], [1.0, -1.0]],
    2.5: [[0.0, 0.0, 0.5], [0.0, 1.0, -0.5], [1.0, -2.0, 0.5]],
}
DIFFUSIONS = {0.5: 2.0, 1.5: 4.0, 2.5: 16.0 / 3.0}


class Times:
    """Times in any order, some of them perhaps several times.

    Parameters
    ----------
    times : (n,) array

    Attributes
    ----------
    distinct : (T,) array
        Each time once, in increasing order.
    first, where : (T,) and (n,) array of int
        The first place of each distinct time, and the distinct time of each place.
    """

    def __init__(self, times: np.ndarray) -> None:
        self.distinct, self.first, self.where = np.unique(times, return_index=True, return_inverse=True)

    @property
    def steps(self) -> np.ndarray:
        """Differences of distinct times: (T - 1,)."""
        return np.diff(self.distinct)


@dataclass(frozen=True, eq=False)
class StatePattern(ChainPattern):
    """States in time, each site looking at one of them in the same way.

    Values of a precision are (3, T, d, d): covariances S_t of what is new in a state, regressions F_t on the state
    before, the first one zero, and the sum of w h h' over the sites at each state.
    """

    differentiated: ClassVar[bool] = False

    @classmethod
    def of(cls, times: Times, orders: Sequence[float]) -> StatePattern:
        """A sum of Matern processes of these orders."""
        loading = _loading(orders)
        return cls(times.where, np.broadcast_to(loading, (len(times.where), len(loading))), len(times.distinct))

    def factorize(self, values: np.ndarray) -> ChainFactor | None:
        """Factorize Q, (3, T, d, d); None where it is indefinite."""
        values = np.ascontiguousarray(values, dtype=np.float64)
        inverse, gain = np.empty((2, *values.shape[1:]))
        log_determinant = loop("states.factorize")(*values, self.loading[0], inverse, gain)
        return ChainFactor(inverse, gain, log_determinant) if np.isfinite(log_determinant) else None

    def with_sites(self, values: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Values of Q + A' W A."""
        out = np.array(values, dtype=np.float64, order="C")
        loop("blocks.add_sites")(self.where, self.loading, np.ascontiguousarray(precision), out[2])
        return out

    def drawn_given(self, rng: np.random.Generator, values: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        """A draw from N(0, Q^-1) given f = A x, (n,) -> (T, d): one of the prior, and the mean given what it misses."""
        factor = self.factorize(values)
        if factor is None:
            return None
        drawn = factor.sample(rng, 1)[0]
        return drawn + self.mean_given(values, f - self.observe(drawn))

    def mean_given(self, values: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Mean of N(0, Q^-1) given f = A x: (n,) -> (T, d)."""
        distinct = np.empty(self.length)
        distinct[self.where] = f
        _, mean, known = _filtered(values, self.loading[0], distinct)
        loop("states.interpolate")(values[0], values[1], known, mean)
        return mean


def transitions(times: Times, orders: Sequence[float], lengthscales: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Values of a `StatePattern` for a sum of independent Matern processes, without sites: (3, T, d, d).

    A state holds each process and its derivatives in units of time of lengthscale / sqrt(2 order). Where parameters are
    not positive and finite the values are not numbers.

    Parameters
    ----------
    times : Times
    orders : sequence of float
        1/2, 3/2 or 5/2.
    lengthscales, variances : (k,) array
    """
    size, number = sum(STATES[order] for order in orders), len(times.distinct)
    values, begin = np.zeros((3, number, size, size)), 0
    possible = np.isfinite(lengthscales) & (lengthscales > 0.0) & np.isfinite(variances) & (variances > 0.0)
    if not possible.all():
        return np.full_like(values, np.nan)
    for order, lengthscale, variance in zip(orders, lengthscales, variances, strict=True):
        part = slice(begin, begin + STATES[order])
        elapsed = np.sqrt(2.0 * order) / lengthscale * times.steps
        values[0, 0, part, part] = variance * np.asarray(STATIONARY[order])
        values[0, 1:, part, part] = variance * _new(order, elapsed)
        values[1, 1:, part, part] = _regression(STATES[order], elapsed)
        begin = part.stop
    return values


def log_density(values: np.ndarray, orders: Sequence[float], deviations: np.ndarray) -> float:
    """Log density of a process at distinct times, in increasing order.

    Parameters
    ----------
    values : (3, T, d, d) array
        From `transitions`.
    orders : sequence of float
    deviations : (T,) array
        The process less its mean.
    """
    return _filtered(values, _loading(orders), deviations)[0]


def sample_path(rng: np.random.Generator, pattern: StatePattern, values: np.ndarray) -> np.ndarray:
    """A draw of the process less its mean, at the times of the pattern's sites: (n,).

    Raises
    ------
    ValueError
        For impossible parameters.
    """
    factor = pattern.factorize(values)
    if factor is None:
        raise ValueError("length-scales and variances of a process in time must be positive and finite")
    return pattern.observe(factor.sample(rng, 1))[0]


def _filtered(values: np.ndarray, loading: np.ndarray, f: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Log density of f, and the moments of each state given f so far."""
    mean, known = np.empty(values.shape[1:3]), np.empty(values.shape[1:])
    arguments = np.ascontiguousarray(loading), np.ascontiguousarray(f)
    return float(loop("states.density")(values[0], values[1], *arguments, mean, known)), mean, known


def _loading(orders: Sequence[float]) -> np.ndarray:
    return np.concatenate([np.eye(STATES[order])[0] for order in orders])


def _regression(size: int, elapsed: np.ndarray) -> np.ndarray:
    """exp(A t) for the companion matrix of (s + 1)^size, which is minus one plus a nilpotent matrix: (T, d, d)."""
    companion = np.eye(size, k=1)
    companion[-1] = [-factorial(size) / factorial(k) / factorial(size - k) for k in range(size)]
    term, total = np.eye(size), np.zeros((len(elapsed), size, size))
    for k in range(size):
        total += np.power(elapsed, k)[:, None, None] * term / factorial(k)
        term = term @ (companion + np.eye(size))
    return np.exp(-elapsed)[:, None, None] * total


def _new(order: float, elapsed: np.ndarray) -> np.ndarray:
    """Covariance of what is new in the state after a time, for a variance and a rate of one: (T, d, d).

    The integral of g g', g the response to an impulse: no difference of nearly equal numbers.
    """
    polynomials = IMPULSES[order]
    size = len(polynomials)
    moments = [gammainc(k + 1, 2.0 * elapsed) * factorial(k) / 2.0 ** (k + 1) for k in range(2 * size - 1)]
    out = np.empty((len(elapsed), size, size))
    for i in range(size):
        for j in range(size):
            weights = np.convolve(polynomials[i], polynomials[j])
            out[:, i, j] = sum(weight * moment for weight, moment in zip(weights, moments, strict=True))
    return DIFFUSIONS[order] * out
