"""Makers of covariances in tiles, with NumPy or with JAX, which is loaded when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pmgp.core.registry import resolve
from pmgp.interface.covariance.distances import centered
from pmgp.interface.covariance.tiled import Backend, CovarianceInTiles, Theta, TiledCovariance

PRECISIONS = ("auto", "float32", "float64")


@dataclass(frozen=True)
class NumpyTiles:
    """Products with NumPy.

    Parameters
    ----------
    memory : float
        Bytes that the elements of K may take: 4 n^2 in float64 and 2 n^2 in float32, as K is symmetric. From 4,000
        points on, or if memory does not suffice for float64, iterations are in float32 if that changes K little
        compared with the noise; residuals are in float64 in any case. If memory suffices for neither, elements are
        computed again for each product, which takes about ten times as long.

    Raises
    ------
    ValueError
        If `memory` is negative or not a number.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pmgp
    >>> X = np.linspace(0.0, 5.0, 100)[:, None]
    >>> with pm.Model() as model:
    ...     lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0)
    ...     gp = pm.gp.Marginal(cov_func=pm.gp.cov.Matern52(1, ls=lengthscale))
    ...     y = gp.marginal_likelihood("y", X, np.sin(X[:, 0]), sigma=0.1)
    >>> tiles = pmgp.marginal.NumpyTiles(memory=0)
    >>> found = pmgp.marginal.iterative_log_likelihood(model, backend=tiles, random_seed=1)
    >>> found.computed
    'in tiles, by NumPy, with K in float64, computed again for each product'
    """

    memory: float = 2e9

    def __post_init__(self) -> None:
        if not self.memory >= 0.0:
            raise ValueError(f"memory={self.memory!r}: give a number of bytes, or 0 to keep no elements of K")

    def covariance(
        self, model: Any, theta: Theta, mean: TensorVariable, covariance: TensorVariable
    ) -> CovarianceInTiles:
        """Return the mean and the covariance as a function of theta."""
        graphs, variable = theta.write([mean, covariance])
        return TiledCovariance(graphs[0], graphs[1], variable, theta.compile_function, self.memory)


@dataclass(frozen=True)
class JaxTiles:
    """Products with JAX, on one device or several; needs the extra `pmgp[jax]`.

    Tiles do not depend on JAX's flag for double precision. With `cov_func`, PyTensor's functions for JAX are loaded,
    which set this flag for the whole process, as PyMC's JAX samplers do.

    Parameters
    ----------
    memory : float
        Bytes that a product may take in addition to its inputs, on each device. The need is known before the work
        begins.
    precision : {"auto", "float32", "float64"}
        The precision of tiles of K. With "auto", tiles are in float32 if that changes K little compared with the noise,
        which is so if length-scales are not short compared with the inputs' distance from zero; residuals and sums are
        in float64.
    devices : None, "all" or sequence of jax.Device
        Devices that share the tiles; by default, the one that JAX chooses. With `jax.distributed`, "all" are those of
        all processes, each of which makes the same call.
    cov_func : pymc.gp.cov.Covariance, optional
        The covariance function of the model's process, from which tiles are then computed, in place of the model's
        graph of K. This serves kernels whose graph has a whole matrix, such as periodic ones.
    X : (n, d) array or pymc.Data, optional
        The inputs that the process was given; with `cov_func` only.

    Raises
    ------
    ValueError
        If a setting is out of range, if only one of `cov_func` and `X` is given, or if X is not a table.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pmgp
    >>> X = np.linspace(0.0, 5.0, 100)[:, None]
    >>> with pm.Model() as model:
    ...     lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0)
    ...     gp = pm.gp.Marginal(cov_func=pm.gp.cov.Matern52(1, ls=lengthscale))
    ...     y = gp.marginal_likelihood("y", X, np.sin(X[:, 0]), sigma=0.1)
    >>> found = pmgp.marginal.iterative_log_likelihood(model, backend=pmgp.marginal.JaxTiles(memory=1e8), random_seed=1)
    >>> found.computed
    'in tiles, by JAX, in float...
    """

    memory: float = 1e9
    precision: str = "auto"
    devices: Any = None
    cov_func: Any = None
    X: Any = None

    def __post_init__(self) -> None:
        if (self.cov_func is None) != (self.X is None):
            raise ValueError("cov_func and X go together: give both, as the model's process has them, or neither")
        if self.X is not None and (dimensions := getattr(self.X, "ndim", np.ndim(self.X))) != 2:
            raise ValueError(f"X must be a table (n, d), as the model's process has it, not of {dimensions} dimensions")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision={self.precision!r}: choose one of {', '.join(PRECISIONS)}")
        if not self.memory > 0.0:
            raise ValueError(f"memory={self.memory!r}: give a positive number of bytes")

    def covariance(
        self, model: Any, theta: Theta, mean: TensorVariable, covariance: TensorVariable
    ) -> CovarianceInTiles:
        """Return the mean and the covariance as a function of theta.

        Raises
        ------
        ImportError
            If JAX is not installed.
        UnsupportedGraphError
            If the covariance cannot be computed in tiles.
        """
        require_jax()
        from pmgp.core.tiles.devices import mesh_of
        from pmgp.interface.tiles.from_graph import JaxTiledCovariance
        from pmgp.interface.tiles.settings import Settings

        settings = Settings(self.memory, self.precision, mesh_of(self.devices))
        if self.cov_func is not None:
            return self._from_function(model, theta, mean, covariance, settings)
        graphs, variable = theta.write([mean, covariance])
        return JaxTiledCovariance(graphs[0], graphs[1], variable, theta.compile_function, settings)

    def _from_function(
        self, model: Any, theta: Theta, mean: TensorVariable, covariance: TensorVariable, settings: Any
    ) -> CovarianceInTiles:
        from pmgp.interface.tiles.from_function import FunctionCovariance

        inputs = np.asarray(self.X.get_value() if hasattr(self.X, "get_value") else self.X, dtype=float)
        Xi, Xj = (pt.matrix(name, shape=(None, inputs.shape[1])) for name in ("Xi", "Xj"))
        graphs = model.replace_rvs_by_values([self.cov_func(Xi, Xj), self.cov_func(Xi)])
        pair, whole = centered(graphs, {Xi: inputs, Xj: inputs})
        return FunctionCovariance(theta, mean, covariance, pair, whole, (Xi, Xj), self.X, settings)


BACKENDS = {"numpy": NumpyTiles, "jax": JaxTiles}


def require_jax() -> None:
    """Refuse to go on without JAX."""
    try:
        import jax  # noqa: F401
    except ModuleNotFoundError as error:
        raise ImportError("products with JAX need jax, which is not installed: pip install 'pmgp[jax]'") from error


def backend_of(given: Any) -> Backend:
    """Return the backend of the given name, or the given object."""
    return resolve(given, BACKENDS, Backend, "backend")
