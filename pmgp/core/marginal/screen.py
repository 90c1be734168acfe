"""The screen: log p(theta) plus the approximation's log-evidence, as a density that transitions move in.

It is what a chain targets while it tunes, and what proposals are screened with afterwards. Once tuning has ended it is
a deterministic function of theta: fits start from what frozen coefficients predict, never from where the chain was.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.adaptation.mode_prediction import Predictor
from pmgp.core.marginal.evaluation import Evaluation, Evaluator, Fitted, Indefinite
from pmgp.core.marginal.evidence_gradient import screen_gradient
from pmgp.core.transitions.base import NOT_COMPUTED, Point

__all__ = ["ScreenDensity"]


class ScreenDensity:
    """The density for one iteration, which counts what is evaluated. The payload of a point is the evaluation there.

    Parameters
    ----------
    evaluate : Evaluator
    predictor : Predictor or None
    learning : bool
        Whether to keep what the predictor may learn from.

    Attributes
    ----------
    iterations : int
        Of all fits together.
    converged, indefinite : bool
        Whether all fits converged, and whether K was indefinite anywhere.
    pairs : list of pairs
        Theta, and what a fit nearby would start from, where q converged.
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
        """Value, and the gradient where asked for."""
        evaluation = self.evaluate(position, self.predictor)
        self._count(evaluation)
        slope = screen_gradient(self.evaluate, evaluation) if gradient else NOT_COMPUTED
        return Point(position, evaluation.log_screen, evaluation, slope)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Gradient of the log-density; not a number where that is minus infinity."""
        return self.at(position, gradient=True).gradient

    def _count(self, evaluation: Evaluation) -> None:
        if not isinstance(evaluation, Fitted):
            self.indefinite |= isinstance(evaluation, Indefinite)
            return
        self.iterations += evaluation.approximation.iterations
        self.converged &= evaluation.approximation.converged
        if self.learning and evaluation.approximation.converged:
            self.pairs.append((evaluation.theta, self.evaluate.start_from(evaluation)))
