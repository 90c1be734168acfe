"""`sample` and `resume`: a run from the choice of step methods to the report on its draws."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Any

import pymc as pm
import xarray as xr
from pymc.pytensorf import resolve_backend_compile_kwargs
from pymc.sampling.mcmc import assign_step_methods, get_default_tune_steps, instantiate_steppers
from pymc.step_methods.compound import BlockedStep, CompoundStep, flatten_steps

from pmgp.core.numerics.arrays import is_whole
from pmgp.interface.executors import STALL_LIMIT, Executors, check_executor
from pmgp.interface.model.context import current_model
from pmgp.interface.recommendation import Recommendation, recommend
from pmgp.interface.sampling.address import Address, Folder, folder_of
from pmgp.interface.sampling.drawing import NoDrawsError, Run
from pmgp.interface.sampling.inducing_starts import fitted_gaussian, follow
from pmgp.interface.sampling.permit import withdraw
from pmgp.interface.sampling.report import ENOUGH
from pmgp.interface.sampling.stored_run import RunSettings, Seed, StoredRun, any_chain, check_free, delete
from pmgp.interface.sampling.vectorized import VectorizedRun, vectorized
from pmgp.interface.sampling.weighted import weighted
from pmgp.interface.steps import PseudoMarginal

_log = logging.getLogger("pymc.pmgp")

MOST = 20
"""The largest multiple of the requested draws that is made to reach a number of effective draws."""
REFUSED = ("nuts_sampler", "nuts_sampler_kwargs", "return_inferencedata", "target_accept", "trace")
OF_RUN = ("initvals", "chains", "tune", "random_seed", "max_draws", "chain_method")
"""Arguments of :func:`sample` that cannot change when a run continues."""


type Steps = BlockedStep | CompoundStep | Sequence[BlockedStep | CompoundStep]


def sample(
    model: pm.Model | None = None,
    *,
    draws: int = 1000,
    tune: int | None = None,
    chains: int = 4,
    cores: int | None = None,
    random_seed: Any = None,
    step: Steps | None = None,
    ess: float | None = None,
    max_draws: int | None = None,
    out: str | Path | None = None,
    flush_every: float = 1.0,
    executor: Executors | None = None,
    stall_limit: float = STALL_LIMIT,
    chain_method: str = "parallel",
    **options: Any,
) -> xr.DataTree:
    """Sample a model with a latent Gaussian process, and report whether the draws can be relied on.

    The draws are those that ``pymc.sample`` makes with the same step methods, seed and ``initvals``. Without
    ``initvals``, chains of a process on inducing inputs start from :func:`pmgp.gp.optimize_inducing`, with the inducing
    inputs fixed, and from draws of its Gaussian that follow from `random_seed`; ``initvals={}`` uses the model's own
    initial point.

    Parameters
    ----------
    model : pymc.Model, optional
        The model of the ``with`` block by default.
    draws : int
        Draws of each chain, after tuning.
    tune : int, optional
        Tuning iterations of each chain; by default the step methods choose the number.
    chains, cores, random_seed
        See ``pymc.sample``.
    step : step method or sequence of them, optional
        By default the recommendation of `recommend`; with inducing inputs, several outputs and no `initvals` it is
        :class:`SparseGibbs`, with the Gaussian from which chains start as its ``approximation``. PyMC chooses step
        methods for the remaining variables. If `importance` is recommended, for many points and few hyper-parameters or
        multivariate normal observations, it makes a single chain of about `ess` independent draws, by default 400, or
        as many as `draws` and `chains` ask for if these are fewer. Chains are run if its weights cannot be trusted, or
        if `out` or ``initvals`` is given.
    ess : float, optional
        Continue until each variable has this many effective draws (the smaller of bulk and tail, over all chains), or
        until `max_draws`. The chains do not tune again, so their draws are those of one longer run.
    max_draws : int, optional
        Largest number of draws of each chain; twenty times `draws` by default. Only with `ess`.
    out : str or Path, optional
        A new or empty folder in which draws and sampling states are stored as they are made. If the run is interrupted,
        by Ctrl-C or a kill, `resume` continues it. An address that ``fsspec`` reaches, such as ``"s3://bucket/run"``,
        needs the extra ``pmgp[cluster]``.
    flush_every : float
        Seconds between two writes, for each chain. It does not change the draws.
    executor : concurrent.futures.Executor, or a function that makes one, optional
        The executor that runs each chain as a task of its own, with the same draws: a ``ProcessPoolExecutor``,
        including one of spawned processes, or ``client.get_executor()`` of a Dask client. `out` must be a folder that
        all workers share; without it, all must be on this machine. The number of threads of each chain follows from
        `cores`. If a worker dies and breaks its executor, a function, such as
        ``functools.partial(ProcessPoolExecutor, 4)``, is called again, and chains continue from the store; with an
        executor, the error says how to continue.
    stall_limit : float
        Seconds without a new iteration of any chain in the store, and without the end of a chain, after which the
        workers of `executor` count as stalled. It must exceed `flush_every`, the time of an iteration, and the time
        until workers begin.
    chain_method : {"parallel", "vectorized"}
        With ``"vectorized"``, one JAX program (the extra ``pmgp[jax]``) moves all chains together, in this process: the
        chain of :class:`PseudoMarginal` with importance samples, for one latent vector with a covariance matrix and a
        likelihood with a term for each latent value. Chains share what they learn while they tune. Proposals whose
        approximation does not converge are rejected, as the statistic ``converged`` shows. `step` may be a
        ``PseudoMarginal(backend="jax")``, whose settings are used. Draws are not stored, and there is no `ess`.
    **options
        Further arguments of ``pymc.sample``, except those that select other samplers or forms of the result. With
        `out`, ``initvals`` must be numbers, arrays, or names.

    Returns
    -------
    DataTree
        See ``pymc.sample``; its attribute ``pmgp_report`` holds the logged report.

    Raises
    ------
    ModelError
        If no step method suits the model; see `recommend`.
    StoreError
        If `out` is not empty or not a folder, or if a worker of `executor` does not share it or cannot write to it; if
        its store would not notice a second writer, or is in the memory of one process while several are to write.
    OSError
        If `out` cannot be written to.
    NoDrawsError
        If the run is interrupted during tuning; a ``pymc.exceptions.SamplingError``.
    WorkerError
        If workers of `executor` die, stall, lack a package, or have other versions, or if the step method cannot be
        pickled.
    ImportError
        If ``chain_method="vectorized"`` needs JAX, and it is not installed.
    MemoryError
        If vectorized chains do not fit into the memory of the device.
    ValueError
        For settings out of range, and for refused options.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> idata = pmgp.sample(model, ess=100, draws=200, tune=200, chains=2, random_seed=1, progressbar=False)
    >>> sorted(idata.posterior.data_vars)
    ['f', 'lengthscale', 'variance']
    >>> print(idata.attrs["pmgp_report"])
    R-hat at most 1.0..., effective draws at least ... (bulk) and ... (tail), ...
    """
    _check_counts(draws=draws, tune=tune, chains=chains, cores=cores)
    _check(draws, ess, max_draws, flush_every, options)
    check_executor(executor, stall_limit, flush_every)
    model = current_model(model)
    if chain_method != "parallel":
        _check_vectorized(chain_method, {"cores": cores, "ess": ess, "out": out, "executor": executor})
        tuned = PseudoMarginal.default_tune_steps if tune is None else int(tune)
        seed = Seed.from_random_seed(random_seed)
        return vectorized(model, step, VectorizedRun(int(draws), tuned, int(chains), seed), options)
    _check_initvals(model, options.get("initvals"))
    recommendation = recommend(model) if step is None else None
    chained = out is not None or "initvals" in options
    if recommendation is not None and not options.get("quiet"):
        _log.info(_announcement(recommendation, chained))
    if recommendation is not None and recommendation.weighted and not chained:
        needed = min(int(draws) * int(chains), ENOUGH) if ess is None else ess
        generator = Seed.from_random_seed(random_seed).separate_generator()
        drawn = weighted(model, needed, generator, executor, _compilation(options), **_shown(options))
        if drawn is not None:
            return drawn
    made = _assembled(model, step if recommendation is None else recommendation.steps(), options)
    folder = None if out is None else folder_of(out)
    if folder is not None:
        check_free(folder)
    settings = RunSettings(
        int(draws),
        int(get_default_tune_steps(made, tune)),
        int(chains),
        # PyMC's default, made explicit because a stored run continues with the same number.
        min(4, max(1, (os.cpu_count() or 2) // 2)) if cores is None else int(cores),
        None if ess is None else float(ess),
        MOST * int(draws) if max_draws is None else int(max_draws),
        Seed.from_random_seed(random_seed),
    )
    initvals, stored = options.pop("initvals", None), None
    if folder is not None:
        _check_seen(folder, settings, executor)
        stored = StoredRun.create(folder, settings, model, made, initvals)
    try:
        if initvals is None:
            initvals = _fitted(model, made, settings, options, stored, follows=step is None)
        run = Run(model, made, settings, initvals, options, folder, flush_every, executor, stall_limit)
        return run.completed()
    except Exception as error:
        # PyMC may refuse an option, for instance: the same folder can be given again. An interrupted run can go on.
        if folder is not None and not isinstance(error, NoDrawsError) and not any_chain(folder):
            delete(folder)
        raise


def resume(
    out: str | Path,
    model: pm.Model | None = None,
    *,
    step: Steps | None = None,
    draws: int | None = None,
    ess: float | None = None,
    cores: int | None = None,
    flush_every: float = 1.0,
    executor: Executors | None = None,
    stall_limit: float = STALL_LIMIT,
    **options: Any,
) -> xr.DataTree:
    """Continue a run that was interrupted, or make one longer.

    The draws are those that the run would have given without an interruption, bit for bit with the same versions of the
    packages on the same machine. There is one exception, if PyMC's own step methods, such as NUTS, move some variables:
    see "Saving and loading". Each chain continues from its last whole state, and later draws are made again.

    Parameters
    ----------
    out : str or Path
        The folder or the address that was given to `sample`.
    model : pymc.Model, optional
        The same model with the same data; the model of the ``with`` block by default.
    step : step method or sequence of them, optional
        The step methods that were given to `sample`.
    draws : int, optional
        Total number of draws of each chain, at least as many as there are, by default that of the run.
    ess : float, optional
        Continue until there are this many effective draws; see `sample`.
    cores : int, optional
        Number of chains that run at the same time, by default as before. Above a thousand points this also affects the
        number of BLAS threads, and therefore rounding.
    flush_every, executor, stall_limit
        See `sample`.
    **options
        See `sample`; ``initvals``, ``chains``, ``tune`` and the seed are those of the run.

    Returns
    -------
    DataTree
        All draws, including those before the interruption.

    Raises
    ------
    StoreError
        If there is no run in the folder, if its description is damaged, if another process writes to it, or if the
        model or the step methods are not those of the run. Damaged draws or states of a chain are not an error: a
        warning reports them, and the chain continues from the last whole state.
    ValueError
        For settings out of range, and for refused options.

    Examples
    --------
    >>> import numpy as np, pmgp, tempfile
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> folder = tempfile.mkdtemp()
    >>> settings = dict(tune=50, chains=2, cores=1, random_seed=1, progressbar=False)
    >>> idata = pmgp.sample(model, draws=50, out=folder, **settings)
    >>> longer = pmgp.resume(folder, model, draws=100, progressbar=False)
    >>> dict(longer.posterior.sizes)["draw"]
    100
    >>> bool((longer.posterior["f"][:, :50] == idata.posterior["f"]).all())
    True
    """
    _check_counts(draws=draws, cores=cores)
    _refuse_of_run(options)
    _check(1, ess, None, flush_every, options)
    check_executor(executor, stall_limit, flush_every)
    model = current_model(model)
    run = StoredRun.load(folder_of(out))
    recommendation = recommend(model) if step is None else None
    if recommendation is not None and not options.get("quiet"):
        _log.info(_announcement(recommendation, chained=True))
    made = _assembled(model, step if recommendation is None else recommendation.steps(), options)
    run.check(model, made)
    if draws is not None:
        _refuse_fewer(run, int(draws))
    if draws is not None or ess is not None:
        effective = None if ess is None else float(ess)
        run = run.aiming_at(run.settings.draws if draws is None else int(draws), effective, MOST)
    if not options.get("quiet"):
        _say_where(run)
    made.sampling_state, initvals = run.start()
    settings = run.settings if cores is None else replace(run.settings, cores=cores)
    _check_seen(run.folder, settings, executor)
    # Workers of an executor do not end with a process that was killed, and would keep their chains.
    withdraw(run.folder)
    if initvals is None and not any_chain(run.folder):
        initvals = _fitted(model, made, settings, options, run, follows=step is None)
    return Run(model, made, settings, initvals, options, run.folder, flush_every, executor, stall_limit).completed()


def _fitted(
    model: pm.Model,
    made: BlockedStep | CompoundStep,
    settings: RunSettings,
    options: dict[str, Any],
    stored: StoredRun | None,
    *,
    follows: bool,
) -> list[dict[str, Any]] | None:
    """Return draws of the Gaussian that is fitted to a process on inducing inputs, and store them; None without one.

    With `follows`, the step methods use the Gaussian.
    """
    found = fitted_gaussian(model, **_shown(options))
    if found is None:
        return None
    if follows:
        follow(made, found, model)
    initvals = found.initvals(settings.chains, settings.seed.separate_generator())
    if stored is not None:
        stored.begin(made, initvals)
    return initvals


def _check_counts(**given: int | None) -> None:
    for name, value in given.items():
        least = 0 if name == "tune" else 1
        if value is not None and not is_whole(value, least):
            raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")


def _refuse_fewer(run: StoredRun, draws: int) -> None:
    made = max(chain.iterations for chain in run.chains()) - run.settings.tune
    if draws < made:
        raise ValueError(
            f"the run in {run.folder} has {made} draws of a chain, and draws={draws} is their total number, not the "
            "number of further draws: give as many or more"
        )


def _refuse_of_run(options: dict[str, Any]) -> None:
    for name in OF_RUN:
        if name in options:
            raise ValueError(f"{name} is that of the run: leave it out, or begin a new run with pmgp.sample")


def _check(draws: int, ess: Any, max_draws: int | None, flush_every: float, options: dict[str, Any]) -> None:
    if ess is not None and not 0 < ess < inf:
        raise ValueError(f"ess must be positive and finite, not {ess}")
    if max_draws is not None and (ess is None or max_draws < draws):
        raise ValueError(f"max_draws={max_draws} needs ess, and must be at least draws={draws}")
    if not flush_every >= 0:
        raise ValueError(f"flush_every must be a number of seconds, not {flush_every}")
    if options.get("var_names") == []:
        raise ValueError("var_names is empty: name the variables to keep, or leave it out to keep all")
    refused = sorted({*REFUSED} & options.keys())
    if refused:
        raise ValueError(f"{refused[0]} cannot be given here; use pymc.sample(step=...) instead")
    if ess is not None and "callback" in options:
        raise ValueError("callback cannot be given together with ess, which calls pymc.sample several times")


def _check_initvals(model: pm.Model, initvals: Any) -> None:
    """Refuse initial values of variables that the model does not have."""
    known = {*model.named_vars, *(value.name for value in model.value_vars)}
    for values in initvals if isinstance(initvals, list | tuple) else [initvals]:
        names = [getattr(variable, "name", variable) for variable in values or ()]
        foreign = [name for name in names if name not in known]
        if foreign:
            free = ", ".join(rv.name for rv in model.free_RVs)
            raise ValueError(f"initvals has {foreign[0]!r}, which the model does not have; its free variables: {free}")


def _check_vectorized(chain_method: str, given: dict[str, Any]) -> None:
    if chain_method != "vectorized":
        raise ValueError(f'chain_method must be "parallel" or "vectorized", not {chain_method!r}')
    refused = [name for name, value in given.items() if value is not None and (name, value) != ("cores", 1)]
    if refused:
        raise ValueError(
            f'chain_method="vectorized" runs in one program of this process and stores nothing: leave out '
            f'{refused[0]}, or use chain_method="parallel"'
        )


def _check_seen(folder: Folder, settings: RunSettings, executor: Executors | None) -> None:
    """Refuse a store in the memory of this process where PyMC's processes are to write to it."""
    if isinstance(folder, Address) and executor is None:
        folder.check_seen(min(settings.cores, settings.chains))


def _announcement(recommendation: Recommendation, chained: bool) -> str:
    """Say how the model is sampled, and why; `chained` if the arguments ask for a chain."""
    if not recommendation.weighted:
        return f"{recommendation.name}, {recommendation.code}: {recommendation.reason}"
    if not chained:
        return f"{recommendation.name}, {recommendation.call}: {recommendation.reason}"
    methods = recommendation.code if recommendation.calls else "PyMC's NUTS"
    return f"A chain, {methods}: only its draws can be stored as they are made, or begin at given values"


def _assembled(model: pm.Model, step: Steps | None, options: dict[str, Any]) -> BlockedStep | CompoundStep:
    """Return one step method for all variables, combined from the given ones and PyMC's own."""
    made = _complete(model, step)
    if not made:
        given, selected = assign_step_methods(model, step)
        made = instantiate_steppers(model, given, selected, compile_kwargs=_compilation(options))
    made = made if isinstance(made, BlockedStep | CompoundStep) else CompoundStep(made)
    _refuse_two_pseudo_marginal(made)
    return made


def _refuse_two_pseudo_marginal(made: BlockedStep | CompoundStep) -> None:
    """Refuse two that move the same f: each keeps an estimate that the moves of the other make invalid."""
    methods = [method for method in flatten_steps(made) if isinstance(method, PseudoMarginal)]
    for one, other in combinations(methods, 2):
        if one.latent_name == other.latent_name:
            raise ValueError(
                f"two step methods of class PseudoMarginal move {one.latent_name!r}: give one, for all of the "
                "hyper-parameters that they move"
            )


def _complete(model: pm.Model, step: Steps | None) -> BlockedStep | CompoundStep | list[Any] | None:
    """Return the steps if they move all variables, or None; to find others, PyMC derives the model's density first."""
    steps: list[Any] = list(step) if isinstance(step, list | tuple) else [step]
    if not all(isinstance(one, BlockedStep | CompoundStep) for one in steps):
        return None
    if {value for one in steps for value in one.vars} != set(model.value_vars):
        return None
    return steps[0] if len(steps) == 1 else steps


def _compilation(options: dict[str, Any]) -> dict[str, Any] | None:
    """Return the options that are passed to PyTensor."""
    return resolve_backend_compile_kwargs(options.get("backend"), options.get("compile_kwargs"))


def _shown(options: dict[str, Any]) -> dict[str, bool]:
    """Return the options that control display and logging."""
    quiet = bool(options.get("quiet"))
    return {"progressbar": bool(options.get("progressbar", True)) and not quiet, "quiet": quiet}


def _say_where(run: StoredRun) -> None:
    """Log the progress of each chain, damage, and versions that have changed."""
    chains = run.chains()
    counts = ", ".join(str(chain.iterations) for chain in chains)
    length = run.settings.tune + run.settings.draws
    _log.info(f"Continuing the run in {run.folder}: its chains are at iterations {counts} of {length}")
    for number, chain in enumerate(chains):
        if chain.damage is not None:
            _log.warning(
                f"Chain {number} of the run in {run.folder}: {chain.damage}. It continues from the last intact state, "
                f"at iteration {chain.iterations}; the draws will be the same"
            )
    others = run.other_versions()
    if others:
        _log.warning(
            f"This is {', '.join(others)}, with which the run in {run.folder} began: its draws from here on may differ "
            "from those without an interruption, by rounding or more"
        )
