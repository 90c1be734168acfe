"""SimpleMKL: support vector machines, one class against all others, on one weighted sum of kernels.

Rakotomamonjy, Bach, Canu and Grandvalet (2008): the weights d lie in the simplex and minimize J(d), the sum over
machines of the optimal value of their problem with K = sum_s d_s C_s, by reduced gradient descent (their Algorithm 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.svm import SVC

__all__ = ["COSTS", "SimpleMKL", "choose_cost", "objective"]

COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Among which nested cross-validation chooses; the article has 1e-5 to 1e5, and leaves one out at a time."""


class Value(NamedTuple):
    """J at weights, its gradient, and the machines that attain it."""

    value: float
    gradient: np.ndarray
    machines: list[SVC]


def objective(weights: np.ndarray, kernels: np.ndarray, y: np.ndarray, cost: float) -> Value:
    """J(d) and its gradient (their equations 9 and 11), summed over the machines.

    Parameters
    ----------
    weights : (S,) array
    kernels : (S, n, n) array
    y : (n,) array of int
        Classes.
    cost : float
        C of the machines.
    """
    K = np.tensordot(weights, kernels, 1)
    value, gradient, machines = 0.0, np.zeros(len(weights)), []
    for label in np.unique(y):
        machine = SVC(C=cost, kernel="precomputed", tol=1e-6).fit(K, np.where(y == label, 1, -1))
        signed, support = machine.dual_coef_[0], machine.support_
        parts = np.einsum("sij,i,j->s", kernels[:, support][:, :, support], signed, signed)
        value += float(np.abs(signed).sum() - 0.5 * parts @ weights)
        gradient -= 0.5 * parts
        machines.append(machine)
    return Value(value, gradient, machines)


@dataclass(frozen=True)
class SimpleMKL:
    """The machines, to be fitted.

    Parameters
    ----------
    cost : float
        C.
    tolerance : float
        The weights' largest change at which the descent ends.
    most : int
        Iterations.
    """

    cost: float
    tolerance: float = 1e-3
    most: int = 100

    def fit(self, kernels: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, list[SVC]]:
        """The weights (S,) and a machine for each class of y (n,), for kernels (S, n, n)."""
        weights = np.full(len(kernels), 1.0 / len(kernels))
        current = objective(weights, kernels, y, self.cost)
        for _ in range(self.most):
            new, found = self._descend(weights, current, kernels, y)
            change = np.abs(new - weights).max()
            weights, current = new, found
            if change < self.tolerance:
                break
        return weights, current.machines

    def _descend(
        self, weights: np.ndarray, current: Value, kernels: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, Value]:
        """One iteration: to the bounds as long as J falls, then a line search by golden sections."""
        direction = reduced_direction(weights, current.gradient)
        while True:
            reach, new = _to_bound(weights, direction)
            if reach == 0.0:
                return weights, current
            found = objective(new, kernels, y, self.cost)
            if found.value >= current.value:
                break
            weights, current = new, found
            # The direction without what has reached its bound, which the largest weight makes up for.
            direction = np.where((weights <= 0.0) & (direction < 0.0), 0.0, direction)
            largest = int(weights.argmax())
            direction[largest] -= direction.sum()
        return self._search(weights, current, reach * direction, kernels, y)

    def _search(
        self, weights: np.ndarray, current: Value, step: np.ndarray, kernels: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, Value]:
        def at(share: float) -> tuple[np.ndarray, Value]:
            new = weights + share * step
            return new, objective(new, kernels, y, self.cost)

        low, high, ratio = 0.0, 1.0, 0.5 * (np.sqrt(5.0) - 1.0)
        places = [1.0 - ratio, ratio]
        tried = [at(place) for place in places]
        best = min([(weights, current), *tried], key=_height)
        while (high - low) * np.abs(step).max() > 0.5 * self.tolerance:
            if _height(tried[0]) <= _height(tried[1]):
                high, places[1], tried[1] = places[1], places[0], tried[0]
                places[0] = high - ratio * (high - low)
                tried[0] = at(places[0])
            else:
                low, places[0], tried[0] = places[0], places[1], tried[1]
                places[1] = low + ratio * (high - low)
                tried[1] = at(places[1])
            best = min([best, *tried], key=_height)
        return best


def _height(one: tuple[np.ndarray, Value]) -> float:
    return one[1].value


def reduced_direction(weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The direction of their equation 12: it keeps the sum, and leads into no bound that is reached."""
    largest = int(weights.argmax())
    reduced = gradient - gradient[largest]
    direction = np.where((weights <= 0.0) & (reduced > 0.0), 0.0, -reduced)
    direction[largest] = 0.0
    direction[largest] = -direction.sum()
    return direction


def _to_bound(weights: np.ndarray, direction: np.ndarray) -> tuple[float, np.ndarray]:
    """The longest step that leaves no weight negative, and where it leads."""
    falling = direction < 0.0
    if not falling.any() or np.abs(direction).max() == 0.0:
        return 0.0, weights
    steps = np.where(falling, weights / np.where(falling, -direction, 1.0), np.inf)
    reach = float(steps.min())
    new = np.where(steps <= reach, 0.0, np.maximum(weights + reach * direction, 0.0))
    return reach, new / new.sum()


def decisions(machines: Sequence[SVC], weights: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """Decision values (m, C) from kernels (S, m, n) between new observations and those of the training part."""
    K = np.tensordot(weights, cross, 1)
    return np.stack([machine.decision_function(K) for machine in machines], axis=1)


def choose_cost(kernels: np.ndarray, y: np.ndarray, folds: np.ndarray) -> float:
    """The C of :data:`COSTS` with the best accuracy in nested cross-validation, the smallest of equal ones.

    Parameters
    ----------
    kernels : (S, n, n) array
    y : (n,) array of int
    folds : (n,) array of int
        In which of the parts each observation is tested.
    """
    accuracy = []
    for cost in COSTS:
        right = 0
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            weights, machines = SimpleMKL(cost, tolerance=0.02).fit(kernels[:, train][:, :, train], y[train])
            found = decisions(machines, weights, kernels[:, test][:, :, train]).argmax(axis=1)
            right += int((np.unique(y[train])[found] == y[test]).sum())
        accuracy.append(right / len(y))
    return COSTS[int(np.argmax(accuracy))]
