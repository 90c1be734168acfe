"""SA and ASIS as in the article: sigma is drawn from its full conditional, and SA's transitions move the rest of theta.

Given f, sigma is nearly known. A transition of all of theta with one step size would be as short as sigma needs it, and
the length-scales would wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pmgp.core.joint_density import DifferentiableModel
from pmgp.core.theta_updates.densities import AncillaryDensity, JointState, SufficientDensity
from pmgp.core.theta_updates.schemes import Outcome, Scheme
from pmgp.core.theta_updates.variance import ConjugateVariance
from pmgp.core.transitions.base import Point

__all__ = ["ExactVariance"]


class _Rest:
    """The density of theta without one element, which stays where it is.

    Parameters
    ----------
    density : SufficientDensity
    theta : (dimension,) array
    index : int
        Index of the element that stays.
    """

    def __init__(self, density: SufficientDensity, theta: np.ndarray, index: int) -> None:
        self.density = density
        self.index = index
        self.fixed = theta[index]

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Value; the payload is the point of all of theta. Random walks need no gradient."""
        whole = self.density.at(np.insert(position, self.index, self.fixed))
        return Point(position, whole.log_density, whole)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Not needed."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ExactVariance(Scheme):
    """An exact draw of sigma, SA's transition of the rest, and for ASIS then AA's of all of theta.

    Parameters
    ----------
    operator : RandomWalk
    variance : ConjugateVariance
    interweaving : bool
        ASIS rather than SA.
    """

    variance: ConjugateVariance
    interweaving: bool = False

    def start(self, dimension: int, length: int) -> tuple[Any, ...]:
        """Begin to learn; each transition has a step size of its own."""
        dimensions = (dimension - 1, dimension) if self.interweaving else (dimension - 1,)
        return tuple(self.operator.start(each, length) for each in dimensions)

    def step(
        self,
        rng: np.random.Generator,
        current: JointState,
        model: DifferentiableModel,
        adaptations: tuple[Any, ...],
        tuning: bool,
    ) -> Outcome:
        """Update theta, and f in the second transition."""
        current = self.variance.draw(rng, current)
        index, theta = self.variance.index, current.theta
        density = _Rest(SufficientDensity(model, current), theta, index)
        point, learned, info = self.moved(rng, density, np.delete(theta, index), adaptations[0], tuning)
        current = JointState(point.payload.position, point.payload.payload)
        if not self.interweaving:
            return Outcome(current, (learned,), (info,))
        ancillary = AncillaryDensity(model, current)
        moved, also, second = self.moved(rng, ancillary, current.theta, adaptations[1], tuning)
        return Outcome(JointState(moved.position, moved.payload), (learned, also), (info, second))
