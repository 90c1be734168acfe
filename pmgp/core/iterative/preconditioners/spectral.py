"""P = cosines and sines of random frequencies + D (Rahimi and Recht 2008; Cutajar et al. 2016, section 3.2.1)."""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.low_rank import Diagonal, LowRank


def spectral(X: np.ndarray, variance: float, frequencies: np.ndarray, noise: np.ndarray) -> LowRank:
    """Precondition by random Fourier features of a stationary kernel.

    Parameters
    ----------
    X : (n, d) array
        Inputs.
    variance : float
        k(x, x).
    frequencies : (d, m) array
        Draws from the kernel's spectral distribution, in radians for a unit of the input: for a squared exponential
        kernel normal with deviations 1 / lengthscale. The factor has 2 m columns.
    noise : (n,) array
        Added to the diagonal of K, positive.
    """
    phases = X @ frequencies
    scale = np.sqrt(variance / frequencies.shape[1])
    return LowRank(scale * np.hstack([np.cos(phases), np.sin(phases)]), Diagonal(noise))
