"""The Gaussian process classifier of the pseudo-marginal article as a PyMC model.

Section 4 of the article: a zero-mean process, Gamma priors on length-scale and variance, a probit
or logit likelihood. It is plain PyMC; write your own in the same way for anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike, NDArray
from scipy.stats import gamma

from pmgp.distributions import BernoulliLogit, BernoulliProbit

__all__ = ["KERNELS", "LIKELIHOODS", "classifier", "lengthscale_prior"]

_COVARIANCES = {
    "rbf": pm.gp.cov.ExpQuad,
    "ard": pm.gp.cov.ExpQuad,
    "matern32": pm.gp.cov.Matern32,
    "matern52": pm.gp.cov.Matern52,
}
_DISTRIBUTIONS = {"probit": BernoulliProbit, "logit": BernoulliLogit}

KERNELS = tuple(_COVARIANCES)
"""Names of the covariance functions; ``ard`` is ``rbf`` with one length-scale a feature."""

LIKELIHOODS = tuple(_DISTRIBUTIONS)
"""Names of the likelihoods."""


def classifier(
    X: ArrayLike,
    y: ArrayLike,
    kernel: str = "rbf",
    likelihood: str = "probit",
    feature_names: Sequence[str] | None = None,
) -> pm.Model:
    """Build a Gaussian process classifier whose step is :class:`pmgp.PseudoMarginal`.

    The priors are those of the article, ``lengthscale ~ Gamma(1, 1/sqrt(d))`` and ``variance ~ Gamma(1.1, 0.1)``.
    They suppose standardized features.

    Parameters
    ----------
    X : array_like of shape (n, d)
        Inputs, standardized.
    y : array_like of shape (n,)
        Labels 0 and 1.
    kernel : {"rbf", "ard", "matern32", "matern52"}
        Covariance function.
    likelihood : {"probit", "logit"}
        Probability of label 1 given the latent value.
    feature_names : sequence of str, optional
        Names of the d features, ``x1, x2, ...`` by default.

    Returns
    -------
    pymc.Model
        With ``lengthscale`` (dims ``feature`` for ``ard``), ``variance``, ``f`` and ``y`` (dims ``observation``).

    Raises
    ------
    ValueError
        If X, y or feature_names do not fit together or are not finite numbers, labels 0 and 1 and different names,
        or if kernel or likelihood is unknown.
    """
    X = _inputs(X)
    y = _labels(y, len(X))
    d = X.shape[1]
    coords = {"feature": _names(feature_names, d), "observation": np.arange(len(X))}
    covariance = _choose(_COVARIANCES, kernel, "kernel")
    distribution = _choose(_DISTRIBUTIONS, likelihood, "likelihood")
    with pm.Model(coords=coords) as model:
        dims = "feature" if kernel == "ard" else None
        lengthscale = pm.Gamma("lengthscale", alpha=1, beta=1 / np.sqrt(d), dims=dims)
        variance = pm.Gamma("variance", alpha=1.1, beta=0.1)
        process = pm.gp.Latent(cov_func=variance * covariance(d, ls=lengthscale))
        f = process.prior("f", X=X, reparameterize=False, dims="observation")
        distribution("y", f, observed=y, dims="observation")
    return model


def lengthscale_prior(d: int) -> Any:
    """Return the prior of each length-scale of :func:`classifier`, a frozen SciPy distribution."""
    return gamma(1, scale=np.sqrt(d))


def _choose[T](table: dict[str, T], name: str, what: str) -> T:
    if name not in table:
        raise ValueError(f"{what} must be one of {', '.join(table)}, not {name!r}")
    return table[name]


def _inputs(X: ArrayLike) -> NDArray[np.float64]:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or not X.size:
        raise ValueError(f"X must be a table (n, d) that is not empty, its shape is {X.shape}")
    bad = np.flatnonzero(~np.isfinite(X).all(axis=1))
    if bad.size:
        raise ValueError(f"X has NaN or infinite values in {bad.size} rows, the first is {bad[0]}")
    return X


def _names(feature_names: Sequence[str] | None, d: int) -> list[str]:
    if feature_names is None:
        return [f"x{index}" for index in range(1, d + 1)]
    if len(feature_names) != d or len(set(feature_names)) != d:
        raise ValueError(f"feature_names must be {d} different names, one a column of X")
    return list(feature_names)


def _labels(y: ArrayLike, n: int) -> NDArray[np.int64]:
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y must have one label a row of X, {n}; its shape is {y.shape}")
    wrong = np.setdiff1d(y, (0, 1))
    if wrong.size:
        raise ValueError(f"labels must be 0 or 1, y holds also {wrong[0]}")
    return y.astype(np.int64)
