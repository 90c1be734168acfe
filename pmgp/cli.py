"""The command line: ``pmgp run``, ``pmgp datasets``, ``pmgp --version``.

Only arguments are handled here. Everything heavy is imported inside the commands, so that help and
mistaken options answer at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pmgp._version import __version__

__all__ = ["app"]

ERROR = 2
INTERRUPTED = 130

app = typer.Typer(
    name="pmgp",
    help="Exact Bayesian inference for Gaussian process classifiers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Data = Annotated[str, typer.Argument(metavar="NAME|FILE.csv", help="A data set by name, or a CSV file.")]
Label = Annotated[str | None, typer.Option(help="Label column of the file; the last one by default.")]
Kernel = Annotated[
    Literal["rbf", "ard", "matern32", "matern52"],
    typer.Option(help="Covariance function; ard has one length-scale a feature."),
]
Likelihood = Annotated[Literal["probit", "logit"], typer.Option(help="Link from f to probability.")]
Approximation = Annotated[Literal["ep", "laplace"], typer.Option(help="Gaussian that importance samples come from.")]
Estimator = Annotated[Literal["importance"], typer.Option(help="Unbiased estimator of p(y|theta).")]
Samples = Annotated[str, typer.Option(metavar="N|auto", help="Importance samples an estimate.")]
Draws = Annotated[int, typer.Option(min=1, help="Draws of each chain.")]
Tune = Annotated[int, typer.Option(min=0, help="Tuning draws of each chain.")]
Chains = Annotated[int, typer.Option(min=1, help="Number of chains.")]
Cores = Annotated[int, typer.Option(min=1, help="Chains that run at a time.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the split and of sampling.")]
TestFraction = Annotated[float, typer.Option(help="Fraction of points kept for testing, below 1; 0 for none.")]
Out = Annotated[Path | None, typer.Option(help="Folder of the results; runs/NAME by default.")]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show where in the code an error arose.")]


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"pmgp {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Exact Bayesian inference for Gaussian process classifiers."""


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
    """Read a number of importance samples; None stands for "auto"."""
    if value == "auto":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise typer.BadParameter(f"{value!r} is neither a positive whole number nor auto")
    return int(value)


@app.command()
def run(
    data: Data,
    label: Label = None,
    kernel: Kernel = "rbf",
    likelihood: Likelihood = "probit",
    approximation: Approximation = "ep",
    estimator: Estimator = "importance",
    importance_samples: Samples = "auto",
    draws: Draws = 1000,
    tune: Tune = 1000,
    chains: Chains = 2,
    cores: Cores = 2,
    seed: Seed = 1,
    test_fraction: TestFraction = 0.2,
    out: Out = None,
    traceback: Traceback = False,
) -> None:
    """Classify a data set by MCMC and report on it.

    Writes posterior.nc (all draws as NetCDF: xarray.open_datatree), summary.csv, predictions.csv, PNG plots,
    run.json, and report.html, which shows everything and needs no other file.

    Ctrl-C ends sampling early and reports on the draws there are; with --cores 1 it ends only the chain that runs.
    """
    from pmgp.run import Settings, execute

    try:
        n_samples = _importance_samples(importance_samples)
        folder = out or Path("runs") / Path(data).name.split(".")[0]
        sampler = (approximation, estimator, n_samples, draws, tune, chains, cores, seed)
        settings = Settings(data, folder, label, kernel, likelihood, *sampler, test_fraction)
        execute(settings, Console())
    except KeyboardInterrupt:
        _fail("interrupted before there was anything to write", INTERRUPTED)
    except (ValueError, ImportError, OSError) as error:
        if traceback:
            raise
        _fail(str(error), ERROR)


def _fail(message: str, code: int) -> NoReturn:
    # As Text: what is quoted in a message may look like markup.
    Console(stderr=True).print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    raise typer.Exit(code)
