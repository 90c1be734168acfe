"""P = cosines and sines of random frequencies + D (Rahimi and Recht 2008; Cutajar et al. 2016, section 3.2.1)."""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners import Diagonal, LowRank

__all__ = ["spectral"]


def spectral(X: np.ndarray, variance: float, frequencies: np.ndarray, noise: np.ndarray) -> LowRank:
    """Return the preconditioner of random features of a stationary kernel.

    - `X` (n, d): inputs
    - `variance`: k(x, x)
    - `frequencies` (d, m): draws from the kernel's spectral distribution, in radians per unit of the input. For a
      squared exponential kernel they are normal with standard deviation 1 / lengthscale. The factor has 2 m columns
    - `noise` (n,): positive numbers that are added to the diagonal of K
    """
    phases = X @ frequencies
    scale = np.sqrt(variance / frequencies.shape[1])
    return LowRank(scale * np.hstack([np.cos(phases), np.sin(phases)]), Diagonal(noise))
