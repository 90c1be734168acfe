"""A Gaussian process on random features inside a PyMC model, used like `pymc.gp.HSGP`.

The article: K. Cutajar, E. V. Bonilla, P. Michiardi and M. Filippone (2017), Random feature expansions for deep
Gaussian processes, section 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.gp.cov import Constant, Covariance, ExpQuad, Prod
from pymc.gp.mean import Mean, Zero
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.arrays import is_whole, numbers


class RandomFeatures:
    r"""A Gaussian process :math:`f = m + \Phi w` with :math:`w \sim \mathcal N(0, I)` and :math:`E[\Phi\Phi^\top] = K`.

    The features are cosines and sines of the inputs at frequencies that are drawn once. Given these, the model is
    exact. An evaluation costs :math:`O(n N)` for :math:`N` features, and length-scales and variances may be variables
    with priors. Inputs may be variables too, so one process can take the values of another: a deep process.

    Parameters
    ----------
    cov_func : pymc.gp.cov.ExpQuad, or one times variances
        Any other kernel is refused.
    features : int
        Number of frequencies, each of which has two features.
    mean_func : pymc.gp.mean.Mean, optional
        Zero by default.
    random_seed : int
        Seed of the frequencies.

    Raises
    ------
    ValueError
        If `features` is not a positive integer, or for another kernel.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pm.Model() as model:
    ...     scale = pm.InverseGamma("scale", 3.0, 1.0)
    ...     gp = pmgp.gp.RandomFeatures(cov_func=pm.gp.cov.ExpQuad(1, ls=scale), features=10)
    ...     f = gp.prior("f", X)
    >>> [variable.name for variable in model.free_RVs]
    ['scale', 'f_weights']
    """

    def __init__(
        self, *, cov_func: Covariance, features: int = 50, mean_func: Mean | None = None, random_seed: int = 0
    ) -> None:
        if not is_whole(features):
            raise ValueError(f"features={features!r}: give an integer of at least 1")
        self.cov_func = cov_func
        self.mean_func = Zero() if mean_func is None else mean_func
        self.features = features
        self._kernel, self._variance = _parts(cov_func)
        dimensions = len(self._kernel.active_dims)
        self._normals = np.random.default_rng(random_seed).normal(size=(dimensions, features))

    def matrix(self, X: Any) -> TensorVariable:
        """Return the features Phi at inputs X, shape (n, 2 features)."""
        inputs, _ = self._kernel._slice(_table(X))
        projections = (inputs / self._kernel.ls) @ self._normals
        waves = pt.concatenate([pt.cos(projections), pt.sin(projections)], axis=1)
        return pt.sqrt(self._variance / self.features) * waves

    def prior(self, name: str, X: Any, dims: str | None = None) -> TensorVariable:
        """Return the process at X, shape (n,), a `pymc.Deterministic` of the weights ``NAME_weights``.

        Parameters
        ----------
        name : str
        X : (n, d) array or tensor
        dims : str, optional
            Name of the dimension of the values.
        """
        self._weights = pm.Normal(f"{name}_weights", shape=2 * self.features)
        return self.conditional(name, X, dims)

    def conditional(self, name: str, Xnew: Any, dims: str | None = None) -> TensorVariable:
        """Return the process at other inputs, shape (m,), given the weights: a `pymc.Deterministic`.

        Raises
        ------
        ValueError
            If `prior` has not been called.
        """
        if not hasattr(self, "_weights"):
            raise ValueError("the process has no weights yet: call prior(name, X) first")
        Xnew = _table(Xnew)
        values = self.mean_func(Xnew) + self.matrix(Xnew) @ self._weights
        return pm.Deterministic(name, values, dims=dims)


def _table(X: Any) -> TensorVariable:
    table = pt.as_tensor(X if isinstance(X, Variable) else numbers("X", X))
    if table.ndim != 2:
        raise ValueError(f"X must be a table of shape (n, d), not of {table.ndim} dimensions")
    return table


def _parts(cov_func: Covariance) -> tuple[ExpQuad, Any]:
    """Return the exponentiated quadratic, and the product of the variances that multiply it."""
    factors = list(cov_func._factor_list) if isinstance(cov_func, Prod) else [cov_func]
    kernels = [factor for factor in factors if isinstance(factor, Covariance)]
    if len(kernels) != 1 or type(kernels[0]) is not ExpQuad:
        names = ", ".join(type(kernel).__name__ for kernel in kernels)
        raise ValueError(f"random features need a kernel that is one ExpQuad times variances; this one has {names}")
    others = [factor for factor in factors if not isinstance(factor, Covariance)]
    variances = [pt.as_tensor(factor.c if isinstance(factor, Constant) else factor) for factor in others]
    for variance in variances:
        if not all(variance.type.broadcastable):
            raise ValueError(f"a variance has the shape {variance.type.shape}: random features need single numbers")
    variances = [variance.squeeze() for variance in variances]
    return kernels[0], pt.prod(pt.stack(variances)) if variances else pt.constant(1.0)
