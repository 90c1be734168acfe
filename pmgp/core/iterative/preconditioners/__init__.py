"""Approximations of K + diag(noise) as preconditioners: the noise alone, or with a part of low rank from some points.

A :class:`Kernel` gives them products, columns, blocks, and the diagonal of K. Random pivots choose the points.

May import: nothing else of the package.
"""

from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.low_rank import Diagonal, Identity, LowRank
from pmgp.core.iterative.preconditioners.nystrom import nystrom
from pmgp.core.iterative.preconditioners.random_pivots import random_pivots

__all__ = ["Diagonal", "Identity", "Kernel", "LowRank", "nystrom", "random_pivots"]
