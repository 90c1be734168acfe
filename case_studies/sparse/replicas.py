"""Hyper-parameters and whitened values at a power of the likelihood, and exchanges between powers.

Where the likelihood falls by steps, the posterior is one of many cells between cliffs, and theta and v are stuck in
one. At a small power they are not; exchanges bring what is found there to the posterior (Geyer 1991).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pymc as pm

from case_studies.sparse.coordinates import swept
from pmgp.core.inducing import GaussianFit, WhitenedConditional
from pmgp.core.numerics.linalg import cholesky_solve, triangular_product, triangular_solve
from pmgp.interface.model.inducing_process import inducing_process
from pmgp.interface.sparse.parts import SparseParts
from pmgp.interface.sparse.terms import RobustMaxTerms

__all__ = ["HELD", "At", "Replica", "TemperedParts", "exchanged", "exchanges", "moved", "respaced"]

WHITENED, INDUCING = np.inf, 0.0
HELD = (INDUCING, WHITENED, 0.01, 1.0)
"""Quantities that stay as they are where theta moves.

The values u at the inducing inputs, or v = R^-1 u (Yu and Meng 2011); or what lies between: noisy copies of the latent
values, whose variance this is in units of their own, and the whitened rest of v given these (Murray and Adams 2010).
The copies represent the directions that the likelihood determines, and the rest follows the prior.
"""


class At(NamedTuple):
    """The quantities computed at one theta.

    Attributes
    ----------
    log_prior : float
    conditional : WhitenedConditional
    factors : list of (m, m) array
        R of each covariance function, lower triangular.
    sweep : callable or None
        Slices along coordinates by a kernel.
    """

    log_prior: float
    conditional: WhitenedConditional
    factors: list[np.ndarray]
    sweep: Callable[..., int] | None

    def inducing(self, v: np.ndarray) -> np.ndarray:
        """U = R v of each output, less its mean: (k, m) -> (k, m)."""
        return np.array([triangular_product(R, row) for R, row in zip(self._each(len(v)), v, strict=True)])

    def whitened(self, u: np.ndarray) -> np.ndarray:
        """V = R^-1 u."""
        return np.array([triangular_solve(R, row) for R, row in zip(self._each(len(u)), u, strict=True)])

    def log_determinant(self, outputs: int) -> float:
        """Log |du/dv|."""
        return sum(float(np.log(R.diagonal()).sum()) for R in self._each(outputs))

    def _each(self, outputs: int) -> list[np.ndarray]:
        return self.factors * (outputs if len(self.factors) == 1 else 1)


class Replica(NamedTuple):
    """A state at one of the powers.

    Attributes
    ----------
    theta : (p,) array
    v : (k, m) array
    at : At
        What is known at this theta.
    value : float
        The log-likelihood.
    """

    theta: np.ndarray
    v: np.ndarray
    at: At
    value: float

    @classmethod
    def of(cls, theta: np.ndarray, v: np.ndarray, at: At) -> Replica:
        """One whose log-likelihood is not known yet."""
        return cls(theta, v, at, at.conditional.value(at.conditional.latent(v)))

    def log_density(self, power: float) -> float:
        """Return the log-density of theta and v."""
        return self.at.log_prior - 0.5 * float(np.vdot(self.v, self.v)) + power * self.value


class TemperedParts(SparseParts):
    """The parts of a model, with the factors of K_uu and a kernel's sweep where there is one.

    Parameters
    ----------
    model, point
        As of `SparseParts`, which says what is raised.
    """

    def __init__(self, model: pm.Model, point: dict[str, np.ndarray]) -> None:
        super().__init__(model, point)
        process = inducing_process(model)
        assert process is not None
        self._factors = self._of_theta(model.replace_rvs_by_values(process.factors), model, point)

    def refresh_data(self) -> None:
        """Read data again, which `pymc.set_data` may have changed."""
        super().refresh_data()
        self._factors.refresh_data()

    def known_at(self, theta: np.ndarray) -> At:
        """Compute everything that moves at this theta need."""
        log_prior, offset, projections, others = self._values_at(theta)
        sweep = partial(swept, self._terms, others[0]) if isinstance(self._terms, RobustMaxTerms) else None
        return At(log_prior, self._conditional(offset, projections, others), self._factors(theta), sweep)


def moved(
    rng: np.random.Generator,
    replica: Replica,
    power: float,
    known_at: Callable[[np.ndarray], At],
    move: tuple[float, int, float],
) -> tuple[Replica, float]:
    """A Metropolis step of one element of theta, and its acceptance rate.

    Parameters
    ----------
    rng : numpy.random.Generator
    replica : Replica
    power : float
    known_at : callable
        From theta to what is known there.
    move : tuple
        What is held: `INDUCING`, `WHITENED`, or the variance of noisy copies; the element; and the standard deviation
        of its step.
    """
    held, element, scale = move
    theta = replica.theta.copy()
    theta[element] += scale * rng.standard_normal()
    at = known_at(theta)
    uniform = rng.random()
    if not np.isfinite(at.log_prior) or not all(np.isfinite(R[-1, -1]) for R in at.factors):
        return replica, 0.0
    v, log_jacobian = replica.v, 0.0
    if held == INDUCING:
        # The density of u is that of v over |du/dv|.
        v = at.whitened(replica.at.inducing(v))
        log_jacobian = replica.at.log_determinant(len(v)) - at.log_determinant(len(v))
    elif held < WHITENED:
        v, log_jacobian = _beside_copies(rng, replica, at.conditional, 1.0 / held)
    proposed = Replica.of(theta, v, at)
    log_ratio = proposed.log_density(power) - replica.log_density(power) + log_jacobian
    rate = float(np.exp(min(log_ratio, 0.0))) if log_ratio == log_ratio else 0.0
    return (proposed, rate) if uniform < rate else (replica, rate)


def _beside_copies(
    rng: np.random.Generator, replica: Replica, conditional: WhitenedConditional, precision: float
) -> tuple[np.ndarray, float]:
    """V at another theta, with noisy copies of the latent values and the whitened rest held; and what that adds."""
    before = replica.at.conditional.change(replica.v)
    copies = before + rng.standard_normal(before.shape) / np.sqrt(precision)
    old, new = (_given_copies(one, copies, precision) for one in (replica.at.conditional, conditional))
    v = new.mode + new.deviation(old.whitened(replica.v))
    after = conditional.change(v)
    # Densities of the copies, given the latent values; and of v, given what is held.
    log_ratio = 0.5 * precision * float(np.square(copies - before).sum() - np.square(copies - after).sum())
    return v, log_ratio + new.log_jacobian - old.log_jacobian


def _given_copies(conditional: WhitenedConditional, copies: np.ndarray, precision: float) -> GaussianFit:
    """The Gaussian of v given the copies."""
    groups, n = len(conditional.projections), copies.shape[1]
    factors = conditional.factors(np.full((groups, n), -precision)) * (len(copies) if groups == 1 else 1)
    right = precision * conditional.pulled_back(copies)
    return GaussianFit(np.array([cholesky_solve(L, row) for L, row in zip(factors, right, strict=True)]), factors)


def exchanges(count: int, iteration: int) -> range:
    """The powers that are exchanged with the next one: even ones and odd ones in turn (Okabe et al. 2001)."""
    return range(iteration % 2, count - 1, 2)


def exchanged(
    rng: np.random.Generator, replicas: list[Replica], powers: np.ndarray, pairs: range
) -> tuple[np.ndarray, np.ndarray]:
    """Offer exchanges: which replica each power has now, and the acceptance rates of the pairs.

    Parameters
    ----------
    rng : numpy.random.Generator
    replicas : list of Replica
    powers : (t,) array
    pairs : range
        First ones of pairs that have no power in common.
    """
    order, rates = np.arange(len(powers)), np.zeros(len(pairs))
    for place, first in enumerate(pairs):
        log_ratio = (powers[first] - powers[first + 1]) * (replicas[first + 1].value - replicas[first].value)
        rates[place] = np.exp(min(log_ratio, 0.0))
        if rng.random() < rates[place]:
            order[first], order[first + 1] = first + 1, first
    return order, rates


def respaced(powers: np.ndarray, rejected: np.ndarray) -> np.ndarray:
    """Powers between the same ends at which exchanges are rejected equally often (Syed et al. 2022, section 5).

    Parameters
    ----------
    powers : (t,) array
        Descending.
    rejected : (t - 1,) array
        Average rejection rates of neighbors.
    """
    barrier = np.concatenate([[0.0], np.cumsum(np.maximum(rejected, 1e-3))])
    logs = np.interp(np.linspace(0.0, barrier[-1], len(powers)), barrier, np.log(powers))
    return np.exp(logs)
