"""A grid of cells that can be stopped and resumed: what is finished is kept, and not run again.

Each finished cell is one small JSON file, written under another name and then renamed, so that a file that is there
is complete. It holds the settings it was made with, and how its random streams were made, since the chains of a cell
have their data in common; a cell of others does not count as finished.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from threadpoolctl import threadpool_limits

from case_studies.tools.provenance import STREAMS

__all__ = ["Cell", "Finished", "Grid", "Unit"]

Result = dict[str, Any]


class Cell(Protocol):
    """One combination of the factors of a study."""

    @property
    def name(self) -> str:
        """Different for every cell, and fit for a file name."""
        ...


class Unit(NamedTuple):
    """One chain of a cell, where chains are run one by one."""

    cell: Cell
    chain: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"{self.cell.name}-chain{self.chain}"


class Finished(NamedTuple):
    """A cell, what came out of it, and whether that was there already."""

    cell: Any
    result: Result
    resumed: bool


@dataclass(frozen=True)
class Grid:
    """Where finished cells are kept.

    Parameters
    ----------
    folder : Path
        Made when it is needed.
    settings : mapping
        What all cells have in common, such as seed and number of draws; fit for JSON.
    """

    folder: Path
    settings: Mapping[str, Any]

    def finished(self, cell: Cell) -> Result | None:
        """Return what a cell gave, if it was finished under these settings."""
        path = self._path(cell)
        if not path.is_file():
            return None
        stored = json.loads(path.read_text(encoding="utf-8"))
        return stored["result"] if stored["settings"] == self._plain_settings() else None

    def run(self, cells: Iterable[Any], compute: Callable[[Any], Result]) -> Iterator[Finished]:
        """Run the cells in order, those excepted that are finished.

        Parameters
        ----------
        cells : iterable of Cell
        compute : callable
            Takes a cell and returns what is to be kept, fit for JSON.
        """
        for cell in cells:
            yield self.complete(compute, cell)

    def complete(self, compute: Callable[[Any], Result], cell: Any) -> Finished:
        """Run a cell, or take what it gave before."""
        known = self.finished(cell)
        if known is not None:
            return Finished(cell, known, True)
        # Cells run side by side, and what they measure is the work of one core.
        with threadpool_limits(limits=1):
            result = json.loads(json.dumps(compute(cell)))
        self._keep(cell, result)
        return Finished(cell, result, False)

    def _keep(self, cell: Cell, result: Result) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(cell)
        draft = path.with_suffix(f".{os.getpid()}.part")
        draft.write_text(json.dumps({"settings": self._plain_settings(), "result": result}), encoding="utf-8")
        draft.replace(path)

    def _path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.json"

    def _plain_settings(self) -> Any:
        return json.loads(json.dumps({**self.settings, "streams": STREAMS}))
