"""Sums of kernels over several sources of features, with weights that are inferred.

The model is that of Filippone, Marquand, Blain, Williams, Mourao-Miranda and Girolami (2012), section 2: K_c is the sum
over sources s of w_cs C_s, where C_s is computed from the features of one source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.graph.basic import Constant
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.arrays import numbers


class KernelSum(pm.gp.cov.Covariance):
    """A weighted sum of kernels, which is a covariance function like those of `pymc.gp.cov`.

    Parameters
    ----------
    kernels : sequence of covariance functions
        Kernels of the same inputs; each may use some of their columns (``active_dims``).
    weights : (S,) tensor_like of float
        A positive weight for each kernel, with any prior, such as ``pm.Gamma`` or ``pm.Dirichlet``, or a number.

    Raises
    ------
    ValueError
        If there is no kernel besides constants and white noise, if the kernels' inputs have different numbers of
        columns, if the number of weights differs from that of the kernels, or if weights given as numbers are negative
        or sum to zero.

    Examples
    --------
    >>> import pmgp, pymc as pm
    >>> with pm.Model():
    ...     kernels = [pm.gp.cov.ExpQuad(2, ls=1.0, active_dims=[column]) for column in (0, 1)]
    ...     weights = pm.Gamma("weights", 2, 2, shape=2)
    ...     gp = pm.gp.Latent(cov_func=pmgp.gp.KernelSum(kernels, weights))
    """

    def __init__(self, kernels: Sequence[Any], weights: Any) -> None:
        if not kernels:
            raise ValueError("a sum needs at least one kernel")
        # Constants and white noise are functions of any number of columns.
        columns = {kernel.input_dim for kernel in kernels if isinstance(kernel, pm.gp.cov.Covariance)}
        if not columns:
            raise ValueError("a sum needs at least one kernel of input columns, besides constants and white noise")
        if len(columns) > 1:
            raise ValueError(f"kernels of one sum must have the same input_dim, not {sorted(columns)}")
        super().__init__(columns.pop())
        self.kernels = list(kernels)
        self.weights = _checked(pt.as_tensor(weights), len(kernels))

    def full(self, X: Any, Xs: Any = None) -> TensorVariable:
        """Return the covariance matrix of inputs, or the one between them and other inputs."""
        return self._sum([kernel(X, Xs) for kernel in self.kernels])

    def diag(self, X: Any) -> TensorVariable:
        """Return the variances at the inputs."""
        return self._sum([kernel(X, diag=True) for kernel in self.kernels])

    def _sum(self, parts: list[TensorVariable]) -> TensorVariable:
        weighted = [self.weights[place] * part for place, part in enumerate(parts)]
        return weighted[0] if len(weighted) == 1 else pt.add(*weighted)


def _checked(weights: TensorVariable, number: int) -> TensorVariable:
    if weights.ndim != 1 or weights.type.shape[0] not in (None, number):
        shape = tuple(weights.type.shape)
        raise ValueError(f"there must be one weight for each of {number} kernels, not weights of shape {shape}")
    if isinstance(weights, Constant):
        values = np.asarray(weights.data, dtype=float)
        if not (np.isfinite(values).all() and (values >= 0.0).all() and values.sum() > 0.0):
            raise ValueError(f"weights must be 0 or more and not all 0; they are {values.tolist()}")
    return weights


class Sources:
    """Features of the same observations from several sources, as the columns of one matrix.

    Parameters
    ----------
    matrices : mapping of str to (n, d_s) array_like
        The features of each source by its name, with a row for each observation.

    Attributes
    ----------
    names : list of str
    X : (n, d) array
        All columns, those of the first source first.

    Raises
    ------
    ValueError
        If there is no source, or one is not a matrix, has a different number of rows, or has non-finite values.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> sources = pmgp.gp.Sources({"shape": np.ones((5, 2)), "texture": np.ones((5, 3))})
    >>> sources.X.shape, len(sources.kernels())
    ((5, 5), 2)
    """

    def __init__(self, matrices: Mapping[str, ArrayLike]) -> None:
        if not matrices:
            raise ValueError("there must be at least one source")
        self.names = list(matrices)
        found = [_matrix(name, matrices[name]) for name in self.names]
        self._widths = [matrix.shape[1] for matrix in found]
        self.X = _beside(self.names, found)

    def join(self, matrices: Mapping[str, ArrayLike]) -> np.ndarray:
        """Join the same features of other observations into one matrix (m, d), such as `Xnew` for a prediction.

        Raises
        ------
        ValueError
            As for the sources themselves, or if names or numbers of columns differ from theirs.
        """
        if set(matrices) != set(self.names):
            raise ValueError(f"the sources must be {', '.join(self.names)}, not {', '.join(matrices)}")
        found = [_matrix(name, matrices[name]) for name in self.names]
        for name, matrix, width in zip(self.names, found, self._widths, strict=True):
            if matrix.shape[1] != width:
                raise ValueError(f"source {name!r} has {matrix.shape[1]} columns, but it had {width} before")
        return _beside(self.names, found)

    def kernels(self, make: Callable[..., Any] | None = None) -> list[Any]:
        """Return a kernel for each source, a function of its own columns of :attr:`X`.

        Parameters
        ----------
        make : callable, optional
            Makes a kernel from ``input_dim`` and ``active_dims``, the arguments of every kernel of `pymc.gp.cov`. The
            default is the product of features, X_s X_s', divided by their mean square length, so that a weight is a
            variance and does not grow with the number of columns.

        Raises
        ------
        ValueError
            If all features of a source are zero and `make` is not given.
        """
        total, start, made = self.X.shape[1], 0, []
        for name, width in zip(self.names, self._widths, strict=True):
            columns = np.arange(start, start + width)
            made.append(self._linear(name, columns) if make is None else make(total, active_dims=columns))
            start += width
        return made

    def _linear(self, name: str, columns: np.ndarray) -> Any:
        length = float(np.square(self.X[:, columns]).sum(axis=1).mean())
        if length == 0.0:
            raise ValueError(f"all features of source {name!r} are 0")
        return (1.0 / length) * pm.gp.cov.Linear(self.X.shape[1], c=0.0, active_dims=columns)


def _matrix(name: str, values: ArrayLike) -> np.ndarray:
    matrix = numbers(f"source {name!r}", values)
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(
            f"source {name!r} must be a matrix with a row for each observation, not of shape {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(f"source {name!r} has {matrix[row, column]} in row {row}, column {column}")
    return matrix


def _beside(names: list[str], matrices: list[np.ndarray]) -> np.ndarray:
    rows = {name: len(matrix) for name, matrix in zip(names, matrices, strict=True)}
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{name!r} has {number}" for name, number in rows.items())
        raise ValueError(f"sources must have a row for each of the same observations: {counts}")
    return np.concatenate(matrices, axis=1)
