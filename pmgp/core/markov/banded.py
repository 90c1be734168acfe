"""Precisions of autoregressions and random walks, a value for each time.

x_t = sum_k rho_k x_{t-k} + sigma e_t from the p-th value on, with a normal distribution of the first p. The sum of the
squared innovations gives a precision whose band is p wide, which is a chain of blocks of p values.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dtbtrs


def autoregression(
    coefficients: np.ndarray, innovation_variance: float, initial: np.ndarray, length: int
) -> np.ndarray:
    """Precision of an autoregression of order p, in blocks of p: (2, ceil(length / p), p, p).

    Values that fill the last block are independent and standard normal.

    Parameters
    ----------
    coefficients : (p,) array
        rho, that of the value before first.
    innovation_variance : float
        sigma^2.
    initial : (p, p) array
        Precision of the first p values.
    length : int
        Number of values.
    """
    order = len(coefficients)
    residual = np.concatenate([[1.0], -np.asarray(coefficients)])
    blocks = -(-length // order)
    bands = np.zeros((order + 1, (blocks + 1) * order))
    for lag in range(order + 1):
        # Element (t, t - lag): innovations at t + k for k = 0 to p - lag, as far as there are any.
        for k in range(order + 1 - lag):
            bands[lag, max(order - k, lag) : max(length - k, 0)] += (
                residual[k] * residual[k + lag] / innovation_variance
            )
    bands[0, length:] = 1.0
    values = np.zeros((2, blocks, order, order))
    for i in range(order):
        for j in range(order):
            lag = abs(i - j)
            values[0, :, i, j] = bands[lag, max(i, j) : blocks * order : order][:blocks]
            if order + i - j <= order:
                values[1, 1:, i, j] = bands[order + i - j, order + i : blocks * order : order][: blocks - 1]
    number = min(order, length)
    values[0, 0, :number, :number] += initial[:number, :number]
    return values


def expected_values(coefficients: np.ndarray, drift: float, initial: np.ndarray, length: int) -> np.ndarray:
    """Means of an autoregression of order p, m_t = drift + sum_k rho_k m_{t-k}: (length,).

    Parameters
    ----------
    coefficients : (p,) array
        rho, that of the value before first.
    drift : float
    initial : (p,) array
        Means of the first p values.
    length : int
    """
    order = len(coefficients)
    bands = np.zeros((order + 1, length))
    for lag, coefficient in enumerate(coefficients[: length - 1], 1):
        bands[lag, max(order - lag, 0) : length - lag] = -coefficient
    right = np.full((length, 1), float(drift))
    right[:order, 0] = initial[:length]
    means, _ = dtbtrs(bands, right, uplo="L", diag="U")
    return means[:, 0]
