"""The command line: ``pmgp run``, ``pmgp datasets``, ``pmgp --version``.

This module only handles arguments. Heavy imports are inside the commands, so that help and errors about options appear
at once.
"""

from __future__ import annotations

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

FILE, MODEL, SAMPLING, RESULTS = "The file", "The model", "Sampling", "Testing and results"

Data = Annotated[str, typer.Argument(metavar="NAME|FILE.csv", help="A data set by name, or a CSV file.")]
Label = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Label column; the last one by default.", rich_help_panel=FILE)
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line has column names, which otherwise are x1, x2, ...; by default it must.",
        rich_help_panel=FILE,
    ),
]
Features = Annotated[
    str, typer.Option(metavar="A,B,...", help="Feature columns; all others by default.", rich_help_panel=FILE)
]
Drop = Annotated[
    str, typer.Option(metavar="A,B,...", help="Columns to leave out, such as names of the rows.", rich_help_panel=FILE)
]
Order = Annotated[
    str,
    typer.Option(metavar="LOW,...,HIGH", help="Order of the label's categories, for ordinal.", rich_help_panel=FILE),
]
Missing = Annotated[
    Literal["refuse", "drop", "median"],
    typer.Option(
        help="Where a cell is empty, NA, NaN, null or ?: refuse the file, drop the row, or fill in the median of its "
        "column (the most frequent value of a category).",
        rich_help_panel=FILE,
    ),
]
Exposure = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Time, area or number that each count is for, for poisson.", rich_help_panel=FILE
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of times, numbers or dates, which become days: the process runs in time, exact for any number of "
        "points.",
        rich_help_panel=FILE,
    ),
]
Horizon = Annotated[
    int, typer.Option(min=0, metavar="N", help="Forecast N further times, a median step apart.", rich_help_panel=FILE)
]
Likelihood = Annotated[
    Literal["probit", "logit", "poisson", "ordinal", "multinomial"],
    typer.Option(
        help="What the label is: two classes (probit, logit), a count (poisson), three or more categories in an order "
        "(ordinal), three or more classes without an order (multinomial).",
        rich_help_panel=MODEL,
    ),
]
Kernel = Annotated[
    Literal["rbf", "ard", "matern32", "matern52"] | None,
    typer.Option(
        help="How smooth the latent function is: rbf, very smooth; ard, like rbf with a "
        "length-scale for each feature, which shows those that matter; matern52, rougher; matern32, rougher still. By "
        "default rbf, with --time matern32.",
        rich_help_panel=MODEL,
    ),
]
Approximation = Annotated[
    Literal["ep", "laplace"],
    typer.Option(
        help="Gaussian from which importance samples come, and other estimates start.", rich_help_panel=SAMPLING
    ),
]
Estimator = Annotated[
    Literal["auto", "importance", "orthant", "sequential"],
    typer.Option(
        help="Unbiased estimator of p(y|theta): importance sampling, orthant probabilities for probit links, or "
        "sequential Monte Carlo over the observations. With auto, tuning chooses between the first two, or for several "
        "classes between the first and the last.",
        rich_help_panel=SAMPLING,
    ),
]
Samples = Annotated[
    str,
    typer.Option(
        metavar="N|auto",
        help="Importance samples for each estimate; with a number, tuning does not consider other estimators.",
        rich_help_panel=SAMPLING,
    ),
]
Sparse = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="M",
        help="Approximate with M inducing inputs; 0 for the exact chain, however long it takes. By default 1500 "
        "training points or more are approximated, because the exact chain then takes five minutes or far longer.",
        rich_help_panel=MODEL,
    ),
]
Draws = Annotated[int, typer.Option(min=1, help="Draws of each chain.", rich_help_panel=SAMPLING)]
Tune = Annotated[int, typer.Option(min=0, help="Tuning draws of each chain.", rich_help_panel=SAMPLING)]
Chains = Annotated[int, typer.Option(min=1, help="Number of chains.", rich_help_panel=SAMPLING)]
Cores = Annotated[int, typer.Option(min=1, help="Chains that run at a time.", rich_help_panel=SAMPLING)]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Run chains as tasks of N processes; one that dies is replaced, and its chain continues.",
        rich_help_panel=SAMPLING,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run chains on the workers of a Dask scheduler, such as tcp://127.0.0.1:8786. All of them must share the "
        "folder of the results.",
        rich_help_panel=SAMPLING,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the split and of sampling.", rich_help_panel=SAMPLING)]
TestFraction = Annotated[
    float | None,
    typer.Option(
        help="Fraction of points kept for testing, below 1; 0 for none. By default 0.2. With --time these are the last "
        "ones, by default none.",
        rich_help_panel=RESULTS,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder of the results; runs/NAME by default.", rich_help_panel=RESULTS),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace the results that are already in the folder.", rich_help_panel=RESULTS),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Continue the run in the folder, after an interruption or for more draws.",
        rich_help_panel=RESULTS,
    ),
]
Traceback = Annotated[
    bool, typer.Option("--traceback", help="Show where in the code an error arose.", rich_help_panel=RESULTS)
]


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
    data: Data,
    label: Label = None,
    header: Header = None,
    features: Features = "",
    drop: Drop = "",
    order: Order = "",
    exposure: Exposure = None,
    time: Time = None,
    horizon: Horizon = 0,
    missing: Missing = "refuse",
    likelihood: Likelihood = "probit",
    kernel: Kernel = None,
    approximation: Approximation = "ep",
    estimator: Estimator = "auto",
    importance_samples: Samples = "auto",
    sparse: Sparse = None,
    draws: Draws = 1000,
    tune: Tune = 1000,
    chains: Chains = CHAINS,
    cores: Cores = CORES,
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 1,
    test_fraction: TestFraction = None,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    traceback: Traceback = False,
) -> None:
    """Learn labels from features by MCMC, predict a test part, and report on it.

    A CSV file has a header line, a label, and any other columns as features:
    numbers, dates, or text for categories. Commas, semicolons or tabs separate
    the columns; with semicolons or tabs, numbers may have decimal commas. The
    label has two classes, or is a count (--likelihood poisson), an ordered
    category (--likelihood ordinal) or one of several classes (--likelihood
    multinomial). A file does not say whether three or more values have an
    order, even if they are numbers: grades have one, species and codes have
    none. Names in a list are separated by commas; put a name that contains a
    comma in double quotes.

    Features are standardized. The length-scale has the prior Gamma(1, 1/sqrt(d))
    for d features, in standard deviations of a feature, and the variance of the
    latent function Gamma(1.1, 0.1), shape and rate, or Exponential(1) for counts;
    the report shows the priors of its run. For other priors, write the model in
    PyMC.

    With many points the run uses an approximation on inducing inputs (--sparse),
    and says so.

    With --time the process runs in time: bands over time, and a forecast
    (--horizon), in trend.csv and in the report. It is exact however many points
    there are, and takes time in proportion to them.

    Writes report.html, which shows everything and needs no other file,
    posterior.nc (all draws as NetCDF: xarray.open_datatree), summary.csv,
    predictions.csv, run.json and PNG plots.

    Ctrl-C ends sampling early and reports on the draws so far; with --cores 1
    it ends only the current chain. Draws are stored in the folder as they are
    made: after Ctrl-C or a kill, the same command with --resume continues, with
    the same results as without the interruption.
    """
    from pmgp.app.run import execute
    from pmgp.app.settings import Settings
    from pmgp.datasets.csv_columns import split_names

    try:
        settings = Settings(
            data=data,
            out=out or Path("runs") / Path(data).name.split(".")[0],
            label=label,
            header=header,
            features=split_names(features),
            drop=split_names(drop),
            order=split_names(order),
            exposure=exposure,
            missing=None if missing == "refuse" else missing,
            time=time,
            horizon=horizon,
            kernel=kernel or ("rbf" if time is None else "matern32"),
            likelihood=likelihood,
            approximation=approximation,
            estimator=estimator,
            importance_samples=_importance_samples(importance_samples),
            sparse=sparse,
            draws=draws,
            tune=tune,
            chains=chains,
            cores=cores,
            workers=workers,
            cluster=cluster,
            seed=seed,
            test_fraction=(0.2 if time is None else 0.0) if test_fraction is None else test_fraction,
            overwrite=overwrite,
            resume=resume,
        )
        execute(settings, Console())
    except KeyboardInterrupt:
        _fail("interrupted before there were any results", INTERRUPTED)
    except (ValueError, ImportError, OSError) as error:
        if traceback:
            raise
        _fail(str(error), ERROR)


def _fail(message: str, code: int) -> NoReturn:
    # As Text, because quotations in a message may look like markup.
    Console(stderr=True).print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    raise typer.Exit(code)
