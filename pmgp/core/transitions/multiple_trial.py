"""The multiple-trial independence sampler (Liu 2001, section 5.4.2).

From independent draws x_1, ..., x_k of a density g, one draw x is picked in proportion to w = s / g. It is accepted
with probability min(1, W / (W - w(x) + w(x_0))), where W is the sum of the k ratios and x_0 the current position. The
move is reversible for s.
"""

from __future__ import annotations

import numpy as np

__all__ = ["multiple_trial"]


def multiple_trial(rng: np.random.Generator, log_ratios: np.ndarray) -> int:
    """Choose the next position: an index of `log_ratios`, where 0 is the current position.

    Parameters
    ----------
    rng : numpy.random.Generator
    log_ratios : (k + 1,) array
        Log of s over g at the current position, and at each of the draws.
    """
    ratios = np.exp(log_ratios - log_ratios.max())
    sums = np.cumsum(ratios[1:])
    pick, accept = rng.random(2)
    chosen = 1 + min(int(np.searchsorted(sums, pick * sums[-1], side="right")), len(sums) - 1)
    return chosen if accept * (sums[-1] - ratios[chosen] + ratios[0]) < sums[-1] else 0
