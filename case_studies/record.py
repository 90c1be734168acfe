"""The page "The record": ``python -m case_studies.record`` writes it from the stored results of all studies.

Each study that repeats an article has a module ``record`` with its entries. Articles without a study are listed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pandas as pd

from case_studies.tools import articles
from case_studies.tools.articles import DEEP_PROCESSES
from case_studies.tools.record import Entry
from case_studies.tools.record_page import page

__all__ = ["PAGE", "all_entries", "files", "text"]

ROOT = Path(__file__).parent
PAGE = ROOT.parent / "docs" / "record.md"
ORDER = [
    articles.COMPARATIVE_EVALUATION, articles.SEVERAL_SOURCES, articles.PSEUDO_MARGINAL, articles.ANNEALING,
    articles.ORTHANTS, articles.INDUCING_INPUTS, articles.PRECONDITIONERS, articles.LANGEVIN_DYNAMICS, DEEP_PROCESSES,
]  # fmt: skip
INTRODUCTION = """\
Every table and figure of the articles that this package builds on, what the case studies have of it, and how far it
agrees. `python -m case_studies.record` makes this page from the stored results; a test fails where the two differ.

A number agrees if it is within a factor of two of the article's. Where the article prints deviations, the page also
says how many numbers are within two of these. Effective sizes are those by an autoregression, as R's package coda
computes them. Speeds depend on the machine and are not judged. A finding is a sentence of an article that has no number
in a table: ✓ if it comes out again, ✗ if not."""

NOT_RUN = {
    "Table 1": ("error and log-likelihood on MNIST8M and airline", "neither data set is at hand"),
    "Figure 1": ("a diagram of the approximation", "it has no numbers"),
    "Figure 9": (
        "training by several workers at a time",
        "updates at different times are not in the package, whose workers wait for each other",
    ),
}


def all_entries() -> list[Entry]:
    """Entries of all studies, by article, tables before figures."""
    modules = [import_module(f"case_studies.{path.parent.name}.record") for path in sorted(ROOT.glob("*/record.py"))]
    found = [entry for module in modules if hasattr(module, "entries") for entry in module.entries()]
    found += [Entry(DEEP_PROCESSES, item, shows, missing=why) for item, (shows, why) in NOT_RUN.items()]
    return sorted(found, key=lambda entry: (ORDER.index(entry.article), *entry.kind))


def files(entries: Sequence[Entry]) -> dict[str, tuple[int, str]]:
    """Every table of results of the studies that repeat an article: how many lines it has, and what rests on it."""
    found = {}
    for study in sorted(ROOT.glob("*/record.py")):
        for path in sorted(study.parent.glob("results/*.csv")):
            name = path.relative_to(ROOT).as_posix()
            found[name] = len(pd.read_csv(path)), _use(name, entries)
    return found


def _use(name: str, entries: Sequence[Entry]) -> str:
    if Path(name).stem.startswith(("article", "authors")):
        return "the article's own numbers"
    return ", ".join(entry.item for entry in entries if name in entry.files) or "nothing that is in an article"


def text(entries: Sequence[Entry]) -> str:
    """The page of these entries."""
    return page("The record", INTRODUCTION, entries, files(entries))


if __name__ == "__main__":
    PAGE.write_text(text(all_entries()), encoding="utf-8")
