"""Convergence and cost of a sampled posterior, from ArviZ's statistics."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Integral

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pmgp.interface.model.effects import WHITENED

__all__ = [
    "MIN_DRAWS",
    "OPERATION_STATS",
    "ess_per_second",
    "hyperparameter_names",
    "operation_counts",
    "rhat_over_iterations",
]

OPERATION_STATS = ("n_cholesky", "n_inverse", "n_matmul", "n_newton")
"""Sample stats of pmgp's step methods that count O(n^3) operations and Newton iterations."""

MIN_DRAWS = 10
"""The smallest number of draws for R-hat and ESS, which split each chain into two halves."""

# PyMC's ending of the names of missing observations, and what no plot could show.
MISSING, MOST_ELEMENTS = "_unobserved", 100


def hyperparameter_names(idata: xr.DataTree) -> list[str]:
    """Return the variables of the posterior that are neither latent values nor missing observations.

    A variable counts as latent if it has the longest dimension of an observed variable, or, in a model without named
    dimensions, one that is as long; observations that are missing are counted. (A table of observations may have a
    length-scale for each of its columns.) So do the whitened values of :class:`pmgp.gp.Sparse`, and all variables with
    more than a hundred elements, such as a field at the nodes of a mesh.

    Parameters
    ----------
    idata : DataTree
        With groups ``posterior`` and, optionally, ``observed_data``.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> draws = {"lengthscale": np.ones((4, 10)), "f": np.ones((4, 10, 30))}
    >>> idata = az.from_dict({"posterior": draws, "observed_data": {"y": np.ones(30)}})
    >>> pmgp.diagnostics.hyperparameter_names(idata)
    ['lengthscale']
    """
    posterior, observed = idata["posterior"].data_vars, idata.children.get("observed_data")
    with_missing = [str(name) for name in posterior if f"{name}{MISSING}" in posterior]
    sizes: dict[Hashable, int] = {}
    for data in [
        *(() if observed is None else observed.data_vars.values()),
        *(posterior[name].isel(chain=0, draw=0) for name in with_missing),
    ]:
        longest = max(data.shape, default=0)
        sizes |= {dim: size for dim, size in data.sizes.items() if size == longest}
    names = []
    for name, variable in posterior.items():
        own = {dim: size for dim, size in variable.sizes.items() if dim not in ("chain", "draw")}
        unnamed = {size for dim, size in own.items() if str(dim).startswith(f"{name}_dim_")}
        latent = bool(set(own) & set(sizes) or unnamed & set(sizes.values())) or str(name).endswith((MISSING, WHITENED))
        if not latent and np.prod(list(own.values())) <= MOST_ELEMENTS:
            names.append(str(name))
    return names


def rhat_over_iterations(
    idata: xr.DataTree, var_names: Sequence[str] | str | None = None, points: int | ArrayLike = 25
) -> xr.Dataset:
    """Return R-hat (rank-normalized, split) of the first draws, as a function of their number.

    Parameters
    ----------
    idata : DataTree
        With group ``posterior``: at least two chains of at least ten draws.
    var_names : str or sequence of str, optional
        By default the hyper-parameters; see :func:`hyperparameter_names`.
    points : int or array_like of int
        The numbers of draws, or how many of them to take, evenly spaced up to all draws.

    Returns
    -------
    Dataset
        The variables with dimension ``draws``, the number of draws of each chain, in place of chain and draw.

    Raises
    ------
    ValueError
        If there are too few chains or draws, or a point exceeds the number of draws or is below ten.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> idata = az.from_dict({"posterior": {"lengthscale": rng.gamma(2.0, 1.0, (4, 100))}})
    >>> rhat = pmgp.diagnostics.rhat_over_iterations(idata, points=[20, 100])
    >>> bool(rhat["lengthscale"][-1] < 1.1)
    True
    """
    import arviz_stats

    posterior = _posterior(idata, var_names)
    n_chains, n_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    if n_chains < 2 or n_draws < MIN_DRAWS:
        raise ValueError(f"R-hat needs 2 chains of {MIN_DRAWS} draws, but there are {n_chains} of {n_draws}")
    counts = _counts(points, n_draws)
    with np.errstate(invalid="ignore", divide="ignore"):  # constant elements have no R-hat
        rhats = [arviz_stats.rhat(posterior.isel(draw=slice(0, count))) for count in counts]
    return xr.concat(rhats, dim=xr.Variable("draws", counts))


def _counts(points: int | ArrayLike, n_draws: int) -> np.ndarray:
    if isinstance(points, Integral):
        if points < 1:
            raise ValueError(f"points must be at least 1, or a list of numbers of draws, not {points}")
        spaced = np.linspace(n_draws / points, n_draws, points).round().astype(int)
        return np.unique(np.maximum(spaced, MIN_DRAWS))
    counts = np.asarray(points)
    if counts.ndim != 1 or not counts.size or not np.array_equal(counts, counts.astype(int)):
        raise ValueError(f"points must be a number of them, or a list of whole numbers of draws, not {points}")
    counts = counts.astype(int)
    if counts.min() < MIN_DRAWS or counts.max() > n_draws:
        raise ValueError(f"points must be between {MIN_DRAWS} and {n_draws}, the number of draws")
    return counts


def ess_per_second(idata: xr.DataTree, var_names: Sequence[str] | str | None = None) -> dict[str, float | str]:
    """Return the smallest bulk effective sample size, and its value per second of sampling.

    The time is PyMC's ``sampling_time``: wall-clock seconds from the start of the first chain to the end of the last
    one, including tuning but not the compilation of the step method.

    Parameters
    ----------
    idata : DataTree
        With group ``posterior``, whose attribute ``sampling_time`` PyMC sets.
    var_names : str or sequence of str, optional
        By default the hyper-parameters; see :func:`hyperparameter_names`.

    Returns
    -------
    dict
        ``variable`` (the element with the smallest ESS), ``ess``, ``seconds``, ``ess_per_second``.

    Raises
    ------
    ValueError
        If there are fewer than ten draws, or the attribute ``sampling_time`` is missing or not positive.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> idata = az.from_dict({"posterior": {"lengthscale": rng.gamma(2.0, 1.0, (4, 100))}})
    >>> idata["posterior"].attrs["sampling_time"] = 2.0
    >>> found = pmgp.diagnostics.ess_per_second(idata)
    >>> found["variable"], found["seconds"], found["ess"] > 200
    ('lengthscale', 2.0, True)
    """
    import arviz_stats

    posterior = _posterior(idata, var_names)
    if posterior.sizes["draw"] < MIN_DRAWS:
        raise ValueError(f"ESS needs {MIN_DRAWS} draws, but there are {posterior.sizes['draw']}")
    if "sampling_time" not in idata["posterior"].attrs:
        raise ValueError("the posterior has no attribute sampling_time, which PyMC's sample sets")
    seconds = float(idata["posterior"].attrs["sampling_time"])
    if not seconds > 0.0:
        raise ValueError(f"the posterior's attribute sampling_time must be positive, not {seconds:g} s")
    table = arviz_stats.summary(posterior, kind="diagnostics", round_to="none")
    bulk = table["ess_bulk"].astype(float)
    ess = float(bulk.min())
    return {"variable": str(bulk.idxmin()), "ess": ess, "seconds": seconds, "ess_per_second": ess / seconds}


def operation_counts(idata: xr.DataTree) -> dict[str, float]:
    """Return mean operation counts per iteration after tuning, over all chains.

    Parameters
    ----------
    idata : DataTree
        With group ``sample_stats``.

    Returns
    -------
    dict
        The means of those of :data:`OPERATION_STATS` that the step method recorded.

    Raises
    ------
    ValueError
        If there is no group ``sample_stats``.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> idata = az.from_dict({"posterior": {}, "sample_stats": {"n_cholesky": np.array([[2, 4, 3]])}})
    >>> pmgp.diagnostics.operation_counts(idata)
    {'n_cholesky': 3.0}
    """
    if "sample_stats" not in idata:
        raise ValueError("the draws have no group sample_stats, in which step methods count their operations")
    stats = idata["sample_stats"].to_dataset()
    return {name: float(stats[name].mean()) for name in OPERATION_STATS if name in stats}


def _posterior(idata: xr.DataTree, var_names: Sequence[str] | str | None) -> xr.Dataset:
    return idata["posterior"].to_dataset()[chosen_names(idata, var_names)]


def chosen_names(idata: xr.DataTree, var_names: Sequence[str] | str | None) -> list[str]:
    """Return names of variables, those of the hyper-parameters by default; refuse unknown names, and none."""
    known = [str(name) for name in idata["posterior"].data_vars]
    if var_names is None:
        if names := hyperparameter_names(idata):
            return names
        raise ValueError(
            "every variable of the posterior has a dimension as long as the observations, or more than "
            f"{MOST_ELEMENTS} elements, so none counts as a hyper-parameter; name some of them: var_names={known}"
        )
    names = [var_names] if isinstance(var_names, str) else list(var_names)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        which = f"has no {', '.join(map(repr, unknown))}" if unknown else "is asked for no variable"
        raise ValueError(f"the posterior {which}; its variables are {', '.join(known)}")
    return names
