"""Precisions of autoregressions and random walks with one value at each time.

x_t = sum_k rho_k x_{t-k} + sigma e_t after the first p values, which have a normal distribution. The sum of the squared
innovations gives a precision with a band of width p, which is a chain of blocks of p values.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dtbtrs


def autoregression(
    coefficients: np.ndarray, innovation_variance: float, initial: np.ndarray, length: int
) -> np.ndarray:
    """Return the precision of an autoregression of order p, in blocks of p: (2, ceil(length / p), p, p).

    The last block is filled up with independent standard normal values.

    `coefficients` (p,): rho, the coefficient of the previous value first; `innovation_variance`: sigma^2; `initial` (p,
    p): precision of the first p values; `length`: number of values.
    """
    order = len(coefficients)
    residual = np.concatenate([[1.0], -np.asarray(coefficients)])
    blocks = -(-length // order)
    bands = np.zeros((order + 1, (blocks + 1) * order))
    for lag in range(order + 1):
        # Element (t, t - lag) has terms from the innovations at t + k, for k = 0 to p - lag, if they exist.
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
    """Return the means of an autoregression of order p, m_t = drift + sum_k rho_k m_{t-k}: (length,).

    `coefficients` (p,): rho, the coefficient of the previous value first; `initial` (p,): means of the first p values.
    """
    order = len(coefficients)
    bands = np.zeros((order + 1, length))
    for lag, coefficient in enumerate(coefficients[: length - 1], 1):
        bands[lag, max(order - lag, 0) : length - lag] = -coefficient
    right = np.full((length, 1), float(drift))
    right[:order, 0] = initial[:length]
    means, _ = dtbtrs(bands, right, uplo="L", diag="U")
    return means[:, 0]
