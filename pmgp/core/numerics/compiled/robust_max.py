"""Probabilities that one of several latent values is the largest, and their slopes.

For most observations the labeled value is far above or below another one, and the probability is one or zero. Only the
others need a quadrature, so an evaluation costs little more than a comparison for each latent value.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import COUNTS, NOTHING, NUMBER, ROWS, VECTOR, WRITTEN_ROWS, kernel
from pmgp.core.numerics.compiled.routines import ndtr

# Beyond this number of standard deviations the sign of a difference is certain, up to 1e-9.
REACH = 6.0
DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


@kernel(NUMBER, COUNTS, ROWS, ROWS, ROWS, VECTOR, VECTOR)
def right(
    labels: np.ndarray, f: np.ndarray, deviation: np.ndarray, spread: np.ndarray, nodes: np.ndarray, weights: np.ndarray
) -> float:
    """Return the sum of the probabilities that the labeled latent values are the largest.

    labels (n,) of int; f, deviation (k, n): means and standard deviations of latent values that are independent; spread
    (k, n): standard deviations of the differences from the labeled value; nodes, weights (q,): nodes and weights of the
    quadrature over the labeled value.
    """
    total = 0.0
    for i in range(len(labels)):
        label, own = labels[i], f[labels[i], i]
        near, nearest, never = 0, 0, False
        for k in range(len(f)):
            if k != label:
                never |= own - f[k, i] < -REACH * spread[k, i]
                if own - f[k, i] < REACH * spread[k, i]:
                    near, nearest = near + 1, k
        if never:
            continue
        if near == 0:
            total += 1.0
        elif near == 1 and deviation[label, i] <= deviation[nearest, i]:
            # The quadrature's value to 2e-11, without a node.
            total += ndtr((own - f[nearest, i]) / spread[nearest, i])
        else:
            for j in range(len(nodes)):
                value, product = own + deviation[label, i] * nodes[j], weights[j]
                for k in range(len(f)):
                    if k != label and own - f[k, i] < REACH * spread[k, i]:
                        product *= ndtr((value - f[k, i]) / deviation[k, i])
                total += product
    return total


@kernel(NOTHING, COUNTS, ROWS, ROWS, ROWS, VECTOR, VECTOR, WRITTEN_ROWS)
def slopes(
    labels: np.ndarray,
    f: np.ndarray,
    deviation: np.ndarray,
    spread: np.ndarray,
    nodes: np.ndarray,
    weights: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the derivatives of that sum in the means.

    labels, f, deviation, spread, nodes, weights: as for `right`; out (k, n).
    """
    for i in range(len(labels)):
        label, own = labels[i], f[labels[i], i]
        for k in range(len(f)):
            out[k, i] = 0.0
        for other in range(len(f)):
            if other == label or abs(own - f[other, i]) > REACH * spread[other, i]:
                continue
            total = 0.0
            for j in range(len(nodes)):
                value = own + deviation[label, i] * nodes[j]
                z = (value - f[other, i]) / deviation[other, i]
                product = weights[j] * DENSITY * math.exp(-0.5 * z * z) / deviation[other, i]
                for k in range(len(f)):
                    if k not in (label, other) and own - f[k, i] < REACH * spread[k, i]:
                        product *= ndtr((value - f[k, i]) / deviation[k, i])
                total += product
            out[other, i] -= total
            out[label, i] += total
