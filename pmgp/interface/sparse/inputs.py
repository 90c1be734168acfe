"""Checks of inputs, inducing inputs and data; error messages name the rows that fail."""

from __future__ import annotations

from typing import Any

import numpy as np
from pymc.data import MinibatchOp
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors

from pmgp.core.likelihoods.checks import marked_rows
from pmgp.core.numerics.arrays import refuse_masked
from pmgp.interface.distributions.base import known_value


def current_value(array: Any) -> np.ndarray | None:
    """Return the current value of an array, a constant or a `pymc.Data`, or None for a graph of other variables."""
    if isinstance(array, SharedVariable):
        return np.asarray(array.get_value(borrow=True))
    if isinstance(array, Variable) and not isinstance(array, Constant):
        return None
    return known_value(array) if isinstance(array, Variable) else np.asarray(array)


def refuse_minibatches(what: str, array: Any) -> None:
    """Refuse rows that a `pymc.Minibatch` draws anew at each evaluation."""
    variables = ancestors([array]) if isinstance(array, Variable) else []
    if any(variable.owner is not None and isinstance(variable.owner.op, MinibatchOp) for variable in variables):
        raise ValueError(
            f"{what} is a pm.Minibatch, which MCMC cannot use: with new rows at each evaluation the log-density is "
            "random, and a chain that uses it has a different target, which depends on the batch size. Give all "
            "rows; an evaluation costs O(N M^2), so use fewer inducing inputs if it is too slow"
        )


def check_inputs(X: Any, Z: Any) -> np.ndarray:
    """Return the inducing inputs (m, d); refuse tables that are not finite or do not match, and rows that repeat."""
    refuse_minibatches("X", X)
    refuse_minibatches("Xu", Z)
    refuse_masked("X", X)
    refuse_masked("Xu", Z)
    inducing, inputs = current_value(Z), current_value(X)
    if inducing is None:
        raise ValueError("Xu must be numbers or a pm.Data: inducing inputs are chosen before sampling, not sampled")
    check_table("Xu", inducing)
    if inputs is not None:
        check_table("X", inputs)
        _check_together(inputs, inducing)
    _, first, count = np.unique(inducing, axis=0, return_index=True, return_counts=True)
    if len(first) < len(inducing):
        rows = np.flatnonzero((inducing == inducing[first[count > 1][0]]).all(axis=1))
        raise ValueError(
            f"Xu has {len(inducing) - len(first)} rows that repeat others, such as rows {', '.join(map(str, rows))}, "
            "and K_uu is singular: leave the duplicates out (np.unique(Xu, axis=0))"
        )

    return inducing


def check_columns(name: str, X: Any, columns: int) -> None:
    """Refuse inputs that are not a table of finite numbers with the given number of columns."""
    table = current_value(X)
    if table is None:
        return
    check_table(name, table)
    if table.shape[1] != columns:
        raise ValueError(f"{name} has {table.shape[1]} columns and the process was given X with {columns}")


def check_table(name: str, table: np.ndarray) -> None:
    """Refuse anything but a table of finite numbers."""
    if table.ndim != 2 or not table.size:
        raise ValueError(f"{name} must be a table with a row for each input, not of shape {table.shape}")
    wrong = ~np.isfinite(table.astype(float)).all(axis=1)
    if wrong.any():
        raise ValueError(
            f"{name} has values that are not finite in {marked_rows(wrong)}: fill them in, or leave these rows out"
        )


def _check_together(X: np.ndarray, Z: np.ndarray) -> None:
    if Z.shape[1] != X.shape[1]:
        raise ValueError(
            f"Xu has {Z.shape[1]} columns, but X has {X.shape[1]}: inducing inputs are points in the same space"
        )
    if len(Z) > len(X):
        raise ValueError(
            f"there are {len(Z)} inducing inputs for {len(X)} points: with M > N the approximation costs more than the "
            "exact model, so use fewer, or pm.gp.Latent with pmgp.PseudoMarginal"
        )
