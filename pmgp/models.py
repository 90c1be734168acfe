"""Gaussian process models for two classes and several, counts, ordered categories and measurements, built in PyMC.

The classifier is that of Filippone and Girolami (2014), section 4: a zero-mean process, Gamma priors on length-scale
and variance, and a probit or logit likelihood. All are plain PyMC, so that you can write other models in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from scipy.stats import gamma

from pmgp.core.likelihoods.checks import binary_recoding, check_counts, check_positive, recoding
from pmgp.core.numerics.arrays import finite_table, is_missing, numbers, refuse_dates, refuse_masked, without_na
from pmgp.interface.distributions import (
    BernoulliLogit,
    BernoulliProbit,
    LogGaussianCox,
    MultinomialLogit,
    OrdinalProbit,
    RobustMax,
)
from pmgp.interface.model.markov_process import Markov
from pmgp.interface.sparse import Sparse

__all__ = [
    "KERNELS",
    "LIKELIHOODS",
    "classifier",
    "count_regression",
    "lengthscale_prior",
    "multiclass_classifier",
    "ordinal_regression",
    "priors",
    "regression",
]

_COVARIANCES = {
    "rbf": pm.gp.cov.ExpQuad,
    "ard": pm.gp.cov.ExpQuad,
    "matern32": pm.gp.cov.Matern32,
    "matern52": pm.gp.cov.Matern52,
}
# Measurements that differ by less, relative to their size, are the same number.
ROUNDING = 1e-12
_DISTRIBUTIONS = {"probit": BernoulliProbit, "logit": BernoulliLogit}

KERNELS = tuple(_COVARIANCES)
"""Names of the covariance functions; ``ard`` is ``rbf`` with one length-scale for each feature."""

LIKELIHOODS = tuple(_DISTRIBUTIONS)
"""Names of the likelihoods of :func:`classifier`."""


def classifier(
    X: ArrayLike,
    y: ArrayLike,
    kernel: str | None = None,
    likelihood: str = "probit",
    feature_names: Sequence[str] | None = None,
    inducing: ArrayLike | None = None,
    in_time: bool = False,
) -> pm.Model:
    """Build a Gaussian process classifier whose step is :class:`pmgp.PseudoMarginal`.

    The priors are those of the article, ``lengthscale ~ Gamma(1, 1/sqrt(d))`` and ``variance ~ Gamma(1.1, 0.1)``.
    They assume standardized features.

    Parameters
    ----------
    X : array_like of shape (n, d)
        Inputs, standardized.
    y : array_like of shape (n,)
        Labels 0 and 1. Masked ones and NaN are missing observations, unless there are inducing inputs.
    kernel : {"rbf", "ard", "matern32", "matern52"}, optional
        Covariance function, by default ``"rbf"``, or ``"matern32"`` if the process is in time.
    likelihood : {"probit", "logit"}
        Probability of label 1 given the latent value.
    feature_names : sequence of str, optional
        Names of the d features; by default the columns of a DataFrame, or ``x1, x2, ...``.
    inducing : array_like of shape (m, d), optional
        Inducing inputs for many points: the process is then a :class:`pmgp.gp.Sparse`, an approximation, and the model
        has its whitened values ``f_rotated_`` in place of ``f``.
    in_time : bool
        Whether the one feature is time, and the process a :class:`pmgp.gp.Markov` with a Matern kernel, which is exact
        and takes time in proportion to the number of points.

    Returns
    -------
    pymc.Model
        With ``lengthscale`` (dims ``feature`` for ``ard``), ``variance``, ``f`` and ``y`` (dims ``observation``).

    Raises
    ------
    ValueError
        If X, y and feature_names do not fit together; if X is not finite, y has other labels than 0 and 1, or names are
        repeated; or if kernel or likelihood is unknown.

    Examples
    --------
    >>> import pmgp
    >>> model = pmgp.models.classifier([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0, 1, 1])
    >>> [variable.name for variable in model.free_RVs]
    ['lengthscale', 'variance', 'f']
    """
    X, feature_names = _inputs(X, feature_names)
    y = _labels(y, len(X))
    distribution = _choose(_DISTRIBUTIONS, likelihood, "likelihood")
    with pm.Model(coords=_coords(X, feature_names)) as model:
        correlation = _correlation(kernel, X.shape[1], in_time)
        variance = pm.Gamma("variance", alpha=1.1, beta=0.1)
        _observed(X, y, distribution, cov_func=variance * correlation, inducing=inducing, in_time=in_time)
    return model


def multiclass_classifier(
    X: ArrayLike,
    y: ArrayLike,
    classes: Sequence[str],
    kernel: str = "rbf",
    feature_names: Sequence[str] | None = None,
    inducing: ArrayLike | None = None,
) -> pm.Model:
    """Build a classifier for unordered classes, with a process for each (:class:`pmgp.MultinomialLogit`).

    The processes are independent a priori and share one covariance, so that classes are alike before there are data;
    its hyper-parameters have the priors of :func:`classifier`. The labels depend only on differences between the
    processes.

    Parameters
    ----------
    X : array_like of shape (n, d)
        Inputs, standardized.
    y : array_like of shape (n,)
        Labels 0, ..., C - 1; missing ones are masked or NaN. A class may have no observation.
    classes : sequence of str
        Names of the C classes; at least three.
    kernel, feature_names
        As for :func:`classifier`.
    inducing : array_like of shape (m, d), optional
        As for :func:`classifier`; the likelihood is then :class:`pmgp.likelihoods.RobustMax`.

    Returns
    -------
    pymc.Model
        With ``lengthscale`` (dims ``feature`` for ``ard``), ``variance``, ``f`` (dims ``class`` and ``observation``)
        and ``y`` (dims ``observation``).

    Raises
    ------
    ValueError
        If X, y or feature_names do not fit together, y holds other labels, there are not three different classes or
        more, or the kernel is unknown.

    Examples
    --------
    >>> import pmgp
    >>> model = pmgp.models.multiclass_classifier([[0.0], [1.0], [2.0]], [0, 1, 2], classes=["a", "b", "c"])
    >>> model.initial_point()["f"].shape
    (3, 3)
    """
    _check_names(classes, "classes")
    X, feature_names = _inputs(X, feature_names)
    y = _categories(y, len(X), classes, "classes")
    with pm.Model(coords=_coords(X, feature_names) | {"class": list(classes)}) as model:
        correlation = _correlation(kernel, X.shape[1])
        variance = pm.Gamma("variance", alpha=1.1, beta=0.1)
        if inducing is not None:
            settings = {"cov_func": variance * correlation, "inducing": inducing}
            _observed(X, y, RobustMax, **settings, n_outputs=len(classes))
            return model
        process = pm.gp.Latent(cov_func=variance * correlation)
        f = process.prior("f", X=X, n_outputs=len(classes), reparameterize=False, dims=("class", "observation"))
        MultinomialLogit("y", f.T, observed=y, dims="observation")
    return model


def count_regression(
    X: ArrayLike,
    y: ArrayLike,
    kernel: str | None = None,
    feature_names: Sequence[str] | None = None,
    exposure: ArrayLike | None = None,
    inducing: ArrayLike | None = None,
    in_time: bool = False,
) -> pm.Model:
    """Build a Poisson regression whose log-rate is a Gaussian process (:class:`pmgp.likelihoods.LogGaussianCox`).

    The process has the constant mean ``level ~ Normal(log(sum(y) / sum(exposure)), 1)``, which puts the rate within a
    factor of seven of the mean rate with probability 0.95, and ``variance ~ Exponential(1)``: with variance 1, rates
    vary by a factor of e in either direction. The length-scale has the prior of :func:`classifier`.

    Parameters
    ----------
    X : array_like of shape (n, d)
        Inputs, standardized.
    y : array_like of shape (n,)
        Counts; missing ones are masked or NaN.
    kernel, feature_names
        As for :func:`classifier`.
    exposure : array_like of shape (n,), optional
        Time, area or number over which each count was collected; 1 by default. Rates refer to one unit of exposure. If
        it is given, it is the `pymc.Data` ``exposure`` of the model, and :func:`pmgp.predict` takes that of new points
        as ``at={"exposure": ...}``.
    inducing, in_time
        As for :func:`classifier`.

    Returns
    -------
    pymc.Model
        With ``lengthscale`` (dims ``feature`` for ``ard``), ``variance``, ``level``, ``f`` and ``y`` (dims
        ``observation``).

    Raises
    ------
    ValueError
        If X, y, exposure or feature_names do not fit together, counts are not whole numbers from 0 on or all 0, an
        exposure is not positive, or the kernel is unknown.

    Examples
    --------
    >>> import pmgp
    >>> model = pmgp.models.count_regression([[0.0], [1.0], [2.0]], [3, 0, 5])
    >>> "f" in model.named_vars
    True
    """
    X, feature_names = _inputs(X, feature_names)
    y = _observations(y, len(X), "count")
    check_counts(np.ma.compressed(y))
    y = _whole_numbers(y)
    refuse_masked("exposure", exposure)
    refuse_dates("exposure", exposure)
    units = np.ones(len(X)) if exposure is None else check_positive("exposure", _column(exposure, len(X), "exposure"))
    if not np.ma.compressed(y).any():
        raise ValueError("all counts are 0, and the prior of the level is centered at the log of their mean rate")
    with pm.Model(coords=_coords(X, feature_names)) as model:
        correlation = _correlation(kernel, X.shape[1], in_time)
        variance = pm.Exponential("variance", 1.0)
        level = pm.Normal("level", np.log(y.sum() / units[~np.ma.getmaskarray(y)].sum()), 1.0)
        process = {"mean_func": pm.gp.mean.Constant(level), "cov_func": variance * correlation}
        settings = process | {"inducing": inducing, "in_time": in_time}
        # Without exposures nothing in the likelihood has a length; with them, new ones are given to `predict`.
        given = 1.0 if exposure is None else pm.Data("exposure", units, dims="observation")
        _observed(X, y, LogGaussianCox, given, **settings)
    return model


def ordinal_regression(
    X: ArrayLike,
    y: ArrayLike,
    categories: Sequence[str],
    kernel: str | None = None,
    feature_names: Sequence[str] | None = None,
    inducing: ArrayLike | None = None,
    in_time: bool = False,
) -> pm.Model:
    """Build a model of ordered categories with cut points on a Gaussian process (:class:`pmgp.OrdinalProbit`).

    The process and the priors of its hyper-parameters are those of :func:`classifier`. A priori, f plus its unit noise
    is N(0, 1 + variance) at any input. The cut points divide this distribution into ``proportions``, which have a
    uniform (Dirichlet) prior; hence the cut points are ordered, and their prior follows the variance.

    Parameters
    ----------
    X : array_like of shape (n, d)
        Inputs, standardized.
    y : array_like of shape (n,)
        Categories 0, ..., r - 1; missing ones are masked or NaN.
    categories : sequence of str
        Names of the r categories, lowest first; at least three.
    kernel, feature_names, inducing, in_time
        As for :func:`classifier`.

    Returns
    -------
    pymc.Model
        With ``lengthscale`` (dims ``feature`` for ``ard``), ``variance``, ``proportions`` (dims ``category``),
        ``cutpoints`` (dims ``cutpoint``, named after the categories on either side), ``f`` and ``y`` (dims
        ``observation``).

    Raises
    ------
    ValueError
        If X, y or feature_names do not fit together, y holds other labels, there are not three different categories
        or more, or the kernel is unknown.

    Examples
    --------
    >>> import pmgp
    >>> model = pmgp.models.ordinal_regression([[0.0], [1.0], [2.0]], [0, 2, 1], categories=["low", "mid", "high"])
    >>> "f" in model.named_vars
    True
    """
    _check_names(categories, "categories")
    X, feature_names = _inputs(X, feature_names)
    y = _categories(y, len(X), categories, "categories")
    order = {"category": list(categories), "cutpoint": [f"{low} | {high}" for low, high in pairwise(categories)]}
    with pm.Model(coords=_coords(X, feature_names) | order) as model:
        correlation = _correlation(kernel, X.shape[1], in_time)
        variance = pm.Gamma("variance", alpha=1.1, beta=0.1)
        proportions = pm.Dirichlet("proportions", np.ones(len(categories)), dims="category")
        quantiles = pm.math.probit(pt.cumsum(proportions)[:-1])
        cutpoints = pm.Deterministic("cutpoints", pt.sqrt(1 + variance) * quantiles, dims="cutpoint")
        settings = {"cov_func": variance * correlation, "inducing": inducing, "in_time": in_time}
        _observed(X, y, OrdinalProbit, cutpoints, **settings)
    return model


def regression(X: ArrayLike, y: ArrayLike, kernel: str = "rbf", feature_names: Sequence[str] | None = None) -> pm.Model:
    """Build a regression of measurements with normal noise, whose process is integrated out (`pymc.gp.Marginal`).

    The priors follow from the mean m and the standard deviation s of the measurements: ``variance ~ Gamma(2, 2/s^2)``,
    whose mean is s^2, and for the noise's standard deviation ``noise ~ Gamma(2, 4/s)``, whose mean is s/2. The
    length-scale has the prior of :func:`classifier`. The level of the process has the prior N(m, s^2) and is integrated
    out: a constant s^2 in the covariance. A thousandth of s is added to the noise's standard deviation, in quadrature,
    so that the covariance can be factorized.

    Parameters
    ----------
    X : array_like of shape (n, d)
        Inputs, standardized.
    y : array_like of shape (n,)
        Measurements, in any unit.
    kernel, feature_names
        As for :func:`classifier`.

    Returns
    -------
    pymc.Model
        With ``lengthscale`` (dims ``feature`` for ``ard``), ``variance``, ``noise`` and ``y`` (dims ``observation``).
        :func:`pmgp.importance`, :func:`pmgp.find_map`, :func:`pmgp.sample` and :func:`pmgp.predict` accept the model.

    Raises
    ------
    ValueError
        If X, y and feature_names do not fit together, a measurement is not finite or all are equal, or the kernel is
        unknown.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(-1.0, 1.0, 30)[:, None]
    >>> model = pmgp.models.regression(X, 20.0 + np.sin(3.0 * X[:, 0]))
    >>> [variable.name for variable in model.free_RVs]
    ['lengthscale', 'variance', 'noise']
    """
    X, feature_names = _inputs(X, feature_names)
    y = numbers("y", _column(y, len(X), "measurement"))
    if not np.isfinite(y).all():
        raise ValueError(f"measurements must be finite, but y contains {y[~np.isfinite(y)][0]}")
    spread = float(y.std())
    if not np.ptp(y) > ROUNDING * np.abs(y).max():
        raise ValueError(f"all measurements are {y[0]:g}, so there is nothing to learn")
    with pm.Model(coords=_coords(X, feature_names)) as model:
        correlation = _correlation(kernel, X.shape[1])
        variance = pm.Gamma("variance", alpha=2.0, beta=2.0 / spread**2)
        noise = pm.Gamma("noise", alpha=2.0, beta=4.0 / spread)
        # As a variable, the level would have a scale that depends on the variance, and weights would be poor.
        covariance = variance * correlation + pm.gp.cov.Constant(spread**2)
        process = pm.gp.Marginal(mean_func=pm.gp.mean.Constant(y.mean()), cov_func=covariance)
        # As data, the inputs are not constants, from which PyMC would make matrices.
        inputs, jitter = pm.Data("X", X), 1e-6 * spread**2
        process.marginal_likelihood("y", inputs, y, sigma=noise, jitter=jitter, dims="observation")
    return model


def lengthscale_prior(d: int) -> Any:
    """Return the prior of each length-scale of these models, a frozen SciPy distribution.

    Examples
    --------
    >>> import pmgp
    >>> float(pmgp.models.lengthscale_prior(4).mean())
    2.0
    """
    return gamma(1, scale=np.sqrt(d))


_PARAMETERS = {
    "gamma": ("shape", "scale"),
    "exponential": ("scale",),
    "normal": ("mean", "standard deviation"),
    "dirichlet": ("concentrations",),
}


def priors(model: pm.Model) -> dict[str, str]:
    """Describe the priors of the hyper-parameters of one of these models, such as "gamma, shape 1, scale 1.41".

    Examples
    --------
    >>> import pmgp
    >>> pmgp.models.priors(pmgp.models.classifier([[0.0], [1.0]], [0, 1]))
    {'lengthscale': 'gamma, shape 1, scale 1', 'variance': 'gamma, shape 1.1, scale 10'}
    """
    described = {}
    for variable in model.free_RVs:
        operation = variable.owner.op
        if operation.name in _PARAMETERS and not variable.name.endswith("_"):
            values = [np.unique(value.eval()) for value in operation.dist_params(variable.owner)]
            words = [
                f"{word} {', '.join(f'{number:.3g}' for number in value)}"
                for word, value in zip(_PARAMETERS[operation.name], values, strict=True)
            ]
            described[variable.name] = ", ".join([operation.name, *words])
    return described


def _correlation(kernel: str | None, d: int, in_time: bool = False) -> Any:
    """Make the covariance function of variance 1, with a prior on its length-scale; within a model."""
    kernel = kernel or ("matern32" if in_time else "rbf")
    covariance = _choose(_COVARIANCES, kernel, "kernel")
    lengthscale = pm.Gamma("lengthscale", alpha=1, beta=1 / np.sqrt(d), dims="feature" if kernel == "ard" else None)
    return covariance(d, ls=lengthscale)


def _observed(
    X: NDArray[np.float64],
    y: NDArray[Any],
    distribution: Any,
    *parameters: Any,
    cov_func: Any,
    inducing: ArrayLike | None,
    mean_func: Any = None,
    n_outputs: int = 1,
    in_time: bool = False,
) -> None:
    """Observe y with a distribution of the process at the inputs and of parameters; within a model."""
    moments = {"mean_func": mean_func or pm.gp.mean.Zero(), "cov_func": cov_func}
    if in_time and inducing is not None:
        raise ValueError("in_time=True makes an exact model of a series: leave out inducing")
    if in_time:
        f = Markov(**moments).prior("f", X=X, dims="observation")
        distribution("y", f, *parameters, observed=y, dims="observation")
        return
    if inducing is None:
        f = pm.gp.Latent(**moments).prior("f", X=X, reparameterize=False, dims="observation")
        distribution("y", f, *parameters, observed=y, dims="observation")
        return
    process = Sparse(**moments)
    f = process.prior("f", X=X, Xu=inducing, n_outputs=n_outputs)
    process.observe("y", f, *parameters, dist=distribution.dist, observed=y, dims="observation")


def _coords(X: NDArray[np.float64], feature_names: Sequence[str]) -> dict[str, Any]:
    return {"feature": feature_names, "observation": np.arange(len(X))}


def _choose[T](table: dict[str, T], name: str, what: str) -> T:
    if name not in table:
        raise ValueError(f"{what} must be one of {', '.join(table)}, not {name!r}")
    return table[name]


def _inputs(table: ArrayLike, feature_names: Sequence[str] | None) -> tuple[NDArray[np.float64], list[str]]:
    """Return X, checked, and the names of its columns."""
    X = finite_table("X", table)
    if not X.size:
        raise ValueError(f"X must be a table (n, d) that is not empty, not an array of shape {X.shape}")
    return X, _names(getattr(table, "columns", None) if feature_names is None else feature_names, X.shape[1])


def _names(feature_names: Sequence[str] | None, d: int) -> list[str]:
    if feature_names is None:
        return [f"x{index}" for index in range(1, d + 1)]
    if len(feature_names) != d or len(set(feature_names)) != d:
        raise ValueError(f"feature_names must be {d} different names, one for each column of X")
    return [str(name) for name in feature_names]


def _check_names(names: Sequence[str], what: str) -> None:
    if isinstance(names, str) or not np.iterable(names):
        raise ValueError(f"{what} must be a list of names, such as ['a', 'b', 'c'], not {names!r}")
    if len(set(names)) < 3 or len(set(names)) < len(names):
        raise ValueError(f"there must be three different {what} or more, not {list(names)}")


def _labels(y: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return labels of two classes, 0 and 1."""
    y = _observations(y, n, "label")
    wrong = _others(y, 2)
    if wrong:
        raise ValueError(f"labels must be 0 or 1, but y contains {wrong[0]!r}; {binary_recoding(y)}")
    return _whole_numbers(y)


def _categories(y: ArrayLike, n: int, names: Sequence[str], what: str) -> NDArray[np.int64]:
    """Return labels 0, 1, ... of classes or ordered categories that have names."""
    y = _observations(y, n, "label")
    wrong = _others(y, len(names))
    if wrong:
        # Numbers in sorted order would give the names of some classes to others.
        named = what if set(np.ma.compressed(y)) <= set(names) else ""
        order = named or ("[LOWEST, ..., HIGHEST]" if what == "categories" else "")
        advice = recoding(y, len(names), order)
        raise ValueError(f"labels must be 0, ..., {len(names) - 1}, but y contains {wrong[0]!r}; {advice}")
    return _whole_numbers(y)


def _others(y: NDArray[Any], number: int) -> list[Any]:
    """Return the labels that are not among 0, ..., number - 1."""
    present = np.ma.compressed(y)
    return present[~np.isin(present, np.arange(number))].tolist()


def _whole_numbers(y: NDArray[Any]) -> NDArray[np.int64]:
    """Return observations as integers, whatever is under a mask."""
    if not np.ma.is_masked(y):
        return y.astype(np.int64)
    return np.ma.masked_array(np.ma.filled(y, 0).astype(np.int64), np.ma.getmask(y))


def _observations(values: ArrayLike, n: int, what: str) -> NDArray[Any]:
    """Return one value for each row, with missing ones masked: those that are masked, NaN or `pandas.NA`."""
    found = _column(without_na(values), n, what)
    if found.dtype.kind == "O":
        with suppress(TypeError, ValueError):
            found = found.astype(float)
    missing = is_missing(np.ma.getdata(found))
    if missing.any():
        found = np.ma.masked_array(found, missing | np.ma.getmaskarray(found))
    if np.ma.getmaskarray(found).all():
        raise ValueError(f"all {n} {what}s are missing")
    return found


def _column(values: ArrayLike, n: int, what: str) -> NDArray[Any]:
    """Return one value for each row."""
    values = np.ma.masked_array(values) if np.ma.is_masked(values) else np.asarray(values)
    if values.shape != (n,):
        raise ValueError(f"there must be one {what} for each of the {n} rows of X, not the shape {values.shape}")
    return values
