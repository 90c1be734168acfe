"""The multiple-trial independence sampler (Liu 2001, section 5.4.2).

Of several independent draws x_1, ..., x_k of a density g one is picked in proportion to w = s / g and accepted with
probability min(1, W / (W - w(x) + w(x_0))), W the sum of the k ratios, x the one picked and x_0 where the chain stands.
That leaves s invariant, and is reversible.
"""

from __future__ import annotations

import numpy as np

__all__ = ["multiple_trial"]


def multiple_trial(rng: np.random.Generator, log_ratios: np.ndarray) -> int:
    """Choose where to go: an index of `log_ratios`, 0 for staying.

    Parameters
    ----------
    rng : numpy.random.Generator
    log_ratios : (k + 1,) array
        Log of s over g where the chain stands, and at each of the draws.
    """
    ratios = np.exp(log_ratios - log_ratios.max())
    sums = np.cumsum(ratios[1:])
    pick, accept = rng.random(2)
    chosen = 1 + min(int(np.searchsorted(sums, pick * sums[-1], side="right")), len(sums) - 1)
    return chosen if accept * (sums[-1] - ratios[chosen] + ratios[0]) < sums[-1] else 0
