"""Cross-validation: predictive densities of observations that are left out, fold by fold, with chains on any executor.

Left-out observations are missing in the model of a fold, and stay in their places. So a fold needs no new inputs, and
series, maps and groups keep their graph: the chain draws the latent values of all rows, and the density of a left-out
observation is the mean, over the draws, of its density given these values and the hyper-parameters.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from pymc.exceptions import ImputationWarning
from scipy.special import logsumexp

from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.sampling import blocks, fingerprint
from pmgp.interface.sampling.executors import Ended, Executors, check_executor, run_all, table_of
from pmgp.interface.sampling.run import sample
from pmgp.interface.sampling.stored_chain import StoreError

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
) -> xr.Dataset:
    """Return log p(y_i | all observations outside the fold of i) for each observation, from chains for each fold.

    Each fold has chains of its own, so that the result rests on these chains alone. Where its weights are reliable,
    `loo` needs the draws of the complete model only.

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
        See `sample`; of each fold. The chains' seeds follow from `random_seed`, fold and chain alone.
    executor : concurrent.futures.Executor, or a function that makes one, optional
        Runs each chain of each fold as a task of its own, with the same draws; see `sample`. Workers need no shared
        folder. By default, the chains run one after another in this process.
    stall_limit : float
        Seconds without the end of a chain after which workers count as stalled.
    out : str or Path, optional
        A folder for the results of finished chains, which are skipped when the same call is made again.

    Returns
    -------
    xarray.Dataset
        With ``log_density``, ``standard_error`` (from the differences between chains, NaN for one chain) and ``fold``
        for each ``observation``, and ``chain_log_density`` also for each ``chain``. The attributes ``elpd`` and
        ``elpd_standard_error`` are the sum and its standard error over the observations; ``workers`` says what ran
        where and for how long.

    Raises
    ------
    ModelError
        If the observations cannot be left out one by one: there are several observed variables, they have one joint
        density, or `make` does not use the observations that it is given.
    StoreError
        If `out` holds results of another model, other data or other settings.
    WorkerError
        See `sample`.
    ValueError
        For folds that are no partition, and for settings out of range.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> y = (X[:, 0] > 0.5).astype(int)
    >>> found = pmgp.cross_validate(
    ...     lambda y: pmgp.models.classifier(X, y), y, folds=2, draws=50, tune=50, random_seed=1
    ... )
    >>> dict(found.sizes)
    {'observation': 20, 'chain': 2}
    >>> probability = np.where(y == 1, np.exp(found.log_density), 1.0 - np.exp(found.log_density))
    >>> pmgp.scores.log_loss(y, probability) < 0.7
    True
    """
    check_executor(executor, stall_limit)
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be a vector of observations, it has the shape {y.shape}")
    if out is not None and random_seed is None:
        raise ValueError("out= needs a random_seed, from which a chain that is made again has the same draws")
    fold = _partition(folds, len(y), random_seed)
    _check(make, y, fold == 0)
    model = fingerprint.of_model(make(y))
    settings = Validation(draws, tune, chains, random_seed, fold.tolist(), model)
    work = FoldWork(make, y, fold, settings, None if out is None else Path(out), stall_limit)
    run_all(executor, work)
    return work.found()


def _partition(folds: int | ArrayLike, n: int, seed: int | None) -> np.ndarray:
    """Return the fold of each observation."""
    if isinstance(folds, int | np.integer):
        if not 2 <= folds <= n:
            raise ValueError(f"folds must be from 2 to the number of observations, {n}, not {folds}")
        return np.random.default_rng(seed).permutation(np.arange(n) % folds)
    given = np.asarray(folds)
    if given.shape != (n,) or not np.array_equal(np.unique(given), np.arange(given.max() + 1)) or given.max() < 1:
        raise ValueError(f"folds must be a fold 0, 1, ... for each of the {n} observations, and at least two folds")
    return given.astype(int)


def _check(make: Make, y: np.ndarray, left_out: np.ndarray) -> None:
    """Refuse a model whose observations cannot be left out one by one."""
    model = make(y)
    if len(model.observed_RVs) != 1:
        names = ", ".join(rv.name for rv in model.observed_RVs) or "none"
        raise ModelError(f"the model must have one observed variable, whose rows are left out; it has {names}")
    [observed] = model.observed_RVs
    [terms] = model.logp(vars=[observed], sum=False)
    if terms.ndim != 1:
        raise ModelError(
            f"{observed.name!r} has one joint density for its observations, which cannot be left out one by one; a "
            "likelihood that factorizes given latent values can be split"
        )
    shapes = _of_fold(make, y, left_out).eval_rv_shapes()
    if shapes.get(f"{observed.name}_unobserved") != (int(left_out.sum()),):
        raise ModelError(
            f"make(y) must use its argument as observed= of {observed.name!r}: in a fold it is a masked array, and the "
            "masked observations are not missing in the model"
        )


def _of_fold(make: Make, y: np.ndarray, left_out: np.ndarray) -> pm.Model:
    """Return the model of a fold, without PyMC's warning about the observations that are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)
        return make(np.ma.masked_array(y, left_out))


def _chain(make: Make, y: np.ndarray, left_out: np.ndarray, settings: Validation, seed: np.random.SeedSequence) -> Any:
    """Return the log-density of each left-out observation by one chain; this runs in a worker."""
    model = _of_fold(make, y, left_out)
    options: dict[str, Any] = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    rng = np.random.default_rng(seed)
    idata = sample(model, draws=settings.draws, tune=settings.tune, chains=1, cores=1, random_seed=rng, **options)
    complete = make(y)
    found: Any = pm.compute_log_likelihood(idata, model=complete, extend_inferencedata=False, progressbar=False)
    terms = found[complete.observed_RVs[0].name].to_numpy()[0][:, left_out]
    return (logsumexp(terms, axis=0) - np.log(len(terms))).tolist()


class FoldWork:
    """The chains of all folds that are not stored, as work for an executor."""

    advice = "Chains that ended are in the folder out=, if one was given; the same call with it skips them"

    def __init__(
        self, make: Make, y: np.ndarray, fold: np.ndarray, settings: Validation, out: Path | None, stall_limit: float
    ) -> None:
        self.fold, self.settings, self.out, self.stall_limit = fold, settings, out, stall_limit
        seeds = np.random.SeedSequence(settings.random_seed).spawn((fold.max() + 1) * settings.chains)
        self.cells = [(k, chain) for k in range(fold.max() + 1) for chain in range(settings.chains)]
        self.results = {cell: result for cell in self.cells if (result := self._stored(cell)) is not None}
        self.new = [cell for cell in self.cells if cell not in self.results]
        self._calls = [
            partial(_chain, make, y, fold == cell[0], settings, seed)
            for cell, seed in zip(self.cells, seeds, strict=True)
            if cell in self.new
        ]
        self._rows: list[tuple[str, Ended]] = []

    def begin(self) -> Sequence[Callable[[], Any]]:
        """Return a call for each chain that is not stored."""
        return self._calls

    def moved(self) -> None:
        """Return None: nothing is seen of a chain before it ends."""

    def ended(self, one: Ended) -> None:
        """Keep the result of a chain."""
        fold, chain = cell = self.new[one.number]
        self.results[cell] = one.result
        self._rows.append((f"fold {fold}, chain {chain}", one))
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            document = {"settings": asdict(self.settings), "log_density": one.result}
            blocks.replace_text(self._path(cell), json.dumps(document))

    def stop(self) -> None:
        """Do nothing: the chain of a fold runs to its end, and its result is dropped."""

    def _path(self, cell: tuple[int, int]) -> Path:
        assert self.out is not None
        return self.out / f"fold-{cell[0]}-chain-{cell[1]}.json"

    def _stored(self, cell: tuple[int, int]) -> list[float] | None:
        if self.out is None or not self._path(cell).is_file():
            return None
        document = json.loads(self._path(cell).read_text())
        if document["settings"] != asdict(self.settings):
            raise StoreError(
                f"{self._path(cell)} was made with another model, other observations or other settings: give out= "
                "another folder"
            )
        return document["log_density"]

    def found(self) -> xr.Dataset:
        """Return the densities of all observations."""
        by_chain = np.empty((self.settings.chains, len(self.fold)))
        for (fold, chain), result in self.results.items():
            by_chain[chain, self.fold == fold] = result
        chains = len(by_chain)
        log_density = logsumexp(by_chain, axis=0) - np.log(chains)
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.square(np.exp(by_chain - log_density) - 1.0).sum(axis=0)
            standard_error = np.sqrt(spread / (chains - 1) / chains) if chains > 1 else np.full(len(self.fold), np.nan)
        elpd_error = float(np.sqrt(len(self.fold)) * log_density.std(ddof=1))
        attributes = {"elpd": float(log_density.sum()), "elpd_standard_error": elpd_error}
        return xr.Dataset(
            {
                "log_density": ("observation", log_density),
                "standard_error": ("observation", standard_error),
                "fold": ("observation", self.fold),
                "chain_log_density": (("chain", "observation"), by_chain),
            },
            attrs=attributes | {"workers": table_of(self._rows)},
        )
