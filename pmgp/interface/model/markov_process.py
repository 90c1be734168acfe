"""Gaussian processes in time whose kernels make them Markov: Matern kernels, times cosines, and sums of these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.gp.cov import Add, Constant, Cosine, Covariance, Exponential, Matern12, Matern32, Matern52, Periodic, Prod
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant as ConstantVariable
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pmgp.core.markov import Part
from pmgp.core.numerics.arrays import numbers
from pmgp.interface.distributions.markov_process import MarkovConditionalRV, MarkovProcessRV
from pmgp.interface.model.latent_variable import ModelError

ORDERS = {Matern12: 0.5, Exponential: 0.5, Matern32: 1.5, Matern52: 2.5}
FACTORS = {Cosine: "cosine", Periodic: "periodic"}
ACCEPTED = (
    "pmgp.gp.Markov takes pm.gp.cov.Exponential, Matern12, Matern32 and Matern52 of one input column, each of which "
    "may be multiplied by variances, Cosine and Periodic, and sums of these; pm.gp.Latent takes any kernel"
)
ALONE = (
    "does not forget: multiply it by a Matern kernel, whose length-scale is the time in which the wave changes, and "
    "may be very long"
)


class Markov:
    """An exact Gaussian process in time that costs O(n), at regular or irregular times.

    A Matern process is Markov together with its derivatives. :class:`pmgp.PseudoMarginal` integrates these states out,
    with time and memory in proportion to the number of times.

    Parameters
    ----------
    mean_func : pymc.gp.mean.Mean, optional
        Zero by default.
    cov_func : pymc.gp.cov.Covariance
        `Exponential`, `Matern12`, `Matern32` or `Matern52` of one input column, times variances, or a sum of these.
        Each may be multiplied by `Cosine` and `Periodic`, for a wave that changes its shape.

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
    A process at n times has states of 1, 2 or 3 numbers each, for Matern kernels of order 1/2, 3/2 and 5/2; the states
    of a sum are joined. A cosine doubles their size. A periodic kernel is a series of cosines of orders 0 to J (Solin
    and Sarkka 2014) and multiplies the size by 2 J + 1. Time grows with the cube of the size. J is the smallest order
    for which the error of the kernel is below 1e-8 of its variance: 6 for a length-scale of one, 12 for 0.3. If it
    exceeds 64, for a length-scale below about 0.046, the process has no density.

    Times without observations may be among the others: `f` is drawn there too, between observations or after them.
    :meth:`conditional` and :func:`pmgp.predict` give the process at times that come up after sampling. They raise a
    FloatingPointError if times are so close that double precision leaves two digits or less of a mean or a variance
    between them: at steps below 5e-6 length-scales for `Matern52` alone, 5e-5 for a sum of two `Matern32`, and 1e-3 for
    a sum of two `Matern52`; a periodic kernel is a sum of many. Round such times, so that they are equal.

    References
    ----------
    Hartikainen, J. and Sarkka, S. (2010). Kalman filtering and smoothing solutions to temporal Gaussian process
    regression models. IEEE International Workshop on Machine Learning for Signal Processing.

    Solin, A. and Sarkka, S. (2014). Explicit link between periodic covariance functions and state space models.
    Artificial Intelligence and Statistics.
    """

    def __init__(self, *, mean_func: Any = None, cov_func: Any) -> None:
        self.mean_func = pm.gp.mean.Zero() if mean_func is None else mean_func
        self.cov_func = cov_func
        self._parts = list(_parts(cov_func, []))
        self._known: _Known | None = None

    def prior(self, name: str, X: Any, **kwargs: Any) -> TensorVariable:
        """Return the process at times, as a variable of the model.

        Parameters
        ----------
        name : str
        X : (n,) or (n, 1) tensor_like
            Times in any order; numbers or `pymc.Data`. If a time occurs repeatedly, the process has one value there.
        **kwargs
            As in every PyMC distribution: ``dims``, ``initval``.

        Returns
        -------
        (n,) TensorVariable

        Raises
        ------
        ModelError
            If there are no times, if some are not finite, or if X has several columns.
        """
        moments = self._mean_and_times(X)
        f = _registered(MarkovProcessRV(self._kinds), [*moments, *self._parameters], name, kwargs)
        self._known = _Known(f, *moments)
        return f

    def conditional(self, name: str, Xnew: Any, **kwargs: Any) -> TensorVariable:
        """Return the process at other times, given its values at the times of `prior`.

        `pymc.sample_posterior_predictive` then draws a whole path for each draw of the posterior, in O(n).

        Parameters
        ----------
        name : str
        Xnew : (m,) or (m, 1) tensor_like
            Times in any order, before, between or after those of `prior`.
        **kwargs
            As in every PyMC distribution.

        Returns
        -------
        (m,) TensorVariable

        Raises
        ------
        ModelError
            If there is no prior yet, there are no times, some are not finite, or Xnew has several columns.

        Examples
        --------
        >>> import numpy as np, pmgp, pymc as pm
        >>> t = np.arange(20.0)
        >>> with pm.Model() as model:
        ...     gp = pmgp.gp.Markov(cov_func=pm.gp.cov.Matern32(1, ls=pm.InverseGamma("lengthscale", 3, 20)))
        ...     y = pm.Poisson("y", pm.math.exp(gp.prior("f", X=t)), observed=np.arange(20) % 4)
        ...     settings = {"progressbar": False, "random_seed": 1, "compute_convergence_checks": False}
        ...     idata = pm.sample(50, tune=50, chains=1, step=pmgp.PseudoMarginal(), **settings)
        ...     later = gp.conditional("later", Xnew=[20.0, 25.0, 30.0])
        ...     paths = pm.sample_posterior_predictive(idata, var_names=["later"], progressbar=False)
        >>> dict(paths["posterior_predictive"].sizes)
        {'chain': 1, 'draw': 50, 'later_dim_0': 3}
        """
        if self._known is None:
            raise ModelError("the process has no values yet on which to condition others: call gp.prior first")
        parameters = [*self._known, *self._mean_and_times(Xnew), *self._parameters]
        return _registered(MarkovConditionalRV(self._kinds), parameters, name, kwargs)

    @property
    def _kinds(self) -> tuple[Part, ...]:
        return tuple(Part(part.order, tuple(factor.kind for factor in part.factors)) for part in self._parts)

    @property
    def _parameters(self) -> list[TensorVariable]:
        factors = [factor for part in self._parts for factor in part.factors]
        columns = (
            [part.lengthscale for part in self._parts],
            [part.variance for part in self._parts],
            [factor.period for factor in factors],
            [factor.width for factor in factors],
        )
        return [pt.stack(column) if column else pt.zeros(0) for column in columns]

    def _mean_and_times(self, X: Any) -> tuple[TensorVariable, TensorVariable]:
        times = _times(X)
        return pt.broadcast_to(self.mean_func(times[:, None]), times.shape), times


class _Known(NamedTuple):
    """The values (n,), the mean and the times of a process given which others are drawn."""

    f: TensorVariable
    mean: TensorVariable
    times: TensorVariable


class _Factor(NamedTuple):
    """A factor that multiplies a Matern kernel.

    `kind` is ``"cosine"`` or ``"periodic"``; `width` is its length-scale, which is 1 and unused for a cosine.
    """

    kind: str
    period: TensorVariable
    width: TensorVariable

    @classmethod
    def of(cls, kernel: Any) -> _Factor:
        """Return the factor of a PyMC kernel, whose cosine has its period under the name of a length-scale."""
        own, width = (kernel.ls, 1.0) if isinstance(kernel, Cosine) else (kernel.period, kernel.ls)
        return cls(FACTORS[type(kernel)], _scalar(own), _scalar(width))


class _Part(NamedTuple):
    """One Matern process."""

    order: float
    lengthscale: TensorVariable
    variance: TensorVariable
    factors: tuple[_Factor, ...]


def _registered(process: Any, parameters: list[TensorVariable], name: str, settings: dict[str, Any]) -> TensorVariable:
    _, rv = process(*parameters, rng=pt.random.shared_rng(seed=None), return_next_rng=True)
    return pm.modelcontext(None).register_rv(rv, name, **settings)


def _parts(kernel: Any, factors: list[Any]) -> Iterator[_Part]:
    """Yield the processes whose sum has a kernel times factors, which are numbers, cosines and periodic kernels."""
    if isinstance(kernel, Covariance) and kernel.input_dim != 1:
        raise ModelError(f"a process in time has one input column, and the kernel has {kernel.input_dim}; {ACCEPTED}")
    if isinstance(kernel, Add):
        for term in kernel._factor_list:
            yield from _parts(term, factors)
    elif isinstance(kernel, Prod):
        yield from _parts_of_product(kernel, factors)
    elif type(kernel) in ORDERS:
        # PyMC's exponential kernel is exp(-distance / (2 ls)).
        scale = 2.0 if isinstance(kernel, Exponential) else 1.0
        scales = [_scalar(factor) for factor in factors if type(factor) not in FACTORS]
        waves = tuple(_Factor.of(factor) for factor in factors if type(factor) in FACTORS)
        variance = pt.prod(pt.stack([*scales, pt.ones(())]))
        yield _Part(ORDERS[type(kernel)], scale * _scalar(kernel.ls), variance, waves)
    elif type(kernel) in FACTORS:
        raise ModelError(f"{type(kernel).__name__} by itself {ALONE}; {ACCEPTED}")
    else:
        raise ModelError(f"{type(kernel).__name__} is not a Matern kernel; {ACCEPTED}")


def _parts_of_product(kernel: Prod, factors: list[Any]) -> Iterator[_Part]:
    own = list(_flat(kernel))
    processes = [factor for factor in own if _is_kernel(factor) and type(factor) not in FACTORS]
    waves = [type(factor).__name__ for factor in own if type(factor) in FACTORS]
    if len(processes) > 1:
        raise ModelError(f"a product of {len(processes)} kernels is not a sum of Matern kernels; {ACCEPTED}")
    if not processes:
        raise ModelError(f"{' x '.join(waves)} by itself {ALONE}; {ACCEPTED}")
    yield from _parts(processes[0], [*factors, *(factor for factor in own if factor is not processes[0])])


def _flat(kernel: Any) -> Iterator[Any]:
    """Yield the factors of a product, and of products in it."""
    for factor in kernel._factor_list:
        if isinstance(factor, Prod):
            yield from _flat(factor)
        else:
            yield factor


def _is_kernel(factor: Any) -> bool:
    return callable(factor) and not isinstance(factor, Constant)


def _scalar(factor: Any) -> TensorVariable:
    value = pt.as_tensor(factor.c if isinstance(factor, Constant) else factor).astype("float64")
    if value.type.shape not in ((), (1,)):
        raise ModelError(f"variances and length-scales must be scalars, not of shape {value.type.shape}; {ACCEPTED}")
    return value.flatten()[0]


def _times(X: Any) -> TensorVariable:
    """Return times as a vector, after a check of those that are known."""
    if not isinstance(X, Variable):
        X = numbers("X", X)
    given = pt.as_tensor(X).astype("float64")
    if given.ndim not in (1, 2) or (given.ndim == 2 and given.type.shape[1] not in (None, 1)):
        raise ModelError(f"times must be a vector or a matrix with one column, not of shape {given.type.shape}")
    known = X.get_value() if isinstance(X, SharedVariable) else X.data if isinstance(X, ConstantVariable) else X
    if not isinstance(known, TensorVariable):
        if not np.size(known):
            raise ModelError("a process in time needs one time at least, and none is given")
        wrong = ~np.isfinite(np.asarray(known, dtype=float))
        if wrong.any():
            raise ModelError(f"{np.count_nonzero(wrong)} of {wrong.size} times are not finite")
    return given if given.ndim == 1 else given[:, 0]
