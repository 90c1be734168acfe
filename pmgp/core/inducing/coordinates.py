"""Slices of whitened values, one coordinate after another, for log-densities with cliffs.

An ellipse in all dimensions leaves the slice soon where the likelihood falls by steps; one in a single coordinate goes
as far as that coordinate may. The prior N(0, I) is the same in every rotation. In that which makes A A' diagonal,
coordinates move the latent values together or hardly at all; as they are, each is of what an inducing input says beyond
those before it. Both are taken, at random.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from pmgp.core.inducing.conditional import WhitenedConditional
from pmgp.core.transitions.elliptical_slice import slice_on_ellipse

__all__ = ["coordinate_slices"]

# How often coordinates are rotated.
ROTATED = 0.5


def coordinate_slices(
    rng: np.random.Generator, conditional: WhitenedConditional, v: np.ndarray, power: float
) -> tuple[np.ndarray, int]:
    """Move each coordinate of v once, in random order.

    Parameters
    ----------
    rng : numpy.random.Generator
    conditional : WhitenedConditional
    v : (k, m) array
    power : float
        Of the likelihood.

    Returns
    -------
    v : (k, m) array
    evaluations : int
        Of the likelihood.
    """
    rotations = [np.eye(v.shape[1])] * len(conditional.projections)
    if rng.random() < ROTATED:
        rotations = [eigh(A @ A.T)[1] for A in conditional.projections]
    images = [E.T @ A for E, A in zip(rotations, conditional.projections, strict=True)]
    each = rotations * (len(v) if len(rotations) == 1 else 1)
    coordinates = np.array([row @ E for row, E in zip(v, each, strict=True)])
    order, normals = rng.permutation(v.size), rng.standard_normal(v.size)
    sweep = conditional.sweep or _Sweep(conditional)
    made = sweep(rng, power, np.concatenate(images), order, normals, coordinates, conditional.latent(v))
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
