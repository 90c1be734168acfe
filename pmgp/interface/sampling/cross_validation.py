"""Cross-validation: predictive densities of observations that are left out, fold by fold, with chains on any executor.

Left-out observations are missing in the model of a fold, and stay in their places. So a fold needs no new inputs, and
series, maps and groups keep their graph: the chain draws the latent values of all rows, and the density of a left-out
observation is the mean, over the draws, of its density given these values and the hyper-parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from pymc.exceptions import ImputationWarning
from scipy.special import logsumexp

from pmgp.core.numerics.arrays import refuse_masked
from pmgp.interface.executors import Executors, check_executor
from pmgp.interface.model.inducing_process import inducing_processes
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.sampling import fingerprint
from pmgp.interface.sampling.run import sample
from pmgp.interface.sampling.stored_cells import StoredCells

LONGEST_CHAIN = 6 * 3600.0
"""Seconds that a chain of a fold may take, by default, while no other chain ends."""

type Make = Callable[[np.ndarray], pm.Model]


@dataclass(frozen=True)
class Validation:
    """Everything that determines the results of a cross-validation, with the fingerprint of the complete model."""

    draws: int
    tune: int | None
    chains: int
    random_seed: int | None
    folds: list[int]
    model: dict[str, Any]


def cross_validate(
    make: Make,
    y: ArrayLike,
    *,
    folds: int | ArrayLike = 5,
    draws: int = 1000,
    tune: int | None = None,
    chains: int = 2,
    random_seed: int | None = None,
    executor: Executors | None = None,
    stall_limit: float = LONGEST_CHAIN,
    out: str | Path | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Return log p(y_i | all observations outside the fold of i) for each observation, from chains for each fold.

    Each fold has chains of its own, and the result depends on these chains alone. If its weights are reliable, `loo`
    needs only the draws of the complete model.

    Parameters
    ----------
    make : callable
        Takes the observations and returns a PyMC model with them as ``observed`` of its only observed variable. For a
        fold they are a masked array, whose masked values PyMC treats as missing. Inputs, times and groups are those of
        all rows.
    y : (n,) array
        All observations.
    folds : int or (n,) array of int
        A number of folds of about equal sizes, into which observations are drawn at random, or the fold of each
        observation, counted from 0.
    draws, tune, chains, random_seed
        As for `sample`, for each fold. The chains' seeds depend only on `random_seed`, the fold and the chain.
    executor : concurrent.futures.Executor, or a function that makes one, optional
        Runs each chain of each fold as a task of its own, with the same draws; see `sample`. Workers need no shared
        folder. By default, the chains run one after another in this process.
    stall_limit : float
        Seconds without the end of a chain after which workers count as stalled.
    out : str or Path, optional
        A folder, or an address as for `sample`, for the results of finished chains, which are skipped when the same
        call is made again. It needs a `random_seed`.
    progressbar : bool

    Returns
    -------
    xarray.Dataset
        With ``log_density``, ``standard_error`` (of Monte Carlo: from the autocorrelation within chains, or from the
        differences between them if these are larger; NaN for one chain of fewer than four draws) and ``fold`` for each
        ``observation``, and ``chain_log_density`` for each ``observation`` and ``chain``. The attributes
        ``elpd`` and ``elpd_standard_error`` are the sum and its standard error over the observations; ``workers`` says
        what ran where and for how long.

    Raises
    ------
    ModelError
        If the observations cannot be left out one by one: there are several observed variables, they have one joint
        density, `make` does not use the observations that it is given, or they are those of a process on inducing
        inputs, for which there are `Sparse.compute_log_likelihood` and `Sparse.predict`.
    StoreError
        If `out` holds results of another model, other data or other settings.
    TypeError
        If `make` takes other arguments than the observations.
    WorkerError
        See `sample`.
    ValueError
        For folds that are not a partition, and for settings out of range.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> def make(y):
    ...     with pm.Model() as model:
    ...         gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern52(1, pm.Gamma("lengthscale", 2, 4)))
    ...         f = gp.prior("f", X=X, reparameterize=False)
    ...         pmgp.BernoulliProbit("y", f, observed=y)
    ...     return model
    >>> y = (X[:, 0] > 0.5).astype(int)
    >>> found = pmgp.cross_validate(
    ...     make, y, folds=2, draws=50, tune=50, chains=1, random_seed=1, progressbar=False
    ... )
    >>> dict(found.sizes)
    {'observation': 20, 'chain': 1}
    >>> probability = np.where(y == 1, np.exp(found.log_density), 1.0 - np.exp(found.log_density))
    >>> pmgp.scores.log_loss(y, probability) < 0.7
    True
    """
    check_executor(executor, stall_limit)
    _check_signature(make)
    refuse_masked("y", y)
    y = np.asarray(y)
    if y.dtype.kind == "f" and np.isnan(y).any():
        raise ValueError(f"y has NaN in row {np.flatnonzero(np.isnan(y))[0]}: leave out the rows without observations")
    if chains < 1:
        raise ValueError(f"chains must be at least 1, not {chains}")
    if y.ndim != 1:
        raise ValueError(f"y must be a vector of observations, not of shape {y.shape}")
    if out is not None and random_seed is None:
        raise ValueError("out= needs a random_seed, so that a chain that is made again has the same draws")
    fold = _partition(folds, len(y), random_seed)
    _check(make, y, fold == 0)
    model = fingerprint.of_model(make(y))
    settings = Validation(draws, tune, chains, random_seed, fold.tolist(), model)
    cells = StoredCells(asdict(settings), out)
    table = cells.complete(_calls(make, y, fold, settings), executor, stall_limit, "Chains" if progressbar else None)
    return _found(fold, chains, cells.results).assign_attrs(workers=table)


def _partition(folds: int | ArrayLike, n: int, seed: int | None) -> np.ndarray:
    """Return the fold of each observation."""
    if isinstance(folds, int | np.integer):
        if not 2 <= folds <= n:
            raise ValueError(f"folds must be from 2 to the number of observations, {n}, not {folds}")
        return np.random.default_rng(seed).permutation(np.arange(n) % folds)
    refuse_masked("folds", folds)
    given = np.asarray(folds)
    if given.dtype.kind not in "iub" and not (given.dtype.kind == "f" and np.isfinite(given).all()):
        raise ValueError(f"folds must be a whole number, or a whole number for each observation, not {folds!r}")
    if given.shape != (n,) or not np.array_equal(np.unique(given), np.arange(given.max() + 1)) or given.max() < 1:
        raise ValueError(f"folds must give a fold 0, 1, ... for each of the {n} observations, with at least two folds")
    return given.astype(int)


def _check_signature(make: Make) -> None:
    """Refuse a function that cannot be called with the observations alone."""
    try:
        parameters = signature(make)
    except ValueError:
        # Some functions written in C have none.
        return
    try:
        parameters.bind(None)
    except TypeError as error:
        raise TypeError(
            f"make must take the observations and nothing else ({error}). Inputs stay those of all rows, and make "
            "finds them outside: lambda y: pmgp.models.classifier(X, y)"
        ) from error


def _check(make: Make, y: np.ndarray, left_out: np.ndarray) -> None:
    """Refuse a model whose observations cannot be left out one by one."""
    model = make(y)
    for name in inducing_processes(model):
        raise ModelError(
            f"{name!r} has the values at the inducing inputs of a pmgp.gp.Sparse, which takes no missing observations, "
            "so that cross_validate cannot leave any out. gp.compute_log_likelihood(idata) and arviz.loo need only the "
            "draws of the complete model; for folds, sample a model of the other rows, and call gp.predict(idata, "
            "X_left_out, observed=y_left_out)"
        )
    if len(model.observed_RVs) != 1:
        names = ", ".join(rv.name for rv in model.observed_RVs) or "none"
        raise ModelError(f"the model must have one observed variable, whose rows are left out; it has {names}")
    [observed] = model.observed_RVs
    [terms] = model.logp(vars=[observed], sum=False)
    if terms.ndim != 1:
        raise ModelError(
            f"{observed.name!r} has one joint density for its observations, which cannot be left out one by one; a "
            "likelihood that factorizes given latent values can be split. In place of pm.gp.Marginal use pm.gp.Latent "
            "and pm.Normal('y', f, noise)"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)
        fold = make(np.ma.masked_array(y, left_out))
    shapes = fold.eval_rv_shapes()
    if shapes.get(f"{observed.name}_unobserved") != (int(left_out.sum()),):
        raise ModelError(
            f"make(y) must use its argument as observed= of {observed.name!r}: in a fold it is a masked array, and the "
            "masked observations are not missing in the model"
        )


def _chain(
    make: Make, y: np.ndarray, left_out: np.ndarray, settings: Validation, seed: np.random.SeedSequence
) -> dict[str, list[float]]:
    """Return the log-density of each left-out observation by one chain, and its error; this runs in a worker."""
    from arviz_stats.base import array_stats

    options: dict[str, Any] = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        # PyMC warns that missing observations have no starting point; they are drawn.
        warnings.simplefilter("ignore", UserWarning)
        model = make(np.ma.masked_array(y, left_out))
        idata = sample(model, draws=settings.draws, tune=settings.tune, chains=1, cores=1, random_seed=rng, **options)
    complete = make(y)
    found: Any = pm.compute_log_likelihood(idata, model=complete, extend_inferencedata=False, progressbar=False)
    terms = found[complete.observed_RVs[0].name].to_numpy()[0][:, left_out]
    log_density = logsumexp(terms, axis=0) - np.log(len(terms))
    relative = np.exp(terms - log_density)
    # Draws along the last axis, after that of the one chain.
    error = array_stats.mcse(relative.T[:, None], method="mean")
    return {"log_density": log_density.tolist(), "standard_error": error.tolist()}


def _calls(make: Make, y: np.ndarray, fold: np.ndarray, settings: Validation) -> dict[str, Callable[[], Any]]:
    """Return a call for each chain of each fold, with a seed of its own."""
    cells = [(k, chain) for k in range(fold.max() + 1) for chain in range(settings.chains)]
    seeds = np.random.SeedSequence(settings.random_seed).spawn(len(cells))
    return {
        _name(k, chain): partial(_chain, make, y, fold == k, settings, seed)
        for (k, chain), seed in zip(cells, seeds, strict=True)
    }


def _name(fold: int, chain: int) -> str:
    return f"fold {fold}, chain {chain}"


def _found(fold: np.ndarray, chains: int, results: dict[str, dict[str, list[float]]]) -> xr.Dataset:
    """Return the densities of all observations, with their errors."""
    by_chain, errors = np.empty((2, chains, len(fold)))
    for k in range(fold.max() + 1):
        for chain in range(chains):
            result = results[_name(k, chain)]
            by_chain[chain, fold == k], errors[chain, fold == k] = result["log_density"], result["standard_error"]
    log_density = logsumexp(by_chain, axis=0) - np.log(chains)
    ratios = np.exp(by_chain - log_density)
    within = np.sqrt(np.square(ratios * errors).sum(axis=0)) / chains
    squares = np.square(ratios - 1.0).sum(axis=0)
    between = np.sqrt(squares / (chains - 1) / chains) if chains > 1 else np.full(len(fold), np.nan)
    # Two chains that happen to agree say little about the error.
    standard_error = np.fmax(within, between)
    return xr.Dataset(
        {
            "log_density": ("observation", log_density),
            "standard_error": ("observation", standard_error),
            "fold": ("observation", fold),
            "chain_log_density": (("chain", "observation"), by_chain),
        },
        attrs={
            "elpd": float(log_density.sum()),
            "elpd_standard_error": float(np.sqrt(len(fold)) * log_density.std(ddof=1)),
        },
    )
