"""Options and loops that the studies' command lines share."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Kinds", "parser", "selected", "to_run"]


def parser(
    study: str, description: str, scales: Collection[str] = (), filters: Mapping[str, type] | None = None
) -> ArgumentParser:
    """Begin the command line of a study: its scale, what to run, on which workers, and where results and units go.

    Parameters
    ----------
    study : str
        Name of the package.
    description : str
    scales : collection of str
        None for a study of one size.
    filters : mapping, optional
        Fields of the study's units by which to choose among them, and their types.
    """
    started = ArgumentParser(prog=f"python -m case_studies.{study}", description=description)
    if scales:
        started.add_argument("--scale", choices=scales, default="quick")
        tables = Path(__file__).parents[1] / study / "results"
        started.add_argument(
            "--out", type=Path, default=tables, help="folder of the tables (default: the repository's)"
        )
    for name, kind in (filters or {}).items():
        started.add_argument(f"--{name}", type=kind, nargs="+", metavar=name.upper(), help="only what has these")
    started.add_argument("--again", action="store_true", help="also what the tables have already")
    runs = str(Path("runs") / study)
    started.add_argument("--runs", type=_absolute, default=runs, help="where finished units are kept")
    where = started.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, metavar="N", help="units run at a time on this machine, one core each")
    where.add_argument("--cluster", metavar="ADDRESS", help="run units on the workers of this Dask scheduler")
    return started


def _absolute(text: str) -> Path:
    """Return the absolute path, since workers may have another working directory."""
    return Path(text).absolute()


def selected(units: Iterable[Any], wanted: Mapping[str, list | None]) -> list[Any]:
    """Those units whose fields are among the wanted values; a unit without such a field is not."""
    given = {name: values for name, values in wanted.items() if values}
    return [unit for unit in units if all(getattr(unit, name, None) in values for name, values in given.items())]


class Kinds(NamedTuple):
    """The kinds of units of a study, with a table for each.

    Attributes
    ----------
    types : mapping
        By the names that ``--kind`` takes.
    filters : mapping
        As of :func:`parser`.
    """

    types: Mapping[str, type]
    filters: Mapping[str, type]

    def arguments(self, study: str, description: str | None, scales: Collection[str]) -> Namespace:
        """Read the command line."""
        line = parser(study, description or "", scales, self.filters)
        line.add_argument("--kind", choices=self.types, help="one of the tables only")
        return line.parse_args()

    def asked_for(self, given: Namespace, units: Iterable[Any]) -> list[Any]:
        """Those of the units that the command line names."""
        of_kind = [unit for unit in units if not given.kind or isinstance(unit, self.types[given.kind])]
        return selected(of_kind, {name: getattr(given, name) for name in self.filters})


def to_run(given: Namespace, chosen: list[Any], missing: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Those that the tables do not have, or all if so asked; says how many."""
    new = chosen if given.again else missing(chosen)
    print(f"{len(new)} units to run; {len(chosen) - len(new)} of {len(chosen)} are there", flush=True)
    return new
