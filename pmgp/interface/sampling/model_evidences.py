"""Evidences of several models: each is sampled and integrated as one task, on any executor."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pmgp.interface.executors import Executors, check_executor
from pmgp.interface.importance.evidence import OF_WEIGHTS, evidence
from pmgp.interface.sampling import fingerprint
from pmgp.interface.sampling.cross_validation import LONGEST_CHAIN
from pmgp.interface.sampling.run import sample
from pmgp.interface.sampling.stored_cells import StoredCells

NUMBERS = ("log_evidence", "standard_error", "pareto_k", "effective_size", "trusted")


@dataclass(frozen=True)
class Integration:
    """Everything that determines the evidences, with the fingerprints of the models."""

    draws: int
    tune: int | None
    chains: int
    theta_draws: int
    random_seed: int | None
    models: dict[str, dict[str, Any]]


def evidences(
    models: Mapping[str, pm.Model],
    *,
    draws: int = 1000,
    tune: int | None = None,
    chains: int = 2,
    theta_draws: int = 1000,
    random_seed: int | None = None,
    executor: Executors | None = None,
    stall_limit: float = LONGEST_CHAIN,
    out: str | Path | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Return log p(y) of several models, each with its standard error.

    Each model is sampled by `sample`, and its evidence is estimated by `evidence`. Differences between the evidences of
    models of the same data are log Bayes factors.

    Parameters
    ----------
    models : mapping of str to pymc.Model
    draws, tune, chains
        See `sample`. The chains of a model run one after another.
    theta_draws : int
        The ``draws`` of `evidence`.
    random_seed : int, optional
        The seed of each model follows from it and the model's place.
    executor : concurrent.futures.Executor, or a function that makes one, optional
        Runs each model as a task of its own, with the same results; see `sample`. Workers need no shared folder. By
        default, the models are sampled one after another in this process.
    stall_limit : float
        Seconds without the end of a task after which workers count as stalled.
    out : str or Path, optional
        A folder, or an address as for `sample`, for the results, which are not computed again when the same call is
        made again. It needs a `random_seed`.
    progressbar : bool

    Returns
    -------
    xarray.Dataset
        With ``log_evidence``, ``standard_error``, ``pareto_k``, ``effective_size`` and ``trusted`` for each ``model``;
        see `evidence`. The attribute ``workers`` says what ran where and for how long.

    Warns
    -----
    UserWarning
        As `evidence` does, with the model's name, except about weights, whose numbers are in the result.

    Raises
    ------
    ModelError, ValueError
        See `sample` and `evidence`.
    StoreError
        If `out` holds results of other models, other data or other settings, or a damaged file.
    WorkerError
        If a model cannot be pickled; see `sample`.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> models = {name: pmgp.models.classifier(X, X[:, 0] > 0.5, kernel=name) for name in ("rbf", "matern32")}
    >>> found = pmgp.evidences(models, draws=200, tune=200, theta_draws=300, random_seed=1, progressbar=False)
    >>> log_bayes_factor = float(found.log_evidence.sel(model="rbf") - found.log_evidence.sel(model="matern32"))
    >>> bool(abs(log_bayes_factor) < 1.0 and found.trusted.all())
    True
    """
    check_executor(executor, stall_limit)
    if not isinstance(models, Mapping) or not models:
        raise ValueError("models must be a dictionary of models by name, with one at least")
    if out is not None and random_seed is None:
        raise ValueError("out= needs a random_seed, so that a model that is sampled again has the same draws")
    prints = {name: fingerprint.of_model(model) for name, model in models.items()}
    settings = Integration(draws, tune, chains, theta_draws, random_seed, prints)
    seeds = np.random.SeedSequence(random_seed).spawn(len(models))
    calls: dict[str, Callable[[], Any]] = {
        name: partial(_integrated, model, settings, seed)
        for (name, model), seed in zip(models.items(), seeds, strict=True)
    }
    cells = StoredCells(asdict(settings), out)
    table = cells.complete(calls, executor, stall_limit, "Models" if progressbar else None)
    for name in models:
        for text in cells.results[name]["warnings"]:
            warnings.warn(f"model {name!r}: {text}", stacklevel=2)
    columns = {name: ("model", [cells.results[model][name] for model in models]) for name in NUMBERS}
    return xr.Dataset(columns, coords={"model": list(models)}, attrs={"workers": table})


def _integrated(model: pm.Model, settings: Integration, seed: np.random.SeedSequence) -> dict[str, Any]:
    """Return the evidence of a model, with warnings about other things than its weights; this runs in a worker."""
    drawing, weighing = map(np.random.default_rng, seed.spawn(2))
    options: dict[str, Any] = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    chains: dict[str, Any] = {"draws": settings.draws, "tune": settings.tune, "chains": settings.chains, "cores": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        idata = sample(model, **chains, random_seed=drawing, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        found = evidence(idata, model=model, draws=settings.theta_draws, random_seed=weighing, progressbar=False)
    trust = found.trust
    said = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    values = (found.log_evidence, found.standard_error, trust.pareto_k, trust.effective_size, trust.reliable)
    numbers = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in zip(NUMBERS, values, strict=True)
    }
    return numbers | {"warnings": [text for text in said if not text.startswith(OF_WEIGHTS)]}
