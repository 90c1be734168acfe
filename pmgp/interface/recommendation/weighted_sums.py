"""Recognize models whose covariances are weighted sums of fixed matrices, which NUTS samples without factorizations.

With C_s = L_s L_s' factorized once and nu_s standard normal, f = sum_s sqrt(w_s) L_s nu_s has the covariance
sum_s w_s C_s. Whitened in this way, a model with several sources, many weights and few observations is easy for NUTS.
"""

from __future__ import annotations

import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.scalar import Add, Identity, Mul, Sub, TrueDiv
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.latent_variable import find_latents
from pmgp.interface.model.linear_nodes import values_read

ADDITIVE_NUTS = (
    "NUTS, PyMC's or nutpie's, on an additively whitened model, much faster with few observations: here covariances "
    "are sums of fixed matrices C_s times weights w_s. Factor them once, C_s = L_s L_s'; put all L_s side by side, "
    "L = np.hstack([...]), and let source be the s of each column. For each latent vector write nu = pm.Normal(...), "
    "with as many elements as L has columns, and f = L @ (pm.math.sqrt(w)[source] * nu). Nothing is factored while a "
    "chain runs"
)


def number_of_weights(model: pm.Model) -> int:
    """Return the number of elements of theta on which the covariances depend, if all are weights of fixed matrices.

    It is 0 if a covariance depends on theta in another way, through a length-scale for example, or not at all.
    """
    covariances = [rv.owner.inputs[-1] for rv in find_latents(model)]
    free = set(model.free_RVs)
    if not all(_weighted(covariance, free) for covariance in covariances):
        return 0
    point = model.initial_point()
    names = [model.rvs_to_values[rv].name for rv in free & values_read(covariances)]
    return sum(point[name].size for name in names)


def _weighted(matrix: Variable, free: set[TensorVariable]) -> bool:
    """Return whether the graph shows that a matrix is a weighted sum of fixed matrices."""
    if _scalar(matrix) or not free & values_read([matrix]):
        return True
    if matrix.owner is None:
        return False
    inputs = matrix.owner.inputs
    match matrix.owner.op:
        case Elemwise(scalar_op=Add() | Sub() | Identity()):
            return all(_weighted(term, free) for term in inputs)
        case Elemwise(scalar_op=Mul()):
            return _linear(inputs, free)
        case Elemwise(scalar_op=TrueDiv()):
            return _weighted(inputs[0], free) and (_scalar(inputs[1]) or not free & values_read(inputs[1:]))
        case Alloc() | DimShuffle():
            return _weighted(inputs[0], free)
    return False


def _linear(factors: list[Variable], free: set[TensorVariable]) -> bool:
    """Return whether at most one factor is an unknown matrix, and that one is a weighted sum."""
    unknown = [factor for factor in factors if not _scalar(factor) and free & values_read([factor])]
    return not unknown or (len(unknown) == 1 and _weighted(unknown[0], free))


def _scalar(variable: Variable) -> bool:
    return all(variable.type.broadcastable)
