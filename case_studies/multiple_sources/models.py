"""The article's model in PyMC: for the pseudo-marginal chain as it stands, and whitened in two ways for NUTS.

K_c = sum_s w_cs C_s + 1, with C_s = X_s X_s' of features as :func:`~case_studies.multiple_sources.data.prepared` gives
them. These have mean 0, so the products alone say nothing about class frequencies: the constant makes up for that.

Whitened additively, f_c = sum_s sqrt(w_cs) L_s nu_cs + b_c with C_s = L_s L_s', so nothing is factorized while the
chain runs. The L_s side by side are one matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pmgp
from case_studies.multiple_sources.data import Matrices

__all__ = ["KINDS", "Factors", "additive", "by_cholesky", "factors", "latent", "marginal"]

KINDS = ("weighted", "Dirichlet", "unweighted")
"""Weights with independent Gamma(2, 2) priors, with the article's Dirichlet prior, and all equal to one."""


class Factors(NamedTuple):
    """The sources of a training part as factors, and new observations in their coordinates.

    Attributes
    ----------
    L : (n, R) array
        All L_s side by side.
    source : (R,) array of int
        Which source each column is of.
    new : (m, R) array
        So that new L' has the covariances of the sources with the training part.
    rest : (S, m) array
        The part of the new observations' variances that is in no training observation.
    """

    L: np.ndarray
    source: np.ndarray
    new: np.ndarray
    rest: np.ndarray


def factors(train: Matrices, test: Matrices) -> Factors:
    """Factorize each source by its singular values, with the same number of columns for training parts of one shape."""
    parts, new, rest, source = [], [], [], []
    for place, (name, X) in enumerate(train.items()):
        left, values, right = np.linalg.svd(X, full_matrices=False)
        there = values > 1e-10 * values[0]
        coordinates = test[name] @ (right * there[:, None]).T
        parts.append(left * np.where(there, values, 0.0))
        new.append(coordinates)
        rest.append(np.maximum(np.square(test[name]).sum(axis=1) - np.square(coordinates).sum(axis=1), 0.0))
        source += [place] * len(values)
    return Factors(np.hstack(parts), np.array(source), np.hstack(new), np.array(rest))


def marginal(kind: str, matrices: Matrices, y: np.ndarray, classes: int) -> pm.Model:
    """A process for each class, for `pmgp`'s step methods."""
    sources = pmgp.gp.Sources(matrices)
    with pm.Model() as model:
        weights = _weights(kind, classes, len(sources.names))
        X = pm.Data("X", sources.X)
        kernels = sources.kernels(_products)
        f = []
        for c in range(classes):
            kernel = pmgp.gp.KernelSum(kernels, weights[c]) + pm.gp.cov.Constant(1.0)
            f.append(pm.gp.Latent(cov_func=kernel).prior(f"f{c}", X=X, reparameterize=False))
        pmgp.MultinomialLogit("y", f, observed=y)
    return model


def additive(kind: str, given: Factors, y: np.ndarray, classes: int) -> pm.Model:
    """The same model with nu_cs and b_c for f_c; factors and labels can be replaced by others of the same shape."""
    with pm.Model() as model:
        weights = _weights(kind, classes, int(given.source.max()) + 1)
        L, labels = pm.Data("L", given.L), pm.Data("labels", y)
        nu = pm.Normal("nu", shape=(given.L.shape[1], classes))
        b = pm.Normal("b", shape=classes)
        f = pm.Deterministic("f", L @ (pt.sqrt(weights).T[given.source] * nu) + b)
        pmgp.MultinomialLogit("y", f, observed=labels)
    return model


def by_cholesky(kind: str, matrices: Matrices, y: np.ndarray, classes: int) -> pm.Model:
    """The same model with f_c = chol(K_c) nu_c, as `pymc.gp` whitens it."""
    bases = np.stack([X @ X.T for X in matrices.values()])
    rest = 1.0 + 1e-6 * np.eye(len(y))
    with pm.Model() as model:
        weights = _weights(kind, classes, len(bases))
        nu = pm.Normal("nu", shape=(classes, len(y)))
        K = [pt.tensordot(weights[c], bases, 1) + rest for c in range(classes)]
        f = pm.Deterministic("f", pt.stack([pt.linalg.cholesky(K[c]) @ nu[c] for c in range(classes)], axis=1))
        pmgp.MultinomialLogit("y", f, observed=y)
    return model


def latent(given: Factors, weights: np.ndarray, nu: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at new observations for one draw of (C, S) weights, (R, C) nu and (C,) b: (m, C) each."""
    mean = given.new @ (np.sqrt(weights).T[given.source] * nu) + b
    return mean, given.rest.T @ weights.T


def _weights(kind: str, classes: int, sources: int) -> Any:
    """(C, S) weights with a prior."""
    shape = (classes, sources)
    if kind == "unweighted":
        return pt.as_tensor(np.ones(shape))
    if kind == "weighted":
        return pm.Gamma("weights", 2.0, 2.0, shape=shape)
    if kind == "Dirichlet":
        return pm.Dirichlet("weights", pm.Exponential("concentration", 1.0) * np.ones(shape))
    raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")


def _products(d: int, active_dims: np.ndarray) -> Any:
    return pm.gp.cov.Linear(d, c=0.0, active_dims=active_dims)
