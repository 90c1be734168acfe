"""Entries of the record, one for each table and figure of an article, counted from stored results.

The rule of agreement: a number agrees if it is within a factor of :data:`FACTOR` of the article's. Where there
are deviations, numbers within :data:`DEVIATIONS` of these are counted too. Speeds are those of another machine, and
are not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["DEVIATIONS", "FACTOR", "Article", "Entry", "Finding", "Numbers", "Remark", "Share", "made_by"]

FACTOR = 2.0
DEVIATIONS = 2.0
BY_POSITION = "random streams by position"
"""Mark of lines without an entry in the column ``streams``; see :mod:`case_studies.tools.provenance`."""


@dataclass(frozen=True)
class Article:
    """An article, as headings name it."""

    authors: str
    year: int
    about: str

    @property
    def heading(self) -> str:
        """Title of its section."""
        return f"{self.authors} ({self.year}): {self.about}"


@dataclass(frozen=True)
class Share:
    """A number of finished parts, and the number of all parts."""

    done: int
    of: int
    what: str

    @classmethod
    def counted(cls, stored: pd.DataFrame, wanted: pd.DataFrame, what: str) -> Share:
        """Return how many lines of `wanted` are also in `stored`, compared in the columns of `wanted`."""
        columns = list(wanted.columns)
        there = set(stored[columns].itertuples(index=False, name=None))
        every = set(wanted.itertuples(index=False, name=None))
        return cls(len(there & every), len(every), what)

    def __str__(self) -> str:
        return f"{self.done:,} of {self.of:,} {self.what}"


@dataclass(frozen=True)
class Finding:
    """A sentence of an article without a number in a table, and whether our results say the same."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Remark:
    """Why numbers differ: the words, and for each level of the index the entries that they are about."""

    text: str
    about: Mapping[str, Sequence[Any]]

    def covers(self, index: pd.MultiIndex) -> np.ndarray:
        """Return which places of an index the remark explains, as booleans."""
        levels = [index.get_level_values(name).isin(list(values)) for name, values in self.about.items()]
        return np.logical_and.reduce(levels, axis=0) if levels else np.ones(len(index), dtype=bool)


@dataclass(frozen=True)
class Numbers:
    """The numbers that an article prints, with ours.

    Parameters
    ----------
    frame : DataFrame
        A line for each printed number, named by the index: ``ours``, not a number where there is none, ``article``, and
        ``deviation`` where there is one.
    deviations : str
        What the deviations are.
    speeds : bool
        Whether they depend on the machine.
    """

    frame: pd.DataFrame
    deviations: str = "the article's deviations"
    speeds: bool = False

    @property
    def there(self) -> pd.DataFrame:
        """The numbers that have one of ours beside them."""
        return self.frame[self.frame["ours"].notna()]

    @property
    def ratio(self) -> pd.Series:
        """Ours over the article's."""
        return self.there["ours"] / self.there["article"]

    @property
    def agree(self) -> pd.Series:
        """Whether each number is within the factor; equal numbers agree, including zeros."""
        ours, article = self.there["ours"], self.there["article"]
        low, high = np.minimum(ours, article), np.maximum(ours, article)
        return high <= FACTOR * low

    @property
    def within_deviations(self) -> pd.Series:
        """Whether each number is within the deviations; false without a deviation."""
        known = self.there.reindex(columns=["ours", "article", "deviation"])
        return (known["ours"] - known["article"]).abs() <= DEVIATIONS * known["deviation"]

    @property
    def differing(self) -> pd.DataFrame:
        """The numbers that do not agree, with ratio and whether they are within the deviations; empty for speeds."""
        differs = self.there.assign(ratio=self.ratio, within=self.within_deviations)[~self.agree]
        return differs.iloc[:0] if self.speeds else differs


@dataclass(frozen=True)
class Entry:
    """A table or a figure of an article.

    Parameters
    ----------
    article : Article
    item : str
        Such as "Table 2".
    shows : str
    study : str
        Name of the notebook or page that has it, as a link of the page; empty if there is none.
    extent : sequence of Share or str
        How much of it there is.
    made : str
        What made it: scale, draws, seed, version, machine.
    numbers : Numbers or None
    findings : sequence of Finding
    remarks : sequence of Remark
        Explanations of numbers that differ.
    notes : sequence of str
        What else a reader needs, such as that the data are others.
    missing : str
        Why there is nothing.
    files : sequence of str
        Tables of results, relative to ``case_studies``, that it rests on.
    """

    article: Article
    item: str
    shows: str
    study: str = ""
    extent: Sequence[Share | str] = ()
    made: str = ""
    numbers: Numbers | None = None
    findings: Sequence[Finding] = ()
    remarks: Sequence[Remark] = ()
    notes: Sequence[str] = ()
    missing: str = ""
    files: Sequence[str] = ()

    @property
    def empty(self) -> bool:
        """Whether the studies have nothing of it yet."""
        nothing = self.numbers is not None and self.numbers.there.empty and not self.findings
        return bool(self.missing) or nothing

    @property
    def kind(self) -> tuple[bool, int]:
        """For sorting: tables first, then by number."""
        word, number = self.item.split()
        return word != "Table", int({"I": "1"}.get(number, number))


def made_by(lines: pd.DataFrame) -> str:
    """Return how the lines of a table were made, from its own columns; empty if there are no lines."""
    if lines.empty:
        return ""
    parts = [_each(lines, "scale", "{}"), _lengths(lines), _each(lines, "seed", "seed {}")]
    parts += [_each(lines, "version", "{}"), _each(lines, "machine", "{}")]
    streams = lines["streams"] if "streams" in lines else pd.Series([np.nan])
    return "; ".join([part for part in parts if part] + [BY_POSITION] * bool(streams.isna().any()))


def _each(lines: pd.DataFrame, column: str, form: str) -> str:
    if column not in lines:
        return ""
    return form.format(" and ".join(map(str, sorted(set(lines[column])))))


def _lengths(lines: pd.DataFrame) -> str:
    if not {"chains", "draws"} <= set(lines):
        return ""
    pairs = sorted(set(lines[["chains", "draws"]].itertuples(index=False, name=None)))
    return " or ".join(f"{chains} × {draws:,} draws" for chains, draws in pairs)
