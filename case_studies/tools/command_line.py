"""What the command lines of the studies have in common."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["parser", "selected"]


def parser(
    study: str, description: str, scales: Iterable[str], filters: Mapping[str, type] | None = None
) -> ArgumentParser:
    """Begin the command line of a study, with its scale, what to run, and where finished units are kept.

    Parameters
    ----------
    study : str
        Name of the package.
    description : str
    scales : iterable of str
    filters : mapping, optional
        Fields of the study's units by which to choose among them, and their types.
    """
    started = ArgumentParser(prog=f"python -m case_studies.{study}", description=description)
    started.add_argument("--scale", choices=scales, default="quick")
    for name, kind in (filters or {}).items():
        started.add_argument(f"--{name}", type=kind, nargs="+", metavar=name.upper(), help="only what has these")
    started.add_argument("--again", action="store_true", help="also what the tables have already")
    started.add_argument("--runs", type=Path, default=Path("runs") / study, help="where finished units are kept")
    return started


def selected(units: Iterable[Any], wanted: Mapping[str, list | None]) -> list[Any]:
    """Those units whose fields are among the wanted values; a unit without such a field is not."""
    given = {name: values for name, values in wanted.items() if values}
    return [unit for unit in units if all(getattr(unit, name, None) in values for name, values in given.items())]
