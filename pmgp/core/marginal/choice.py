"""The choice of an estimator and its number of draws from measured spread and counted work, at the end of tuning.

Each estimator gets the number of draws that `calibration` finds for it. If another estimator finds particles from the
posterior, importance sampling is measured with these, because its own weights may not show the particles in stored
estimates. The price of an effective draw is the work of an iteration times the number of iterations for an effective
draw (`calibration.inefficiency`). Work is a count of operations, not a time, so the choice depends only on a chain's
seed, and repeated and resumed runs make the same choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import NamedTuple, cast

import numpy as np

from pmgp.core.adaptation.mode_prediction import Predictor
from pmgp.core.estimators.base import Calibrated, Estimator, Priced, Repeated, SharesDraws, Size
from pmgp.core.estimators.work import (
    SCREEN_BLOCK_MOMENTS,
    SCREEN_BLOCK_SWEEP,
    SCREEN_ELEMENT,
    SCREEN_FACTOR,
    SCREEN_SWEEP,
)
from pmgp.core.likelihoods.base import Divisible
from pmgp.core.marginal.calibration import CANDIDATES, TARGET_SPREAD, Price, choose_draws, inefficiency, measured_beside
from pmgp.core.marginal.evaluation import Evaluator, Fitted
from pmgp.core.marginal.pseudo_marginal import PseudoMarginalChain

# Share of iterations in which theta moves on the screen, so an estimate is made.
PASSING = 0.5
# If this number of importance samples or fewer reach the target, their pool shows the spread well, and there is no
# reason to try estimates that resample.
FEW_DRAWS = 64


class Choice(NamedTuple):
    """An estimator and its number of draws, chosen by tuning.

    `estimator`: None if there was nothing to choose; `spread`: see
    :func:`~pmgp.core.marginal.calibration.choose_draws`.
    """

    estimator: Estimator | None
    draws: int | None
    spread: float


def choose_estimator(
    rng: np.random.Generator,
    scheme: PseudoMarginalChain,
    others: Sequence[Priced],
    thetas: list[np.ndarray],
    evaluate: Evaluator,
    predictor: Predictor | None,
) -> Choice:
    """Return the best estimator, of the scheme's own and others, with its number of draws.

    - `rng`: it serves only the scheme's own estimator. Others are measured with separate random numbers, so a chain
      that keeps its estimator continues as if there had been no others
    - `scheme`: its estimator must be `Priced` if there are others. Otherwise it makes the smallest number of draws that
      suffices
    - `thetas` list of (dimension,) arrays: posterior points, from the second half of tuning. Without any, nothing can
      be measured, and the scheme keeps its own estimator
    """
    separate = np.random.default_rng(deepcopy(rng).integers(2**63, size=4))
    screened = evaluate(thetas[-1], predictor) if thetas else None
    costs = _Costs(scheme, screened) if isinstance(screened, Fitted) else None
    price = None if costs is None else costs.of_draws(scheme.estimator)
    own = Choice(None, *choose_draws(rng, scheme.estimator, thetas, evaluate, predictor, price))
    if costs is None or not others:
        return own
    best, lowest = own, costs.price(cast(Priced, scheme.estimator), own)
    for estimator in others:
        # A lower bound of the price: the smallest number of draws and no spread.
        least = costs.price(estimator, Choice(estimator, CANDIDATES[0], 0.0))
        if least >= lowest or (isinstance(estimator, Repeated) and _sufficient(own)):
            continue
        if isinstance(estimator, Repeated) and isinstance(scheme.estimator, Calibrated) and own.draws is not None:
            against = scheme.estimator, own.draws
            measured, spread = measured_beside(separate, against, estimator, thetas, evaluate, predictor)
            found = Choice(estimator, *measured)
            if best is own:
                corrected = own._replace(spread=max(spread, own.spread))
                lowest = costs.price(cast(Priced, scheme.estimator), corrected)
        else:
            price = costs.of_draws(estimator)
            found = Choice(estimator, *choose_draws(separate, estimator, thetas, evaluate, predictor, price))
        new_price = costs.price(estimator, found)
        best, lowest = (found, new_price) if new_price < lowest else (best, lowest)
    return best


def _sufficient(own: Choice) -> bool:
    """Return whether few importance samples would suffice, however many have been chosen."""
    return own.draws is not None and own.spread * np.sqrt(own.draws / FEW_DRAWS) <= TARGET_SPREAD


class _Costs:
    """The cost of an iteration with one estimator or another."""

    def __init__(self, scheme: PseudoMarginalChain, screened: Fitted) -> None:
        self.scheme = scheme
        q = screened.approximation
        vectors = q.prior.vectors
        n = q.size // vectors
        self.size = Size(q.size, vectors, isinstance(screened.likelihood, Divisible))
        sweep = SCREEN_SWEEP * n**3
        if vectors > 1:
            sweep = SCREEN_BLOCK_SWEEP * vectors * n**3 + SCREEN_BLOCK_MOMENTS * vectors**2 * n
        prior = SCREEN_FACTOR * PASSING * n**3 + SCREEN_ELEMENT * n**2
        self.screen = q.iterations * sweep + prior

    def price(self, estimator: Priced, choice: Choice) -> float:
        """Return the price of an effective draw."""
        assert choice.draws is not None
        return self._price(estimator, choice.draws, choice.spread)

    def of_draws(self, estimator: Estimator) -> Price | None:
        """Return the price as a function of draws and spread, or None unless both can be known for each number."""
        if isinstance(estimator, Calibrated) and isinstance(estimator, Priced):
            return partial(self._price, estimator)
        return None

    def _price(self, estimator: Priced, draws: int, spread: float) -> float:
        every = self.scheme.refreshed_every(isinstance(estimator, SharesDraws))
        estimates = PASSING + (1.0 / every if every else 0.0)
        return (self.screen + estimates * estimator.work(self.size, draws)) * inefficiency(spread)
