"""The difference between the target on inducing inputs and the posterior, estimated from draws of the target.

The target has E log p(y|f) where a model whose latent values are independent given u would have log E p(y|f). The sum
of the differences is the penalty for the variance that is left at the observations, gamma, whose sum is the trace of
K_ff - Q_ff. A penalty that is the same at all draws changes nothing; weights exp(penalty) would take it out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# In nats. To first order the mean of no hyper-parameter moves by more than this part of its standard deviation. Draws
# keep away from where the penalty is large, so that more may be behind it: hence not larger.
NEGLIGIBLE = 0.05
# Inducing inputs save nothing where more than this part of the points is needed; up to so many points exact chains run.
SAVING = 0.5
FEW_POINTS = 2000


class Diagnosis(NamedTuple):
    """The effect on the target of the variance that the inducing inputs leave.

    Attributes
    ----------
    unexplained : float
        The part of the prior variance at the observations that the inducing inputs leave: mean over draws.
    penalty, penalty_deviation : float
        The penalty in nats: its mean and standard deviation over draws.
    shifts : dict
        The change of each hyper-parameter's mean without the penalty, in its posterior standard deviations; to first
        order, and so a lower bound; for a vector, that of the element that changes most.
    inducing : int
        The number of inducing inputs, M.
    enough : int or None
        How many, each of the largest variance given those before it, bring the deviation of the penalty down to 0.05
        nats; None where four times as many as there are do not.
    points : int
        The number of inputs of the observations.
    """

    unexplained: float
    penalty: float
    penalty_deviation: float
    shifts: dict[str, float]
    inducing: int
    enough: int | None
    points: int

    @property
    def good(self) -> bool:
        """Whether the penalty hardly distinguishes between the draws."""
        return self.penalty_deviation <= NEGLIGIBLE

    @property
    def exact_instead(self) -> bool:
        """Whether so large a part of so few points is needed that the exact chain is the better one."""
        needed = 4 * self.inducing if self.enough is None else self.enough
        return not self.good and self.points <= FEW_POINTS and needed > SAVING * self.points

    @property
    def advised(self) -> int | None:
        """The number of inducing inputs to take next, 0 for the exact chain; None if no number can be given."""
        if self.exact_instead:
            return 0
        return None if self.good else self.enough

    def __str__(self) -> str:
        """Return the meaning of the figures, and advice."""
        said = (
            f"{self.inducing} inducing inputs leave {100.0 * self.unexplained:.2g} % of the prior variance. The target "
            f"is lower than without it by {self.penalty:.2g} nats, with a standard deviation of "
            f"{self.penalty_deviation:.2g} over the draws"
        )
        if self.good:
            return f"{said}, which is negligible."
        worst = max(self.shifts, key=lambda name: abs(self.shifts[name]), default=None)
        moved = (
            "" if worst is None else f": the mean of {worst} would move by {self.shifts[worst]:+.2g} deviations or more"
        )
        return f"{said}{moved}. {self._advice()}"

    def _advice(self) -> str:
        needed = f"more than {4 * self.inducing}" if self.enough is None else f"about {self.enough}"
        if self.exact_instead:
            return (
                f"With {needed} inducing inputs for {self.points} points nothing would be saved: take the exact chain, "
                "pmgp.PseudoMarginal on gp.exact_model()."
            )
        return f"Take {needed} inducing inputs or more, and look again: what few of them hide is not seen yet."


def diagnosis_of(
    unexplained: np.ndarray,
    penalties: np.ndarray,
    hyperparameters: dict[str, np.ndarray],
    traces: np.ndarray,
    inducing: int,
    points: int,
) -> Diagnosis:
    """Put the figures together.

    Parameters
    ----------
    unexplained, penalties : (s,) array
        At each draw.
    hyperparameters : dict of arrays of shape (s, ...)
    traces : (m,) array
        Variance that is left by the first 1, 2, ... of inducing inputs chosen one after another.
    inducing, points : int
        Numbers of inducing inputs, and of inputs of the observations.
    """
    deviation = float(penalties.std())
    return Diagnosis(
        float(unexplained.mean()),
        float(penalties.mean()),
        deviation,
        {name: _shift(values.reshape(len(penalties), -1), penalties) for name, values in hyperparameters.items()},
        inducing,
        _enough(traces, inducing, deviation),
        points,
    )


def _shift(values: np.ndarray, penalties: np.ndarray) -> float:
    """Covariance with the penalty over the standard deviation, of the element where it is largest."""
    deviations = values.std(axis=0)
    covariances = (penalties - penalties.mean()) @ (values - values.mean(axis=0)) / len(penalties)
    shifts = covariances / np.where(deviations > 0.0, deviations, 1.0)
    return float(shifts[np.argmax(np.abs(shifts))])


def _enough(traces: np.ndarray, inducing: int, deviation: float) -> int | None:
    """Where the trace is as much smaller than now as the penalty's deviation has to be."""
    now = traces[min(inducing, len(traces)) - 1]
    if deviation <= NEGLIGIBLE:
        return inducing
    small = np.flatnonzero(traces <= now * NEGLIGIBLE / deviation)
    return int(small[0]) + 1 if len(small) else None
