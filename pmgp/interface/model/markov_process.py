"""Gaussian processes of one input, time, whose kernels make them Markov: Matern kernels and their sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.gp.cov import Add, Constant, Covariance, Exponential, Matern12, Matern32, Matern52, Prod
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant as ConstantVariable
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.distributions.markov_process import MarkovProcessRV
from pmgp.interface.model.latent_variable import ModelError

__all__ = ["Markov"]

ORDERS = {Matern12: 0.5, Exponential: 0.5, Matern32: 1.5, Matern52: 2.5}
ACCEPTED = (
    "pmgp.gp.Markov takes pm.gp.cov.Exponential, Matern12, Matern32 and Matern52 of one input column, each times "
    "variances, and their sums; pm.gp.Latent takes any kernel"
)


class Markov:
    """Gaussian process in time that costs O(n): exact, at times that need not be regular.

    A Matern process is Markov together with its derivatives. :class:`pmgp.PseudoMarginal` integrates it out by these
    states, with time and memory in proportion to the number of times.

    Parameters
    ----------
    mean_func : pymc.gp.mean.Mean
        Zero by default.
    cov_func : pymc.gp.cov.Covariance
        `Exponential`, `Matern12`, `Matern32` or `Matern52` of one input column, times variances, or a sum of these.

    Raises
    ------
    ModelError
        For another kernel.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> t = np.sort(np.random.default_rng(1).uniform(0, 50, 40))
    >>> with pm.Model() as model:
    ...     lengthscale, scale = pm.InverseGamma("lengthscale", 3, 20), pm.HalfNormal("scale", 1)
    ...     gp = pmgp.gp.Markov(cov_func=scale**2 * pm.gp.cov.Matern32(1, ls=lengthscale))
    ...     f = gp.prior("f", X=t)
    ...     y = pm.Poisson("y", pm.math.exp(f), observed=np.arange(40) % 4)
    >>> print(pmgp.describe(model).latent_vectors["f"])
    vector of 40; Matern process in time of order 3/2

    It is sampled with ``pm.sample(step=pmgp.PseudoMarginal())``.

    Notes
    -----
    Times at which nothing is observed may stand among the others: `f` is drawn there too, between observations or after
    them. Times closer than a hundred-millionth of a length-scale should be rounded to be the same.

    References
    ----------
    Hartikainen, J. and Sarkka, S. (2010). Kalman filtering and smoothing solutions to temporal Gaussian process
    regression models. IEEE International Workshop on Machine Learning for Signal Processing.
    """

    def __init__(self, *, mean_func: Any = None, cov_func: Any) -> None:
        self.mean_func = pm.gp.mean.Zero() if mean_func is None else mean_func
        self.cov_func = cov_func
        self._parts = list(_parts(cov_func, []))

    def prior(self, name: str, X: Any, **kwargs: Any) -> TensorVariable:
        """Return the process at times, as a variable of the model.

        Parameters
        ----------
        name : str
        X : (n,) or (n, 1) tensor_like
            Times in any order; numbers or `pymc.Data`. At a time that comes several times the process has one value.
        **kwargs
            As of every PyMC distribution: ``dims``, ``initval``.

        Returns
        -------
        (n,) TensorVariable

        Raises
        ------
        ModelError
            If times are not finite, or X has several columns.
        """
        times = _times(X)
        mean = pt.broadcast_to(self.mean_func(times[:, None]), times.shape)
        lengthscales = pt.stack([part.lengthscale for part in self._parts])
        variances = pt.stack([part.variance for part in self._parts])
        process = MarkovProcessRV(tuple(part.order for part in self._parts))
        parameters = mean, times, lengthscales, variances
        _, rv = process(*parameters, rng=pt.random.shared_rng(seed=None), return_next_rng=True)
        return pm.modelcontext(None).register_rv(rv, name, **kwargs)


class _Part(NamedTuple):
    """One Matern process.

    Attributes
    ----------
    order : float
    lengthscale, variance : scalar
    """

    order: float
    lengthscale: TensorVariable
    variance: TensorVariable


def _parts(kernel: Any, factors: list[TensorVariable]) -> Iterator[_Part]:
    """The Matern processes whose sum has a kernel, times factors."""
    if isinstance(kernel, Covariance) and kernel.input_dim != 1:
        raise ModelError(f"a process in time has one input column, and the kernel has {kernel.input_dim}; {ACCEPTED}")
    if isinstance(kernel, Add):
        for term in kernel._factor_list:
            yield from _parts(term, factors)
    elif isinstance(kernel, Prod):
        kernels = [factor for factor in kernel._factor_list if _is_kernel(factor)]
        if len(kernels) != 1:
            raise ModelError(f"a product of {len(kernels)} kernels is no sum of Matern kernels; {ACCEPTED}")
        others = [_scalar(factor) for factor in kernel._factor_list if not _is_kernel(factor)]
        yield from _parts(kernels[0], [*factors, *others])
    elif type(kernel) in ORDERS:
        # PyMC's exponential kernel is exp(-distance / (2 ls)).
        scale = 2.0 if isinstance(kernel, Exponential) else 1.0
        yield _Part(ORDERS[type(kernel)], scale * _scalar(kernel.ls), pt.prod(pt.stack([*factors, pt.ones(())])))
    else:
        raise ModelError(f"{type(kernel).__name__} is no Matern kernel; {ACCEPTED}")


def _is_kernel(factor: Any) -> bool:
    return callable(factor) and not isinstance(factor, Constant)


def _scalar(factor: Any) -> TensorVariable:
    value = pt.as_tensor(factor.c if isinstance(factor, Constant) else factor).astype("float64")
    if value.type.shape not in ((), (1,)):
        raise ModelError(f"variances and length-scales are numbers, not of shape {value.type.shape}; {ACCEPTED}")
    return value.flatten()[0]


def _times(X: Any) -> TensorVariable:
    """Times as a vector, checked where they are known."""
    given = pt.as_tensor(X).astype("float64")
    if given.ndim not in (1, 2) or (given.ndim == 2 and given.type.shape[1] not in (None, 1)):
        raise ModelError(f"times are a vector or a matrix of one column, not of shape {given.type.shape}")
    known = X.get_value() if isinstance(X, SharedVariable) else X.data if isinstance(X, ConstantVariable) else X
    if not isinstance(known, TensorVariable):
        numbers = np.asarray(known, dtype=float)
        if not np.isfinite(numbers).all():
            raise ModelError(f"{np.count_nonzero(~np.isfinite(numbers))} of {numbers.size} times are not finite")
    return given if given.ndim == 1 else given[:, 0]
