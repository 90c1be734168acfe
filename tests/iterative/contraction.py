"""Bars of K and of the noise contracted with derivatives that are there as matrices."""

from __future__ import annotations

import numpy as np

__all__ = ["contracted"]


def contracted(bar, dK, dnoise):
    by_pairs = np.einsum("ik,ij,jk->", bar.left, dK, bar.right)
    return by_pairs + np.sum(bar.weights * dK[:, bar.points]) + bar.noise @ dnoise
