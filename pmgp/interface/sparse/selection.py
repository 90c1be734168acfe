"""Selection of inducing inputs from the inputs, before there is a model or with its covariance function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from pymc.pytensorf import compile as compile_pytensor
from pytensor.graph.traversal import ancestors

from pmgp.core.inducing import cluster_centers, largest_conditional_variances
from pmgp.core.numerics.arrays import numbers
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.points import value_point
from pmgp.interface.sparse.inputs import check_table

METHODS = ("kmeans", "conditional_variance", "random")


def select_inducing(
    X: ArrayLike,
    M: int,
    method: str = "kmeans",
    *,
    cov_func: Any = None,
    start: dict[str, Any] | None = None,
    random_seed: Any = None,
) -> NDArray[np.float64]:
    """Choose inducing inputs for :class:`pmgp.gp.Sparse`; :func:`pmgp.gp.optimize_inducing` moves them from there.

    Parameters
    ----------
    X : array_like of shape (n, d)
        Inputs, on a scale on which the covariance treats their columns alike, such as standardized.
    M : int
        Number of inducing inputs; at most the number of different rows of X.
    method : {"kmeans", "conditional_variance", "random"}
        Centers of clusters; points that each have the largest variance given the previous ones, which include outlying
        points; or random points.
    cov_func : pymc.gp.cov.Covariance, optional
        Needed for "conditional_variance". If it has random variables, call this function within their model.
    start : dict, optional
        Values of hyper-parameters for that covariance, as in :func:`pmgp.find_map`; by default those that the model
        starts from.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    (M, d) array
        Different rows; fewer than M for "conditional_variance" if these determine all other points to working
        precision.

    Raises
    ------
    ValueError
        If X is not a table of finite numbers, if it has fewer than M different rows, if the method is unknown, or if it
        needs a covariance function and has none.

    References
    ----------
    Burt, D. R., Rasmussen, C. E. and van der Wilk, M. (2020). Convergence of sparse variational inference in Gaussian
    process regression. *Journal of Machine Learning Research* 21(131).

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.random.default_rng(1).normal(size=(200, 2))
    >>> pmgp.gp.select_inducing(X, 20, random_seed=1).shape
    (20, 2)
    """
    X = numbers("X", X)
    check_table("X", X)
    different = np.unique(X, axis=0)
    if not 1 <= M <= len(different):
        raise ValueError(f"M must be from 1 to the number of different rows of X, {len(different)}, not {M}")
    if method not in METHODS:
        hint = ": optimizing also needs the likelihood, see pmgp.gp.optimize_inducing" if method == "optimized" else ""
        raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}{hint}")
    rng = np.random.default_rng(random_seed)
    if method == "kmeans":
        return cluster_centers(X, M, rng)
    if method == "random":
        return different[rng.permutation(len(different))[:M]]
    if cov_func is None:
        raise ValueError("method='conditional_variance' needs cov_func, the covariance function of the process")
    return different[_greedy(different, M, cov_func, start)]


def suggested_number(points: int) -> int:
    """Return the number of inducing inputs to begin with, before a diagnosis: 200 for 20,000 points."""
    return min(points, 10 * math.ceil(0.14 * math.sqrt(points)))


def _greedy(X: np.ndarray, m: int, cov_func: Any, start: dict[str, Any] | None) -> np.ndarray:
    """Return indices into X, using the covariance at the start of its hyper-parameters."""
    index = pt.lscalar("index")
    graphs = [cov_func(pt.as_tensor(X), diag=True), cov_func(pt.as_tensor(X), pt.as_tensor(X)[index][None, :])[:, 0]]
    model = pm.modelcontext(None) if pm.Model.get_context(error_if_none=False) else pm.Model()
    graphs = model.replace_rvs_by_values(graphs)
    known = set(ancestors(graphs))
    used = [variable for variable in model.value_vars if variable in known]
    point = value_point(model, start) if used else {}
    values = [point[variable.name] for variable in used]
    compiled = compile_pytensor([index, *used], graphs, mode=INTERPRETED, on_unused_input="ignore")
    return largest_conditional_variances(compiled(0, *values)[0], lambda i: compiled(i, *values)[1], m)
