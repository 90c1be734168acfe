"""The command line: ``pmgp run``, ``pmgp datasets``, ``pmgp --version``.

This module only handles arguments. Heavy imports are inside the commands, so that help and errors about options appear
at once.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pmgp._version import __version__
from pmgp.app.defaults import CHAINS, CORES

ERROR = 2
INTERRUPTED = 130

app = typer.Typer(
    name="pmgp",
    help="Exact Bayesian inference for Gaussian process models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

of_file, of_model, of_sampling, of_results = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("The file", "The model", "Sampling", "Testing and results")
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"pmgp {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Exact Bayesian inference for Gaussian process models."""


@app.command()
def datasets() -> None:
    """List the data sets that can be given by name."""
    from pmgp.datasets.catalogue import CATALOGUE

    table = Table("name", "points", "features", "what, and where from", box=None)
    for name, entry in CATALOGUE.items():
        classes = "" if entry.classes is None else f" ({entry.classes[0]} 0, {entry.classes[1]} 1)"
        text = Text.assemble(entry.title + classes, "\n", (entry.source, "dim"))
        table.add_row(name, str(entry.n), str(entry.d), text)
    Console().print(table)


def _importance_samples(value: str) -> int | None:
    """Read a number of importance samples; None means "auto"."""
    if value == "auto":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise typer.BadParameter(f"{value!r} is neither a positive whole number nor auto")
    return int(value)


@app.command()
def run(
    data: Annotated[str, typer.Argument(metavar="NAME|FILE.csv", help="A data set by name, or a CSV file.")],
    label: Annotated[str | None, of_file(metavar="COLUMN", help="Label column; the last one by default.")] = None,
    header: Annotated[
        bool | None,
        of_file(
            "--header/--no-header",
            help="Whether the first line has column names, which otherwise are x1, x2, ...; by default it must.",
        ),
    ] = None,
    features: Annotated[str, of_file(metavar="A,B,...", help="Feature columns; all others by default.")] = "",
    drop: Annotated[str, of_file(metavar="A,B,...", help="Columns to leave out, such as names of the rows.")] = "",
    order: Annotated[str, of_file(metavar="LOW,...,HIGH", help="Order of the label's categories, for ordinal.")] = "",
    exposure: Annotated[
        str | None, of_file(metavar="COLUMN", help="Time, area or number that each count is for, for poisson.")
    ] = None,
    time: Annotated[
        str | None,
        of_file(
            metavar="COLUMN",
            help="Column of times, numbers or dates, which become days: the process runs in time, exact for any "
            "number of points.",
        ),
    ] = None,
    horizon: Annotated[int, of_file(min=0, metavar="N", help="Forecast N further times, a median step apart.")] = 0,
    missing: Annotated[
        Literal["refuse", "drop", "median"],
        of_file(
            help="Where a cell is empty, NA, NaN, null or ?: refuse the file, drop the row, or fill in the median of "
            "its column (the most frequent value of a category)."
        ),
    ] = "refuse",
    predict: Annotated[
        str | None,
        of_file(
            metavar="FILE.csv",
            help="Rows to predict, with the same feature columns; other columns, such as a label, are not read.",
        ),
    ] = None,
    likelihood: Annotated[
        Literal["probit", "logit", "poisson", "ordinal", "multinomial", "normal"],
        of_model(
            help="What the label is: two classes (probit, logit), a count (poisson), three or more categories in an "
            "order (ordinal), three or more classes without an order (multinomial), a measurement with normal noise "
            "(normal)."
        ),
    ] = "probit",
    kernel: Annotated[
        Literal["rbf", "ard", "matern32", "matern52"] | None,
        of_model(
            help="How smooth the latent function is: rbf, very smooth; ard, like rbf with a length-scale for each "
            "feature, which shows those that matter; matern52, rougher; matern32, rougher still. By default rbf,"
            " with --time matern32."
        ),
    ] = None,
    approximation: Annotated[
        Literal["ep", "laplace"],
        of_sampling(help="Gaussian from which importance samples come, and other estimates start."),
    ] = "ep",
    estimator: Annotated[
        Literal["auto", "importance", "orthant", "sequential"],
        of_sampling(
            help="Unbiased estimator of p(y|theta): importance sampling, orthant probabilities for probit links, or "
            "sequential Monte Carlo over the observations. With auto, tuning chooses between the first two, or "
            "for several classes between the first and the last."
        ),
    ] = "auto",
    importance_samples: Annotated[
        str,
        of_sampling(
            metavar="N|auto",
            help="Importance samples for each estimate; with a number, tuning does not consider other estimators.",
        ),
    ] = "auto",
    sparse: Annotated[
        int | None,
        of_model(
            min=0,
            metavar="M",
            help="Approximate with M inducing inputs; 0 for the exact chain, however long it takes. By default 1500 "
            "training points or more are approximated, because the exact chain then takes five minutes or far "
            "longer.",
        ),
    ] = None,
    exact_rows: Annotated[
        int | None,
        of_sampling(
            min=0,
            metavar="N",
            help="For measurements: with up to N training points, hyper-parameters are drawn, with a factorization "
            "each; with more, iterative solvers set them to their maximum. By default 4000.",
        ),
    ] = None,
    draws: Annotated[int, of_sampling(min=1, help="Draws of each chain.")] = 1000,
    tune: Annotated[int, of_sampling(min=0, help="Tuning draws of each chain.")] = 1000,
    chains: Annotated[int, of_sampling(min=1, help="Number of chains.")] = CHAINS,
    cores: Annotated[int, of_sampling(min=1, help="Chains that run at a time.")] = CORES,
    workers: Annotated[
        int | None,
        of_sampling(
            min=1,
            metavar="N",
            help="Run chains as tasks of N processes; one that dies is replaced, and its chain continues.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        of_sampling(
            metavar="ADDRESS",
            help="Run chains on the workers of a Dask scheduler, such as tcp://127.0.0.1:8786. All of them must share"
            " the folder of the results.",
        ),
    ] = None,
    seed: Annotated[int, of_sampling(min=0, help="Seed of the split and of sampling.")] = 1,
    test_fraction: Annotated[
        float | None,
        of_results(
            help="Fraction of points kept for testing, below 1; 0 for none. By default 0.2. With --time these are the"
            " last ones, by default none."
        ),
    ] = None,
    out: Annotated[
        str | None,
        of_results(
            metavar="FOLDER",
            help="Folder of the results, or an address such as s3://bucket/run; runs/NAME by default.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, of_results("--overwrite", help="Replace the results that are already in the folder.")
    ] = False,
    resume: Annotated[
        bool, of_results("--resume", help="Continue the run in the folder, after an interruption or for more draws.")
    ] = False,
    traceback: Annotated[bool, of_results("--traceback", help="Show where in the code an error arose.")] = False,
) -> None:
    """Learn labels from features by MCMC, predict a test part, and report on it.

    A CSV file has a header line, a label, and any other columns as features:
    numbers, dates, or text for categories. Commas, semicolons or tabs separate
    the columns; with semicolons or tabs, numbers may have decimal commas. The
    label has two classes, or is a count (--likelihood poisson), an ordered
    category (--likelihood ordinal), one of several classes (--likelihood
    multinomial) or a measurement (--likelihood normal). A file does not say whether three or more values have an
    order, even if they are numbers: grades have one, species and codes have
    none. Names in a list are separated by commas; put a name that contains a
    comma in double quotes.

    Features are standardized. The length-scale has the prior Gamma(1, 1/sqrt(d))
    for d features, in standard deviations of a feature, and the variance of the
    latent function Gamma(1.1, 0.1), shape and rate, or Exponential(1) for counts;
    for measurements it is Gamma(2, 2/s^2) with their standard deviation s. The
    report shows the priors of its run. For other priors, write the model in PyMC.

    With many points the run uses an approximation on inducing inputs (--sparse),
    and says so.

    For measurements the hyper-parameters are drawn independently around their
    maximum, with exact weights, worth up to 400 draws (fewer if --draws times
    --chains is less), and by a chain if the weights cannot be trusted; with more
    than 4000 training points they are set to their maximum.

    With --time the process runs in time: bands over time, and a forecast
    (--horizon), in trend.csv and in the report; with --exposure they are those of
    the rate. It is exact however many points there are, and takes time in
    proportion to them.

    With --predict the rows of another file, which need no label, are predicted
    too, in new_predictions.csv. --test-fraction 0 learns from all points first.

    Writes report.html, which shows everything and needs no other file,
    posterior.nc (all draws as NetCDF: xarray.open_datatree), summary.csv,
    predictions.csv, run.json and PNG plots.

    Ctrl-C ends sampling early and reports on the draws so far; with --cores 1
    it ends only the current chain. Draws are stored in the folder as they are
    made: after Ctrl-C or a kill, the same command with --resume continues, with
    the same results as without the interruption.
    """
    options = {name: value for name, value in locals().items() if name != "traceback"}
    from pmgp.app.folder import folder_named
    from pmgp.app.run import execute
    from pmgp.app.settings import InterruptionError, Settings
    from pmgp.datasets.csv_columns import split_names

    try:
        options |= {name: split_names(options[name]) for name in ("features", "drop", "order")}
        options |= {
            "out": folder_named(out or f"runs/{Path(data).name.split('.')[0]}"),
            "missing": None if missing == "refuse" else missing,
            "kernel": kernel or ("rbf" if time is None else "matern32"),
            "importance_samples": _importance_samples(importance_samples),
            "test_fraction": (0.2 if time is None else 0.0) if test_fraction is None else test_fraction,
        }
        settings = Settings(**options)
        execute(settings, Console())
    except InterruptionError as interruption:
        _fail(str(interruption), INTERRUPTED)
    except KeyboardInterrupt:
        _fail("interrupted before there were any new draws", INTERRUPTED)
    except (ValueError, ImportError, OSError) as error:
        if traceback:
            raise
        _fail(str(error), ERROR)


def _fail(message: str, code: int) -> NoReturn:
    # As Text, because quotations in a message may look like markup.
    Console(stderr=True).print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    raise typer.Exit(code)
