"""One run from a data set to a report: prepare, sample, predict, score, write."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pmgp.app.folder import STORE, abandon, begin, begun, check_folder, clear, clear_store, local
from pmgp.app.outcome import Outcome
from pmgp.app.problem import prepare
from pmgp.app.settings import InterruptionError, RunError, Settings
from pmgp.app.tasks import Drawn, Problem, Scores
from pmgp.app.trend import trend

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm
    import xarray as xr
    from rich.console import Console


def execute(settings: Settings, console: Console) -> Outcome:
    """Run everything and write the results into ``settings.out``."""
    check_folder(settings)
    problem = prepare(settings)
    settings.out.mkdir(parents=True, exist_ok=True)
    if not settings.resume:
        clear_store(settings.out)
        begin(settings)
    from pmgp.app import report

    report.print_problem(console, problem)
    start = time.perf_counter()
    try:
        drawn = None if settings.resume else problem.task.drawn(problem)
        idata = sample(problem.model, settings) if drawn is None else drawn.idata
    except (Exception, KeyboardInterrupt):
        abandon(settings.out)
        raise
    sampled = time.perf_counter()
    clear(settings.out)
    begin(settings)
    try:
        with local(settings.out) as folder:
            # Drawing takes long, so the draws are written first, and remain if something fails later.
            report.save_posterior(idata, folder)
            predictions, scores = predict(problem, idata)
            new = None if problem.new is None else problem.task.predict(problem, idata, problem.new)
            course = trend(problem, idata)
            seconds = {"sampling": sampled - start, "prediction": time.perf_counter() - sampled}
            outcome = replace(measure(problem, idata, predictions, scores, seconds, drawn), new=new, trend=course)
            report.print_outcome(console, outcome)
            report.write(outcome, folder)
    except KeyboardInterrupt:
        raise InterruptionError(_what_is_kept(settings, chain=drawn is None)) from None
    console.print(f"\nreport: {settings.out / 'report.html'}", markup=False, soft_wrap=True)
    return outcome


def _what_is_kept(settings: Settings, chain: bool) -> str:
    """Say what an interruption after sampling leaves."""
    if not chain:
        draws = settings.out / "posterior.nc"
        return f"interrupted: the draws are in {draws}, and the same command with --overwrite repeats the run"
    without = ", and without --overwrite," if settings.overwrite else ""
    return f"interrupted: the draws are kept, and the same command with --resume{without} goes on"


def sample(model: pm.Model, settings: Settings) -> xr.DataTree:
    """Sample the model with the pseudo-marginal step method, or the recommended one without it; store the draws.

    Ctrl-C ends sampling early; PyMC then returns the draws so far. An interruption before the first draw after tuning,
    a failure, and a folder with another run than the one to be resumed raise a RunError.
    """
    from pymc.exceptions import SamplingError

    from pmgp.interface.executors import WorkerError, executor_of
    from pmgp.interface.sampling import NoDrawsError

    step = _step(model, settings)
    executor = executor_of(settings.workers, settings.cluster)
    try:
        call = _resumed if settings.resume else _begun
        with _reports_kept_back():
            return call(model, settings, step, executor)
    except NoDrawsError:
        raise RunError(
            "interrupted while tuning, so there are no draws; the same command with --resume continues"
        ) from None
    except (SamplingError, WorkerError) as error:
        raise RunError(str(error)) from error


@contextmanager
def _reports_kept_back() -> Iterator[None]:
    """Let no report be logged, whose advice is in Python: the command prints its own."""
    from pmgp.interface.sampling.drawing import REPORT

    logger = logging.getLogger("pymc.pmgp")

    def others(record: logging.LogRecord) -> bool:
        return not hasattr(record, REPORT)

    logger.addFilter(others)
    try:
        yield
    finally:
        logger.removeFilter(others)


def _step(model: pm.Model, settings: Settings) -> Any:
    """Return the step method, or None for the recommended one."""
    import pmgp
    from pmgp.interface.model.inducing_process import inducing_process

    if inducing_process(model) is not None or settings.likelihood == "normal":
        return None
    chosen = settings.importance_samples
    estimator = settings.estimator if chosen is None else pmgp.estimators.ImportanceSampling(draws=chosen)
    return pmgp.PseudoMarginal(model=model, approximation=settings.approximation, estimator=estimator)


def _begun(model: pm.Model, settings: Settings, step: Any, executor: Any) -> xr.DataTree:
    from pmgp.interface.sampling import sample

    return sample(
        model,
        draws=settings.draws,
        tune=settings.tune,
        chains=settings.chains,
        cores=settings.cores,
        random_seed=settings.seed,
        step=step,
        out=str(settings.out / STORE),
        executor=executor,
    )


def _resumed(model: pm.Model, settings: Settings, step: Any, executor: Any) -> xr.DataTree:
    from pmgp.interface.sampling import StoredRun, resume

    begun = StoredRun.load(settings.out / STORE).settings
    _refuse_other_options(settings)
    if settings.draws < begun.draws:
        raise RunError(f"the run in {settings.out} was given --draws {begun.draws}: give as many now, or more")
    store = str(settings.out / STORE)
    return resume(store, model, step=step, draws=settings.draws, cores=settings.cores, executor=executor)


def _refuse_other_options(settings: Settings) -> None:
    """Name an option of a resumed run that is not that of its beginning; other differences are found in the model."""
    for option, then in begun(settings.out).items():
        now = settings.fixed.get(option, [])
        if now != then:
            words = " ".join(then) or f"without --{option.replace('_', '-')}"
            raise RunError(
                f"the run in {settings.out} was begun {'with ' if then else ''}{words}, and not with "
                f"{' '.join(now) or 'the default'}: give the options of its beginning"
            )


def predict(problem: Problem, idata: xr.DataTree) -> tuple[pd.DataFrame | None, Scores]:
    """Predict the test points and score the predictions; return None and no scores without test points."""
    if not problem.test.n:
        return None, Scores({}, {})
    table = problem.task.predict(problem, idata, problem.test)
    return table, problem.task.score(problem, table)


def measure(
    problem: Problem,
    idata: xr.DataTree,
    predictions: pd.DataFrame | None,
    scores: Scores,
    seconds: dict[str, float],
    drawn: Drawn | None = None,
) -> Outcome:
    """Add cost and efficiency of the sampler to the results; with few draws, or without a chain, no efficiency."""
    from pmgp import diagnostics
    from pmgp.interface.sampling.report import Report, of_command, report

    verdict = (
        report(idata, words=of_command(problem.settings.draws)) if drawn is None else Report(None, None, drawn.findings)
    )
    enough = drawn is None and idata["posterior"].sizes["draw"] >= diagnostics.MIN_DRAWS
    return Outcome(
        problem=problem,
        idata=idata,
        predictions=predictions,
        scores=scores,
        operations=diagnostics.operation_counts(idata) if drawn is None else {},
        efficiency=diagnostics.ess_per_second(idata, problem.task.hyperparameters) if enough else {},
        seconds=seconds,
        verdict=verdict,
        diagnosis=_diagnosis(problem, idata),
        drawn=drawn,
    )


def _diagnosis(problem: Problem, idata: xr.DataTree) -> str | None:
    """Return a description of the effect of the inducing inputs on the posterior, or None without them."""
    from pmgp.interface.model.inducing_process import inducing_process

    process = inducing_process(problem.model)
    if process is None:
        return None
    found = process.diagnose(idata, model=problem.model)
    option = "" if found.advised is None else f" (--sparse {found.advised})"
    return str(found).rstrip(".") + option
