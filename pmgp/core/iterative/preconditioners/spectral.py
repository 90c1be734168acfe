"""P = cosines and sines of random frequencies + D (Rahimi and Recht 2008; Cutajar et al. 2016, section 3.2.1)."""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.low_rank import Diagonal, LowRank


def spectral(X: np.ndarray, variance: float, frequencies: np.ndarray, noise: np.ndarray) -> LowRank:
    """Return the preconditioner of a stationary kernel's random Fourier features.

    Parameters
    ----------
    X : (n, d) array
        Inputs.
    variance : float
        k(x, x).
    frequencies : (d, m) array
        Draws from the kernel's spectral distribution, in radians per unit of the input. For a squared exponential
        kernel they are normal with standard deviation 1 / lengthscale. The factor has 2 m columns.
    noise : (n,) array
        Positive numbers that are added to the diagonal of K.
    """
    phases = X @ frequencies
    scale = np.sqrt(variance / frequencies.shape[1])
    return LowRank(scale * np.hstack([np.cos(phases), np.sin(phases)]), Diagonal(noise))
