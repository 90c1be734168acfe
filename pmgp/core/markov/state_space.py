"""Processes in time as chains of states: x_t = F_t x_{t-1} + noise with covariance S_t.

A Matern process of order 1/2, 3/2 or 5/2 is Markov together with its derivatives, at any times (Hartikainen and Sarkka
2010; Sarkka and Solin 2019, section 12.3). If its kernel is multiplied by a cosine, the process consists of two such
processes that rotate (Solin and Sarkka 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import factorial, gammainc

from pmgp.core.markov.chain import ChainFactor, ChainPattern
from pmgp.core.markov.loading import loop
from pmgp.core.markov.spectra import Line

STATES: dict[float, int] = {0.5: 1, 1.5: 2, 2.5: 3}
"""Number of elements in the state of a process of each order."""
# Covariances of a process with its derivatives, for a variance and a rate of one.
STATIONARY: dict[float, list[list[float]]] = {
    0.5: [[1.0]],
    1.5: [[1.0, 0.0], [0.0, 1.0]],
    2.5: [[1.0, 0.0, -1.0 / 3.0], [0.0, 1.0 / 3.0, 0.0], [-1.0 / 3.0, 0.0, 1.0]],
}
# Responses of a process and its derivatives to a unit impulse: polynomials in the elapsed time, times exp(-time).
IMPULSES: dict[float, list[list[float]]] = {
    0.5: [[1.0]],
    1.5: [[0.0, 1.0], [1.0, -1.0]],
    2.5: [[0.0, 0.0, 0.5], [0.0, 1.0, -0.5], [1.0, -2.0, 0.5]],
}
DIFFUSIONS = {0.5: 2.0, 1.5: 4.0, 2.5: 16.0 / 3.0}
# Smallest variances of a value and of a derivative, relative to the numbers whose difference they are, that have two
# correct digits. Draws of states while sampling do with less: f itself is known there, and any variance serves.
RESOLVED, POSITIVE = np.array([1e-12, 1e-10]), np.array([0.0, -np.inf])


class Times:
    """Times in any order, which may repeat.

    `times` (n,).

    `distinct` (T,): each time once, in increasing order; `first`, `where` (T,) and (n,) of int: the first position of
    each distinct time, and the index of the distinct time at each position.
    """

    def __init__(self, times: np.ndarray) -> None:
        self.distinct, self.first, self.where = np.unique(times, return_index=True, return_inverse=True)

    @property
    def steps(self) -> np.ndarray:
        """Differences of distinct times: (T - 1,)."""
        return np.diff(self.distinct)


@dataclass(frozen=True, eq=False)
class StatePattern(ChainPattern):
    """States in time, with sites that all depend on their states through the same loading h.

    The values of a precision are (3, T, d, d): covariances S_t of the innovations, regressions F_t on the state before,
    the first of which is zero, and the sum of w h h' over the sites at each state.
    """

    differentiated: ClassVar[bool] = False

    @classmethod
    def of(cls, times: Times, lines: Sequence[Line]) -> StatePattern:
        """Make the pattern of a sum of processes, one for each line."""
        loading = _loading(lines)
        return cls(times.where, np.broadcast_to(loading, (len(times.where), len(loading))), len(times.distinct))

    def upper(self) -> None:
        """Return None, because the values are not elements of Q."""

    def factorize(self, values: np.ndarray) -> ChainFactor | None:
        """Return the factor of Q, whose values are (3, T, d, d), or None if Q is indefinite."""
        values = np.ascontiguousarray(values, dtype=np.float64)
        inverse, gain = np.empty((2, *values.shape[1:]))
        log_determinant = loop("states.factorize")(*values, self.loading[0], inverse, gain)
        return ChainFactor(inverse, gain, log_determinant) if np.isfinite(log_determinant) else None

    def with_sites(self, values: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Return the values of Q + A' W A."""
        out = np.array(values, dtype=np.float64, order="C")
        loop("blocks.add_sites")(self.where, self.loading, np.ascontiguousarray(precision), out[2])
        return out

    def drawn_given(
        self, rng: np.random.Generator, values: np.ndarray, f: np.ndarray, resolved: np.ndarray = POSITIVE
    ) -> np.ndarray | None:
        """Draw from N(0, Q^-1) given f = A x, where NaN stands for unknown values: (n,) -> (T, d).

        The draw is one from the prior, plus the mean given that draw's error in f.
        """
        factor = self.factorize(values)
        if factor is None:
            return None
        drawn = factor.sample(rng, 1)[0]
        return drawn + self.moments_given(values, f - self.observe(drawn), resolved)[0]

    def moments_given(
        self, values: np.ndarray, f: np.ndarray, resolved: np.ndarray = RESOLVED
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of each state given f = A x: (n,) -> (T, d) and (T, d, d).

        This is Rauch, Tung and Striebel's smoother. NaN in f stands for unknown values. FloatingPointError is raised
        where known values leave a variance that is not `resolved`.
        """
        distinct, seen = np.full(self.length, np.nan), ~np.isnan(f)
        distinct[self.where[seen]] = f[seen]
        density, mean, known = _filtered(values, self.loading[0], distinct, resolved)
        # The filter has stopped, and what follows in the arrays has not been written.
        if np.isnan(density):
            raise FloatingPointError(
                "given its values at the other times, the process in time has a variance that double precision does "
                "not resolve: times are too close for its length-scales and periods. Average observations over longer "
                "steps, or leave out times"
            )
        loop("states.interpolate")(values[0], values[1], known, mean)
        return mean, known


def transitions(times: Times, lines: Sequence[Line]) -> np.ndarray:
    """Return the values of a `StatePattern` for a sum of independent processes, without sites: (3, T, d, d).

    A state holds each process and its derivatives, in the unit of time lengthscale / sqrt(2 order), and two copies of
    a process that rotates. The values are NaN unless all length-scales and variances are positive and finite.
    """
    size, number = sum(map(_states, lines)), len(times.distinct)
    values, begin = np.zeros((3, number, size, size)), 0
    parameters = np.array([[line.lengthscale, line.variance] for line in lines])
    if not (np.isfinite(parameters) & (parameters > 0.0)).all():
        return np.full_like(values, np.nan)
    matern: dict[tuple[float, float], tuple[np.ndarray, np.ndarray]] = {}
    for line in lines:
        order, width = line.order, STATES[line.order]
        if (order, line.lengthscale) not in matern:
            elapsed = np.sqrt(2.0 * order) / line.lengthscale * times.steps
            matern[order, line.lengthscale] = _regression(width, elapsed), _new(order, elapsed)
        regression, new = matern[order, line.lengthscale]
        turned = _turned(line, regression, times.steps)
        for copy in range(begin, begin + _states(line), width):
            part = slice(copy, copy + width)
            values[0, 0, part, part] = line.variance * np.asarray(STATIONARY[order])
            values[0, 1:, part, part] = line.variance * new
        values[1, 1:, begin : begin + _states(line), begin : begin + _states(line)] = turned
        begin += _states(line)
    return values


def log_density(values: np.ndarray, lines: Sequence[Line], deviations: np.ndarray) -> float:
    """Return the log density of a process at distinct times, in increasing order.

    `values` (3, T, d, d): from `transitions`; `deviations` (T,): values of the process less its mean.
    """
    return _filtered(values, _loading(lines), deviations, POSITIVE)[0]


def sample_path(rng: np.random.Generator, pattern: StatePattern, values: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Draw the process less its mean, at the times of the pattern's sites, given f where it is not NaN: (n,).

    Raises ValueError for impossible parameters, and FloatingPointError for times that are too close.
    """
    state = pattern.drawn_given(rng, values, f, RESOLVED)
    if state is None:
        raise ValueError(
            "length-scales, variances and periods of a process in time must be positive and finite, and the "
            "length-scale of a periodic kernel must not be so short that it takes too many cosines"
        )
    return pattern.observe(state)


def _filtered(
    values: np.ndarray, loading: np.ndarray, f: np.ndarray, resolved: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the log density of f, and mean and covariance of each state given f up to its time."""
    mean, known = np.empty(values.shape[1:3]), np.empty(values.shape[1:])
    arguments = np.ascontiguousarray(loading), np.ascontiguousarray(f), resolved
    return float(loop("states.density")(values[0], values[1], *arguments, mean, known)), mean, known


def _states(line: Line) -> int:
    return STATES[line.order] * (1 if line.frequency == 0.0 else 2)


def _loading(lines: Sequence[Line]) -> np.ndarray:
    return np.concatenate([np.eye(_states(line))[0] for line in lines])


def _turned(line: Line, regression: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return regressions of two copies of a process that rotate, (T - 1, 2 d, 2 d), or of one that does not."""
    if line.frequency == 0.0:
        return regression
    cosine, sine = np.cos(line.frequency * steps), np.sin(line.frequency * steps)
    rotation = np.array([[cosine, -sine], [sine, cosine]])
    shape = len(steps), 2 * regression.shape[1], 2 * regression.shape[2]
    return np.einsum("abt,tij->taibj", rotation, regression).reshape(shape)


def _regression(size: int, elapsed: np.ndarray) -> np.ndarray:
    """Return exp(A t) for the companion matrix A of (s + 1)^size, where A + I is nilpotent: (T - 1, d, d)."""
    companion = np.eye(size, k=1)
    companion[-1] = [-factorial(size) / factorial(k) / factorial(size - k) for k in range(size)]
    term, total = np.eye(size), np.zeros((len(elapsed), size, size))
    for k in range(size):
        total += np.power(elapsed, k)[:, None, None] * term / factorial(k)
        term = term @ (companion + np.eye(size))
    return np.exp(-elapsed)[:, None, None] * total


def _new(order: float, elapsed: np.ndarray) -> np.ndarray:
    """Return the covariance of the state's innovation after each time, for a variance and a rate of one: (T - 1, d, d).

    It is the integral of g g', where g is the response to an impulse; no nearly equal numbers are subtracted.
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
