"""Slices of whitened values, one coordinate after another, for log-densities with cliffs.

An ellipse in all dimensions leaves the slice soon where the likelihood falls by steps; one in a single coordinate goes
as far as that coordinate may. The prior N(0, I) is the same in every rotation. In that which makes A A' diagonal,
coordinates move the latent values together or hardly at all; as they are, each is what an inducing input says beyond
those before it. Both are taken, at random.

For robust-max a kernel makes the sweep, in which an evaluation costs a comparison for most observations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

from pmgp.core.inducing import WhitenedConditional
from pmgp.core.numerics.compiled.declaration import COUNT, COUNTS, NUMBER, ROWS, VECTOR, WRITTEN_ROWS, kernel
from pmgp.core.numerics.compiled.loading import uniform_numbers
from pmgp.core.numerics.compiled.robust_max import right
from pmgp.core.numerics.compiled.routines import uniform
from pmgp.core.numerics.compiled.slices import SMALLEST_BRACKET
from pmgp.core.transitions.elliptical_slice import slice_on_ellipse
from pmgp.interface.sparse.terms import RobustMaxTerms

__all__ = ["coordinate_slices", "swept"]

# How often coordinates are rotated.
ROTATED = 0.5


def coordinate_slices(
    rng: np.random.Generator,
    conditional: WhitenedConditional,
    v: np.ndarray,
    power: float,
    sweep: Callable[..., int] | None = None,
) -> tuple[np.ndarray, int]:
    """Move each coordinate of v once, in random order.

    Parameters
    ----------
    rng : numpy.random.Generator
    conditional : WhitenedConditional
    v : (k, m) array
    power : float
        Power of the likelihood.
    sweep : callable, optional
        The moves by a kernel, called as those of any likelihood.

    Returns
    -------
    v : (k, m) array
    evaluations : int
        Number of evaluations of the likelihood.
    """
    rotations = [np.eye(v.shape[1])] * len(conditional.projections)
    if rng.random() < ROTATED:
        rotations = [eigh(A @ A.T)[1] for A in conditional.projections]
    images = [E.T @ A for E, A in zip(rotations, conditional.projections, strict=True)]
    each = rotations * (len(v) if len(rotations) == 1 else 1)
    coordinates = np.array([row @ E for row, E in zip(v, each, strict=True)])
    order, normals = rng.permutation(v.size), rng.standard_normal(v.size)
    made = (sweep or _Sweep(conditional))(
        rng, power, np.concatenate(images), order, normals, coordinates, conditional.latent(v)
    )
    return np.array([E @ row for row, E in zip(coordinates, each, strict=True)]), made


class _Sweep:
    """Any likelihood's sweep; kernels are called alike."""

    def __init__(self, conditional: WhitenedConditional) -> None:
        self._value = conditional.value

    def __call__(
        self,
        rng: np.random.Generator,
        power: float,
        images: np.ndarray,
        order: np.ndarray,
        normals: np.ndarray,
        v: np.ndarray,
        latent: np.ndarray,
    ) -> int:
        """Change v and the latent values, and return the number of evaluations."""
        evaluations = 1
        current = power * self._value(latent)
        for place, other in zip(order, normals, strict=True):
            output, column = divmod(int(place), v.shape[1])
            image, old, row = images[place % len(images)], v[output, column], latent[output].copy()

            def log_ratio(
                point: np.ndarray,
                output: int = output,
                image: np.ndarray = image,
                old: float = old,
                row: np.ndarray = row,
            ) -> float:
                latent[output] = row + (point[0] - old) * image
                return power * self._value(latent)

            start, end = np.array([old]), np.array([other])
            point, current, made = slice_on_ellipse(rng, start, end, log_ratio, current)
            v[output, column] = point[0]
            latent[output] = row + (point[0] - old) * image
            evaluations += made
        return evaluations


def swept(
    terms: RobustMaxTerms,
    variance: np.ndarray,
    rng: np.random.Generator,
    power: float,
    images: np.ndarray,
    order: np.ndarray,
    normals: np.ndarray,
    v: np.ndarray,
    latent: np.ndarray,
) -> int:
    """The sweep of robust-max's terms by a kernel, given the variances that the inducing inputs leave."""
    labels, _, deviation, spread, *rule = terms.arguments(latent, variance)
    given = np.ascontiguousarray(images), order, normals, *uniform_numbers(rng)
    gain = power * terms.gain
    return _sweep.compiled(labels, deviation, spread, *rule, gain, *given, v, latent, np.empty(latent.shape))


@kernel(COUNT, COUNTS, ROWS, ROWS, VECTOR, VECTOR, NUMBER, ROWS, COUNTS, VECTOR, COUNT, COUNT, *[WRITTEN_ROWS] * 3)
def _sweep(
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
        As of `pmgp.core.numerics.compiled.robust_max.right`.
    gain : float
        What the log-density gains with the sum.
    images : (m, n) or (k m, n) array
        By how much each coordinate, of all outputs or of each, changes the latent values.
    order : (k m,) array of int
        Order of the coordinates, those of the first output first.
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
    current = right(labels, f, deviation, spread, nodes, weights)
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
            found = right(labels, moved, deviation, spread, nodes, weights)
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
