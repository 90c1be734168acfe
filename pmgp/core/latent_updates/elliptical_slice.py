"""Elliptical slice sampling (Murray, Adams and MacKay 2010; Algorithm 3 of the comparative evaluation).

The ellipses come from a Gaussian reference q, and the target is q(f) r(f). If q is the prior, r is the likelihood, as
in the published algorithm. If q approximates the posterior, r is the likelihood over the sites, and the ellipses span
the whole posterior. Either way a call of r costs O(n).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import ClassVar, NamedTuple

import numpy as np

from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import Gaussian, Prior
from pmgp.core.latent_updates.base import check_name
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.arrays import is_whole
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.elliptical_slice import slice_on_ellipse


class SliceTarget(NamedTuple):
    """The likelihood, and the Gaussians that define the ellipses, used in turn."""

    references: tuple[Gaussian, ...]
    likelihood: Likelihood

    def log_ratio(self, f: np.ndarray, reference: Gaussian) -> float:
        """Return the log of p(y|f) N(f|m, K) over a reference, up to a constant."""
        return float(reference.log_ratio(self.likelihood, f))


@dataclass(frozen=True)
class EllipticalSliceUpdate:
    """An update that makes one or more elliptical slice transitions.

    Parameters
    ----------
    moves : int
        Transitions made by one call of :meth:`step` or :meth:`move`.
    reference : {"prior", "laplace"}
        The Gaussian for the ellipses that :meth:`prepare` makes. Each move about Laplace's approximation is followed by
        one about the prior: the posterior may have heavier tails than the approximation, and a chain that starts in
        them would stay there for a long time.

    Raises
    ------
    ValueError
        For fewer than one move, or an unknown reference.
    """

    moves: int = 1
    reference: str = "prior"
    target_acceptance: ClassVar[float] = 1.0
    largest_step_size: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_name(self.reference, ("prior", "laplace"), "reference")
        if not is_whole(self.moves):
            raise ValueError(f"moves must be an integer of at least 1, not {self.moves}")

    def initial_step_size(self, n: int) -> float:
        """Return one: no step size is tuned."""
        return 1.0

    def prepare(self, prior: Prior, likelihood: Likelihood) -> SliceTarget | None:
        """Return the likelihood with the references, or None if K is indefinite.

        Laplace's approximation is fitted from the prior mean, so that it is a function of theta alone.
        """
        factorized = prior.factorized()
        if factorized is None or self.reference == "prior":
            return None if factorized is None else SliceTarget((factorized,), likelihood)
        approximation = Laplace(sweeps=0).fit(factorized, likelihood)
        return None if approximation is None else SliceTarget((approximation, factorized), likelihood)

    def init(self, target: SliceTarget, f: np.ndarray) -> Point:
        """Return the point at f."""
        return Point(f, target.log_ratio(f, target.references[0]), f)

    def restore(self, target: object, point: Point) -> Point:
        """Return the point: stored points are complete."""
        return point

    def step(
        self,
        rng: np.random.Generator,
        point: Point,
        target: SliceTarget,
        step_size: float = 1.0,
        auxiliaries: np.ndarray | None = None,
    ) -> tuple[Point, TransitionInfo]:
        """Make the moves, which have no step size; return the new point and a report.

        Parameters
        ----------
        auxiliaries : (moves, n) array, optional
            Draws from the only reference less its mean, for the ellipses; by default they are drawn here.
        """
        f, value, evaluations = point.position, point.log_density, 0
        for number in range(self.moves):
            for reference in target.references:
                auxiliary = reference.sample_deviations(rng, 1)[0] if auxiliaries is None else auxiliaries[number]
                f, value, calls = _move(rng, f, value, target, reference, auxiliary)
                evaluations += calls
                if len(target.references) > 1:
                    following = target.references[reference is target.references[0]]
                    value = target.log_ratio(f, following)
        return Point(f, value, f), TransitionInfo(True, 1.0, evaluations)

    def move(
        self,
        rng: np.random.Generator,
        f: np.ndarray,
        reference: Gaussian,
        likelihood: Likelihood,
        auxiliaries: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return f of shape (n,) after moves about a given reference, which leave p(f|theta, y) invariant."""
        target, value = SliceTarget((reference,), likelihood), nan
        for number in range(self.moves):
            auxiliary = reference.sample_deviations(rng, 1)[0] if auxiliaries is None else auxiliaries[number]
            f, value, _ = _move(rng, f, value, target, reference, auxiliary)
        return f


def _move(
    rng: np.random.Generator,
    f: np.ndarray,
    value: float,
    target: SliceTarget,
    reference: Gaussian,
    auxiliary: np.ndarray,
) -> tuple[np.ndarray, float, int]:
    """Make one transition about a reference; return f, the log-ratio there and the number of its evaluations.

    The value at f is NaN if it is not known yet.
    """
    found = reference.moved(rng, f, value, target.likelihood, auxiliary)
    if found is not None:
        return found
    mean = reference.mean
    value = target.log_ratio(f, reference) if isnan(value) else value
    deviation, value, evaluations = slice_on_ellipse(
        rng, f - mean, auxiliary, lambda e: target.log_ratio(mean + e, reference), value
    )
    return mean + deviation, value, evaluations
