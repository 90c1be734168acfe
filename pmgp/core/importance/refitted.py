"""A second proposal, fitted to weighted draws from a first one, with weights that stay unbiased.

All draws are weighed with the mixture of both proposals (Veach and Guibas 1995), so that draws from a first proposal
that is too narrow, or in the wrong place, still count. If the second proposal were fitted to the very draws that it
weighs, as in adaptive multiple importance sampling (Cornuet et al. 2012), large weights would lower themselves. So
there are as many second proposals as first draws, each fitted without one of them. The same holds for maxima that are
found from the heaviest draw: the proposal that leaves this draw out uses the next one. A first draw is weighed with the
proposal fitted without it. Each further draw comes from one of these proposals, chosen at random, and is weighed with
that one.

Let s be the share of first draws, p the density with its unknown constant, q_1 the first proposal, and q a second one.
Given q, the mean weight is

    s int q_1 p / (s q_1 + (1 - s) q) + (1 - s) int q p / (s q_1 + (1 - s) q) = int p

because q has the same distribution in both terms: it is fitted to as many draws in the first as in the second.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pmgp.core.importance.split_mixture import SplitMixture
from pmgp.core.importance.student_mixture import log_student

# Scale matrices are wider by this factor than the weighted covariance, since draws are few.
WIDER = 1.2


class Refitted:
    """The mixture of a first proposal and of those fitted to draws from it, with as many components.

    - `first`: the first proposal
    - `draws` (size, dimension): draws from it
    - `log_weights` (size,): logs of their weights, up to a constant; a draw without weight has minus infinity
    - `extended`: a function from the heaviest draw to the first proposal with further components, or without
    """

    def __init__(
        self,
        first: SplitMixture,
        draws: np.ndarray,
        log_weights: np.ndarray,
        extended: Callable[[np.ndarray], SplitMixture] | None = None,
    ) -> None:
        self.first, self.size = first, len(draws)
        second, heaviest = np.argsort(log_weights)[-2:]
        # Without the heaviest draw, the second is the heaviest one.
        bases = [first, first] if extended is None else [extended(draws[heaviest]), extended(draws[second])]
        shares = [_shares_of(base, draws) for base in bases]
        found = []
        for i in range(self.size):
            k = int(i == heaviest)
            others = (np.delete(one, i, axis=-1) for one in (shares[k], draws.T, log_weights))
            found.append(_padded(_matched(bases[k], *others), max(len(base.components) for base in bases)))
        self._shares, self._centers, self._factors = (np.array(one) for one in zip(*found, strict=True))

    @property
    def components(self) -> int:
        """The largest number of components of a second proposal."""
        return self._shares.shape[1]

    def sample(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw (size, dimension), and the number of the first draw that each one's proposal leaves out: (size,)."""
        left_out = rng.integers(self.size, size=size)
        ends = np.cumsum(self._shares[left_out], axis=1)
        chosen = (rng.random((size, 1)) > ends[:, :-1]).sum(axis=1)
        nu = self.first.degrees_of_freedom
        factors = self._factors[left_out, chosen]
        steps = np.einsum("nij,nj->ni", factors, rng.standard_normal((size, self.first.dimension)))
        return self._centers[left_out, chosen] + steps / np.sqrt(rng.chisquare(nu, size) / nu)[:, None], left_out

    def log_density(self, theta: np.ndarray, left_out: np.ndarray) -> np.ndarray:
        """Return the log-density with which draws are weighed: (n,).

        - `theta` (n, dimension): all draws, the first ones among them
        - `left_out` (n,): for each of them, the number of the first draw that its proposal leaves out
        """
        factors, deviations = self._factors[left_out], theta[:, None] - self._centers[left_out]
        steps = np.linalg.solve(factors, deviations[..., None])[..., 0]
        log_volumes = np.log(np.einsum("nkii->nki", factors)).sum(axis=2)
        squares, nu = np.square(steps).sum(axis=2), self.first.degrees_of_freedom
        logs = log_student(squares, log_volumes, theta.shape[1], nu)
        share = self.size / len(theta)
        with np.errstate(divide="ignore"):
            own = np.logaddexp.reduce(logs + np.log(self._shares[left_out]), axis=1)
            return np.logaddexp(np.log(share) + self.first.log_density(theta), np.log1p(-share) + own)


def _shares_of(mixture: SplitMixture, draws: np.ndarray) -> np.ndarray:
    """Return the part of each draw that belongs to a component: (k, size)."""
    joint = mixture.log_joint(draws)
    return np.exp(joint - np.logaddexp.reduce(joint, axis=0))


def _padded(found: tuple[np.ndarray, ...], number: int) -> list[np.ndarray]:
    """Repeat the last component, with a share of zero, so that there are as many as in other proposals."""
    missing = number - len(found[0])
    shares, centers, factors = (np.concatenate([one, np.repeat(one[-1:], missing, axis=0)]) for one in found)
    shares[len(found[0]) :] = 0.0
    return [shares, centers, factors]


def _matched(
    first: SplitMixture, shares: np.ndarray, draws: np.ndarray, log_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return shares (k,), centers (k, dimension) and Cholesky factors of scale matrices (k, dimension, dimension).

    Each component has the weighted mean and covariance of its part of the draws, to which those of the first proposal
    are added: its center counts as one draw, its scale as one draw for each dimension, and its share as one draw for
    each component.

    - `shares` (k, size): the part of each draw that belongs to a component of the first proposal
    - `draws` (dimension, size)
    """
    number, dimension = len(first.components), first.dimension
    weights = np.zeros(draws.shape[1])
    if np.isfinite(log_weights).any():
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
    effective = 1.0 / float(weights @ weights) if weights.any() else 0.0
    parts = shares @ weights
    centers, factors = [], []
    for component, part, own in zip(first.components, parts, shares * weights, strict=True):
        draws_worth = effective * part
        own = own / part if part > 0.0 else own
        mean = draws @ own
        deviations = draws - mean[:, None]
        covariance = (own * deviations) @ deviations.T
        centers.append((draws_worth * mean + component.center) / (draws_worth + 1.0))
        scale = (draws_worth * covariance + dimension * component.scale) / (draws_worth + dimension)
        factors.append(np.linalg.cholesky(WIDER * scale))
    of_components = (effective * parts + number * np.exp(first.log_shares)) / (effective + number)
    return of_components, np.array(centers), np.array(factors)
