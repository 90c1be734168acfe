"""Probabilities that one of several latent values is the largest, and slices along coordinates on which these depend.

Most observations are far from where another class would be the largest, and have a probability of zero or one. Only
the others take a quadrature, so that an evaluation costs a comparison for each latent value, and some more.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    COUNT,
    COUNTS,
    NOTHING,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    inlined,
    kernel,
)
from pmgp.core.numerics.compiled.routines import ndtr, uniform
from pmgp.core.numerics.compiled.slices import SMALLEST_BRACKET

__all__ = ["right", "slopes", "sweep"]

# Deviations of a difference beyond which its sign is sure, to 1e-9.
REACH = 6.0
DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


@inlined
def _right(
    labels: np.ndarray,
    f: np.ndarray,
    deviation: np.ndarray,
    spread: np.ndarray,
    nodes: np.ndarray,
    weights: np.ndarray,
) -> float:
    """The sum of the probabilities of the labels."""
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
            # What the quadrature gives to 2e-11, by no node.
            total += ndtr((own - f[nearest, i]) / spread[nearest, i])
        else:
            for j in range(len(nodes)):
                value, product = own + deviation[label, i] * nodes[j], weights[j]
                for k in range(len(f)):
                    if k != label and own - f[k, i] < REACH * spread[k, i]:
                        product *= ndtr((value - f[k, i]) / deviation[k, i])
                total += product
    return total


@kernel(NUMBER, COUNTS, ROWS, ROWS, ROWS, VECTOR, VECTOR)
def right(
    labels: np.ndarray,
    f: np.ndarray,
    deviation: np.ndarray,
    spread: np.ndarray,
    nodes: np.ndarray,
    weights: np.ndarray,
) -> float:
    """The sum of the probabilities that the labeled latent values are the largest.

    Parameters
    ----------
    labels : (n,) array of int
    f, deviation : (k, n) array
        Means and standard deviations of latent values that are independent.
    spread : (k, n) array
        Standard deviations of the differences from the labeled value.
    nodes, weights : (q,) array
        Of the quadrature over the labeled value.
    """
    return _right(labels, f, deviation, spread, nodes, weights)


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

    Parameters
    ----------
    labels, f, deviation, spread, nodes, weights
        As of `right`.
    out : (k, n) array
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


@kernel(COUNT, COUNTS, ROWS, ROWS, VECTOR, VECTOR, NUMBER, ROWS, COUNTS, VECTOR, COUNT, COUNT, *[WRITTEN_ROWS] * 3)
def sweep(
    labels: np.ndarray,
    deviation: np.ndarray,
    spread: np.ndarray,
    nodes: np.ndarray,
    weights: np.ndarray,
    gain: float,
    images: np.ndarray,
    order: np.ndarray,
    normals: np.ndarray,
    next_double: int,
    state: int,
    v: np.ndarray,
    f: np.ndarray,
    moved: np.ndarray,
) -> int:
    """Slices on ellipses of one coordinate after another; how often the probabilities were summed.

    Parameters
    ----------
    labels, deviation, spread, nodes, weights
        As of `right`.
    gain : float
        What the log-density gains with the sum.
    images : (m, n) or (k m, n) array
        By how much each coordinate, of all outputs or of each, changes the latent values.
    order : (k m,) array of int
        Of the coordinates, those of the first output first.
    normals : (k m,) array
        The other end of each ellipse.
    next_double, state : int
        Addresses of the generator's function for uniform numbers and of its state.
    v : (k, m) array
        The coordinates, which change.
    f : (k, n) array
        The latent values, which change with them.
    moved : (k, n) array
        For the kernel's own use.
    """
    m, evaluations = v.shape[1], 1
    current = _right(labels, f, deviation, spread, nodes, weights)
    for k in range(len(f)):
        for i in range(len(labels)):
            moved[k, i] = f[k, i]
    for place in range(len(order)):
        output, column = order[place] // m, order[place] % m
        image = images[order[place] % len(images)]
        old, other = v[output, column], normals[place]
        threshold = gain * current + math.log(1.0 - uniform(next_double, state))
        angle = 2.0 * math.pi * uniform(next_double, state)
        lower, upper, change = angle - 2.0 * math.pi, angle, 0.0
        while upper - lower >= SMALLEST_BRACKET:
            change = old * (math.cos(angle) - 1.0) + other * math.sin(angle)
            for i in range(len(image)):
                moved[output, i] = f[output, i] + change * image[i]
            found = _right(labels, moved, deviation, spread, nodes, weights)
            evaluations += 1
            if gain * found > threshold:
                current = found
                break
            # The bracket shrinks towards angle zero, the current point, which is always on the slice.
            change = 0.0
            if angle < 0.0:
                lower = angle
            else:
                upper = angle
            angle = lower + (upper - lower) * uniform(next_double, state)
        v[output, column] = old + change
        for i in range(len(image)):
            f[output, i] += change * image[i]
            moved[output, i] = f[output, i]
    return evaluations
