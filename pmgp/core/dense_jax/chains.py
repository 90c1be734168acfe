"""Programs that move many chains together: one call an iteration, with all matrices on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pmgp.core.dense_jax.chain import (
    Info,
    Point,
    Proposal,
    Screened,
    State,
    Target,
    estimate_at,
    iterate,
    move_on_screen,
    screen,
)
from pmgp.core.dense_jax.programs import program
from pmgp.core.dense_jax.sites import factorized


class Chains:
    """Compiled programs for chains that are the first axis of all states.

    Parameters
    ----------
    target_of : callable
        From the data, any tree of arrays, to a `Target`.
    """

    def __init__(self, target_of: Callable[[Any], Target]) -> None:
        self._target_of = target_of
        self.begin: Any = program()(self._begin)
        self.tune: Any = program(donate_argnums=4)(self._tune)
        self.freeze: Any = program()(self._freeze)
        self.draw: Any = program(donate_argnums=4)(self._draw)

    def _begin(self, data: Any, theta: Any) -> Point:
        """Return the screen at thetas, (chains, dimension), with fits that need no start."""
        target = self._target_of(data)

        def begun(theta: Any) -> Point:
            _, mean, covariance = target.prior(theta)
            return screen(target, theta, target.begin(factorized(mean, covariance), target.terms(theta)))

        return jax.vmap(begun)(theta)

    def _tune(self, data: Any, proposal: Proposal, key: Any, number: Any, points: Point) -> tuple[Point, Screened]:
        """Move on the screen alone, in iteration `number` of those with this key; fits start from the previous ones."""
        target = self._target_of(data)

        def moved(key: Any, point: Point) -> tuple[Point, Screened]:
            found, _, report = move_on_screen(target, proposal, key, point, point.fit.start)
            return found, report

        return jax.vmap(moved)(_keys(key, number, points), points)

    def _freeze(self, data: Any, key: Any, points: Point) -> tuple[State, Any]:
        """Return first states of the exact chains, and the start of all their fits: the mean of the last starts.

        A chain whose state cannot be used, since the fit from this start does not converge or all weights vanish, takes
        the place of the first one that can.
        """
        target, start = self._target_of(data), jax.tree.map(lambda part: part.mean(axis=0), points.fit.start)

        def begun(key: Any, theta: Any) -> State:
            point = screen(target, theta, start)
            return State(point, estimate_at(target, key, point))

        states = jax.vmap(begun)(_keys(key, 0, points), points.theta)
        usable = jnp.isfinite(states.point.log_screen) & jnp.isfinite(states.estimate.log_evidence)
        places = jnp.where(usable, jnp.arange(len(usable)), jnp.argmax(usable))
        return jax.tree.map(lambda part: part[places], states), start

    def _draw(
        self, data: Any, proposal: Proposal, key: Any, number: Any, states: State, start: Any
    ) -> tuple[State, Info]:
        """Make an iteration of the exact chains."""
        target = self._target_of(data)
        return jax.vmap(lambda key, state: iterate(target, proposal, key, state, start))(
            _keys(key, number, states.point), states
        )


def _keys(key: Any, number: Any, points: Point) -> Any:
    return jax.random.split(jax.random.fold_in(key, number), len(points.theta))
