"""The calls of `pymc.sample` that make a run: one, or several until there are enough effective draws."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymc as pm
import xarray as xr
from pymc.exceptions import SamplingError
from pymc.sampling.parallel import ParallelSamplingError
from pymc.step_methods.compound import BlockedStep, CompoundStep, flatten_steps

from pmgp.interface.executors import STALL_LIMIT, Executors
from pmgp.interface.sampling.address import Folder, StoreError
from pmgp.interface.sampling.chain_tasks import complete, tasks
from pmgp.interface.sampling.chains import chain_folder, recovered, seconds_spent
from pmgp.interface.sampling.effective_draws import enough, more_draws, progress_towards
from pmgp.interface.sampling.recorded_step import RecordedStep
from pmgp.interface.sampling.report import ENOUGH, report
from pmgp.interface.sampling.stored_run import RunSettings
from pmgp.interface.steps.chain_step import ChainStep
from pmgp.interface.steps.threads import ThreadShare

_log = logging.getLogger("pymc.pmgp")

REPORT = "pmgp_report"
"""The attribute of the DataTree that holds the report on its draws."""


class NoDrawsError(SamplingError):
    """A run was interrupted before its first draw after tuning.

    Examples
    --------
    >>> import pmgp
    >>> def interrupt(trace, draw):
    ...     raise KeyboardInterrupt
    >>> with pmgp.models.classifier([[0.0], [1.0]], [0, 1]):
    ...     try:
    ...         pmgp.sample(draws=10, tune=10, chains=1, callback=interrupt, progressbar=False)
    ...     except pmgp.NoDrawsError as error:
    ...         print(error)
    interrupted while tuning, so there are no draws
    """


@dataclass(frozen=True)
class Run:
    """The arguments that all calls of `pymc.sample` for one run have in common."""

    model: pm.Model
    step: BlockedStep | CompoundStep
    settings: RunSettings
    initvals: Any
    options: dict[str, Any]
    folder: Folder | None
    flush_every: float
    executor: Executors | None = None
    stall_limit: float = STALL_LIMIT

    def completed(self) -> xr.DataTree:
        """Return all draws, with the report."""
        if self.folder is None and (self.settings.ess is not None or self.executor is not None):
            # Chains continue from a state in a store, so there is one even if the user did not ask for it.
            with tempfile.TemporaryDirectory(prefix="pmgp-") as folder:
                return replace(self, folder=Path(folder)).completed()
        idata = self._drawn(self.settings.draws)
        if self.settings.ess is not None:
            idata = self._until_enough(idata, self.settings.ess)
        found = report(idata, self.settings.ess or ENOUGH)
        idata.attrs[REPORT] = str(found)
        if not self.options.get("quiet"):
            _log.log(logging.INFO if found.good else logging.WARNING, str(found), extra={REPORT: True})
        return idata

    def _until_enough(self, idata: xr.DataTree, ess: float) -> xr.DataTree:
        draws = self.settings.draws
        shows = bool(self.options.get("progressbar", True)) and not self.options.get("quiet")
        with progress_towards(ess, shows) as progress:
            while self._is_complete(idata, draws) and draws < self.settings.max_draws and not enough(idata, ess):
                target = min(more_draws(idata, ess), self.settings.max_draws)
                progress.begin(idata, target, self.settings.tune)
                try:
                    longer = self._drawn(target, callback=progress, progressbar=False, quiet=True)
                except (KeyboardInterrupt, NoDrawsError):
                    break
                # An interruption while the store is read may leave fewer chains or draws than before.
                sizes = longer["posterior"].sizes
                if sizes["chain"] < self.settings.chains or sizes["draw"] < draws:
                    break
                idata, draws = longer, target
            progress.end(idata)
        return idata

    def _spent(self) -> float:
        """Return the seconds of sampling behind the stored draws, as if all cores had been busy."""
        if self.folder is None:
            return 0.0
        chains = range(self.settings.chains)
        seconds = sum(seconds_spent(chain_folder(self.folder, chain)) for chain in chains)
        return seconds / min(self.settings.cores, self.settings.chains)

    def _share_threads(self) -> None:
        """Set the number of threads of each chain in those step methods that take it."""
        cores, chains = self.settings.cores, self.settings.chains
        granted = ThreadShare.granted(self.options.get("blas_cores", "auto"), cores, chains)
        for method in flatten_steps(self.step):
            if isinstance(method, ChainStep):
                method.share_threads(granted)

    def _no_draws(self) -> NoDrawsError:
        more = "" if self.folder is None else f"; pmgp.resume({str(self.folder)!r}, model) continues"
        return NoDrawsError(f"interrupted while tuning, so there are no draws{more}")

    def _by_workers(self, executor: Executors, step: RecordedStep, draws: int, shows: bool) -> int:
        """Let an executor fill the store, and return the number of draws of each chain in it."""
        chains = tasks(self.model, self.settings, self.initvals, draws)
        try:
            complete(executor, step, chains, shows and not self.options.get("quiet"), self.stall_limit)
        except KeyboardInterrupt as interruption:
            iterations = [recovered(chain_folder(step.run, chain.number)).iterations for chain in chains]
            draws = min(draws, min(iterations) - self.settings.tune)
            if draws < 1:
                raise self._no_draws() from interruption
        return draws

    def _is_complete(self, idata: xr.DataTree, draws: int) -> bool:
        """Return whether the draws are complete, without an interruption."""
        sizes = idata["posterior"].sizes
        return (sizes["chain"], sizes["draw"]) == (self.settings.chains, draws)

    def _drawn(self, draws: int, **options: Any) -> xr.DataTree:
        """Return this many draws of each chain, those in the store first."""
        step, seed = self.step, self.settings.seed
        self._share_threads()
        if self.folder is not None:
            # Absolute, since workers may have another working directory.
            step = RecordedStep(step, self.folder.absolute(), seed.first_key, self.flush_every)
        arguments = {"compute_convergence_checks": False} | self.options | options
        cores = self.settings.cores
        if self.executor is not None and isinstance(step, RecordedStep):
            draws = self._by_workers(self.executor, step, draws, bool(arguments.get("progressbar", True)))
            # The draws are in the store, and this process only reads them.
            cores, arguments["progressbar"] = 1, False
        spent = self._spent()
        try:
            idata = pm.sample(
                draws=draws,
                tune=self.settings.tune,
                chains=self.settings.chains,
                cores=cores,
                random_seed=seed.generator(),
                step=step,
                initvals=self.initvals,
                model=self.model,
                **arguments,
            )
            return _with_time(idata, spent)
        except ValueError as error:
            # PyMC's message after an interruption during tuning.
            if "Not enough samples" not in str(error):
                raise
            raise self._no_draws() from error
        except ParallelSamplingError as error:
            if not isinstance(error.__cause__, StoreError):
                raise
            raise StoreError(str(error.__cause__)) from error
        finally:
            if isinstance(step, RecordedStep):
                step.close()


def _with_time(idata: xr.DataTree, spent: float) -> xr.DataTree:
    """Add the seconds of earlier calls to those that PyMC has measured."""
    for group in ("posterior", "sample_stats"):
        attributes = idata[group].attrs if group in idata.children else {}
        if "sampling_time" in attributes:
            attributes["sampling_time"] += spent
    return idata
