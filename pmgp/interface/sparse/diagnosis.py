"""The difference between the target on inducing inputs and the posterior, estimated from draws of the target.

The target has E log p(y|f) where a model whose latent values are independent given u would have log E p(y|f). The sum
of the differences is the penalty for gamma, the variance that is left at the observations, whose sum is the trace of
K_ff - Q_ff. A penalty that is the same at all draws changes nothing; weights exp(penalty) would remove the penalty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# In nats. To first order, no hyper-parameter's mean moves by more than this part of its standard deviation. Draws avoid
# regions with a large penalty and so may hide more of it, which is why this limit is small.
NEGLIGIBLE = 0.05
# Inducing inputs save nothing if more than this part of the points is needed; exact chains can run for so many points.
SAVING = 0.5
FEW_POINTS = 2000


class Diagnosis(NamedTuple):
    """The effect on the target of the variance that the inducing inputs leave.

    Attributes
    ----------
    unexplained : float
        The part of the prior variance at the observations that the inducing inputs leave, averaged over draws.
    penalty, penalty_deviation : float
        The penalty in nats: its mean and standard deviation over draws.
    shifts : dict
        The change of each hyper-parameter's mean if the penalty were removed, in posterior standard deviations. It is
        computed to first order, and so is a lower bound. For a vector, the change of the element that changes most.
    inducing : int
        The number of inducing inputs, M.
    enough : int or None
        The number of inducing inputs, each with the largest variance given those before it, that brings the deviation
        of the penalty down to 0.05 nats; None if four times the present number does not.
    points : int
        The number of inputs of the observations.
    one_output : bool
        Whether the process has one output, so that it makes the exact model by itself.
    """

    unexplained: float
    penalty: float
    penalty_deviation: float
    shifts: dict[str, float]
    inducing: int
    enough: int | None
    points: int
    one_output: bool = True

    @property
    def good(self) -> bool:
        """Whether the penalty hardly distinguishes between the draws."""
        return self.penalty_deviation <= NEGLIGIBLE

    @property
    def exact_instead(self) -> bool:
        """Whether the exact chain is better: the points are few, and a large part of them would be needed."""
        needed = 4 * self.inducing if self.enough is None else self.enough
        return not self.good and self.points <= FEW_POINTS and needed > SAVING * self.points

    @property
    def advised(self) -> int | None:
        """The number of inducing inputs to try next: 0 for the exact chain, None if no number can be given."""
        if self.exact_instead:
            return 0
        return None if self.good else self.enough

    def __str__(self) -> str:
        """Return an explanation of the figures, with advice."""
        said = (
            f"{self.inducing} inducing inputs leave {100.0 * self.unexplained:.2g} % of the prior variance "
            f"unexplained. This lowers the target by {self.penalty:.2g} nats, with a standard deviation of "
            f"{self.penalty_deviation:.2g} over the draws"
        )
        if self.good:
            return f"{said}, which is negligible."
        worst = max(self.shifts, key=lambda name: abs(self.shifts[name]), default=None)
        moved = (
            ""
            if worst is None
            else f": without it the mean of {worst} would move by {self.shifts[worst]:+.2g} standard deviations or more"
        )
        return f"{said}{moved}. {self._advice()}"

    def _advice(self) -> str:
        needed = f"more than {4 * self.inducing}" if self.enough is None else f"about {self.enough}"
        if self.exact_instead:
            model = "gp.exact_model()" if self.one_output else "a model with pm.gp.Latent"
            return (
                f"With {needed} inducing inputs for {self.points} points, nothing would be saved: use the exact chain, "
                f"pmgp.PseudoMarginal on {model}."
            )
        placed = self.enough is not None and self.enough <= self.inducing
        better = ", better placed, for example by pmgp.gp.select_inducing," if placed else ","
        return (
            f"Use {needed} inducing inputs{better} and check again: with few of them the penalty may be underestimated."
        )


def diagnosis_of(
    unexplained: np.ndarray,
    penalties: np.ndarray,
    hyperparameters: dict[str, np.ndarray],
    trace: float,
    traces: np.ndarray,
    inducing: int,
    points: int,
    one_output: bool = True,
) -> Diagnosis:
    """Return the diagnosis computed from draws.

    The unexplained part of the variance, the penalties and the hyper-parameters have a row for each draw. `trace` is
    the variance that the present inducing inputs leave, and `traces` (m,) what others leave that are chosen one after
    another: the first, the first two, and so on.
    """
    deviation = float(penalties.std())
    return Diagnosis(
        float(unexplained.mean()),
        float(penalties.mean()),
        deviation,
        {name: _shift(values.reshape(len(penalties), -1), penalties) for name, values in hyperparameters.items()},
        inducing,
        _enough(trace, traces, inducing, deviation),
        points,
        one_output,
    )


def _shift(values: np.ndarray, penalties: np.ndarray) -> float:
    """Return the covariance with the penalty over the standard deviation, for the element where it is largest."""
    deviations = values.std(axis=0)
    covariances = (penalties - penalties.mean()) @ (values - values.mean(axis=0)) / len(penalties)
    shifts = covariances / np.where(deviations > 0.0, deviations, 1.0)
    return float(shifts[np.argmax(np.abs(shifts))])


def _enough(trace: float, traces: np.ndarray, inducing: int, deviation: float) -> int | None:
    """Return the number of inducing inputs that reduces the trace by the factor needed for the penalty's deviation."""
    if deviation <= NEGLIGIBLE:
        return inducing
    small = np.flatnonzero(traces <= trace * NEGLIGIBLE / deviation)
    return int(small[0]) + 1 if len(small) else None
