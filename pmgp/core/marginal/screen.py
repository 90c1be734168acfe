"""The screen: log p(theta) plus the approximation's log-evidence, as a density in which transitions move.

It is the target of a chain while it tunes, and screens proposals afterwards. After tuning it is a deterministic
function of theta: fits start from the prediction of frozen coefficients, never from a previous state of the chain.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.adaptation.mode_prediction import Predictor
from pmgp.core.marginal.evaluation import Evaluation, Evaluator, Fitted, Indefinite
from pmgp.core.marginal.evidence_gradient import screen_gradient
from pmgp.core.transitions.base import NOT_COMPUTED, Point


class ScreenDensity:
    """The density for one iteration, which counts iterations of fits. A point's payload is its evaluation.

    `learning`: whether to keep pairs from which the predictor may learn.

    `iterations`: total number of iterations of all fits; `converged`, `indefinite`: whether all fits converged, and
    whether K was indefinite anywhere; `pairs`: theta and a start for nearby fits, for each q that converged.
    """

    def __init__(self, evaluate: Evaluator, predictor: Predictor | None, learning: bool = False) -> None:
        self.evaluate = evaluate
        self.predictor = predictor
        self.learning = learning
        self.iterations = 0
        self.converged = True
        self.indefinite = False
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the point at a position, with the gradient on request."""
        evaluation = self.evaluate(position, self.predictor)
        self._count(evaluation)
        slope = screen_gradient(self.evaluate, evaluation) if gradient else NOT_COMPUTED
        return Point(position, evaluation.log_screen, evaluation, slope)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density, or NaN if that is minus infinity."""
        return self.at(position, gradient=True).gradient

    def _count(self, evaluation: Evaluation) -> None:
        if not isinstance(evaluation, Fitted):
            self.indefinite |= isinstance(evaluation, Indefinite)
            return
        self.iterations += evaluation.approximation.iterations
        self.converged &= evaluation.approximation.converged
        if self.learning and evaluation.approximation.converged:
            self.pairs.append((evaluation.theta, self.evaluate.start_from(evaluation)))
