"""Which of several estimators, and how many draws: from measured spread and counted work, at the end of tuning.

Each is given the draws that `calibration` finds for it. Where another one finds particles from the posterior,
importance sampling is measured with these, as its own weights may not show what a stored estimate holds. The price of
an effective draw is the work of an iteration times how many it takes (`calibration.inefficiency`). Work is a count of
operations, and not a time: what a chain chooses depends on its seed alone, so that a run that is repeated, or resumed,
chooses alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import NamedTuple, cast

import numpy as np

from pmgp.core.adaptation.mode_prediction import Predictor
from pmgp.core.estimators.base import Calibrated, Estimator, Priced, Repeated, SharesDraws, Size
from pmgp.core.likelihoods.blocks import Divisible
from pmgp.core.marginal.calibration import (
    CANDIDATES,
    TARGET_SPREAD,
    Price,
    choose_draws,
    inefficiency,
    measured_beside,
)
from pmgp.core.marginal.evaluation import Evaluator, Fitted
from pmgp.core.marginal.pseudo_marginal import PseudoMarginalChain

__all__ = ["Choice", "choose_estimator"]

# In how many iterations the screen leads somewhere, so that an estimate is made there.
PASSING = 0.5
# Of an iteration on the screen, in operations: a sweep of the approximation and the factorization of K in n^3, the
# elements of K in n^2.
WORK_OF_SWEEP, WORK_OF_FACTOR, WORK_OF_ELEMENT = 2.0 / 3.0, 1.0 / 3.0, 150.0
# With so few importance samples as suffice for the target, their pool shows how they spread, and there is no reason to
# look for estimates that resample.
FEW_DRAWS = 64
# With several latent vectors, a sweep has three n^3 for each of these, of n sites, and the moments at each site, in the
# square of the vectors' number.
WORK_OF_BLOCK_SWEEP, WORK_OF_BLOCK_MOMENTS = 3.0, 1e5


class Choice(NamedTuple):
    """An estimator and its number of draws, as tuning has chosen them.

    Attributes
    ----------
    estimator : Estimator or None
        None where there was nothing to choose.
    draws : int or None
    spread : float
        As of :func:`~pmgp.core.marginal.calibration.choose_draws`.
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
    """Weigh the scheme's own estimator against others, and choose the number of draws.

    Parameters
    ----------
    rng : numpy.random.Generator
        For the scheme's own estimator alone. Others are measured with numbers of their own, so that a chain that keeps
        its estimator goes on as if there had been no others.
    scheme : PseudoMarginalChain
        With an estimator that is `Priced`, where there are others. One that is not makes the fewest draws that suffice.
    others : sequence of Priced
    thetas : list of (dimension,) arrays
        Posterior points, from the second half of tuning. Without any there is nothing to measure, and the scheme's own
        estimator is kept.
    evaluate : Evaluator
    predictor : Predictor or None
    """
    apart = np.random.default_rng(deepcopy(rng).integers(2**63, size=4))
    screened = evaluate(thetas[-1], predictor) if thetas else None
    costs = _Costs(scheme, screened) if isinstance(screened, Fitted) else None
    price = None if costs is None else costs.of_draws(scheme.estimator)
    own = Choice(None, *choose_draws(rng, scheme.estimator, thetas, evaluate, predictor, price))
    if costs is None or not others:
        return own
    best, lowest = own, costs.price(cast(Priced, scheme.estimator), own)
    for estimator in others:
        # No draws have less work than the fewest, and no spread is smaller than none.
        least = costs.price(estimator, Choice(estimator, CANDIDATES[0], 0.0))
        if least >= lowest or (isinstance(estimator, Repeated) and _sufficient(own)):
            continue
        if isinstance(estimator, Repeated) and isinstance(scheme.estimator, Calibrated) and own.draws is not None:
            against = scheme.estimator, own.draws
            measured, spread = measured_beside(apart, against, estimator, thetas, evaluate, predictor)
            found = Choice(estimator, *measured)
            if best is own:
                corrected = own._replace(spread=max(spread, own.spread))
                lowest = costs.price(cast(Priced, scheme.estimator), corrected)
        else:
            price = costs.of_draws(estimator)
            found = Choice(estimator, *choose_draws(apart, estimator, thetas, evaluate, predictor, price))
        asked = costs.price(estimator, found)
        best, lowest = (found, asked) if asked < lowest else (best, lowest)
    return best


def _sufficient(own: Choice) -> bool:
    """Whether few importance samples would do, however many have been chosen."""
    return own.draws is not None and own.spread * np.sqrt(own.draws / FEW_DRAWS) <= TARGET_SPREAD


class _Costs:
    """The cost of an iteration with one estimator or another."""

    def __init__(self, scheme: PseudoMarginalChain, screened: Fitted) -> None:
        self.scheme = scheme
        q = screened.approximation
        vectors = q.prior.vectors
        n = q.size // vectors
        self.size = Size(q.size, vectors, isinstance(screened.likelihood, Divisible))
        sweep = WORK_OF_SWEEP * n**3
        if vectors > 1:
            sweep = WORK_OF_BLOCK_SWEEP * vectors * n**3 + WORK_OF_BLOCK_MOMENTS * vectors**2 * n
        prior = WORK_OF_FACTOR * PASSING * n**3 + WORK_OF_ELEMENT * n**2
        self.screen = q.iterations * sweep + prior

    def price(self, estimator: Priced, choice: Choice) -> float:
        """Return the price of an effective draw."""
        assert choice.draws is not None
        return self._price(estimator, choice.draws, choice.spread)

    def of_draws(self, estimator: Estimator) -> Price | None:
        """Prices of numbers of draws, where spreads are measured of each by weights and work is known."""
        if isinstance(estimator, Calibrated) and isinstance(estimator, Priced):
            return partial(self._price, estimator)
        return None

    def _price(self, estimator: Priced, draws: int, spread: float) -> float:
        every = self.scheme.refreshed_every(isinstance(estimator, SharesDraws))
        estimates = PASSING + (1.0 / every if every else 0.0)
        return (self.screen + estimates * estimator.work(self.size, draws)) * inefficiency(spread)
