"""The record as a page in MyST: totals, a line for each table and figure, and a section for each article."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePosixPath

import numpy as np

from case_studies.tools.record import DEVIATIONS, FACTOR, Article, Entry

__all__ = ["agreement", "page", "section"]

DASH = "–"
MARKS = {True: "✓", False: "✗"}
WITHIN, UNKNOWN = "deviations", "unknown"
"""Reasons why numbers differ, but for the numbers of remarks."""
WORDS = {2.0: "two"}
TWICE = f"a factor of {WORDS[FACTOR]}"


def page(title: str, introduction: str, entries: Sequence[Entry], files: Mapping[str, tuple[int, str]]) -> str:
    """The whole page.

    Parameters
    ----------
    title, introduction : str
    entries : sequence of Entry
        In the order of the page.
    files : mapping of str to (int, str)
        For each file of results, how many lines it has and what rests on it.
    """
    by_article = {article: list(some) for article, some in groupby(entries, lambda entry: entry.article)}
    parts = [f"# {title}", introduction, totals(entries), *_summary(entries)]
    parts += [section(article, some) for article, some in by_article.items()]
    parts += ["## Files of results", "In `case_studies`; lines without the heading.", _file_table(files)]
    return "\n\n".join(parts) + "\n"


def totals(entries: Sequence[Entry]) -> str:
    """Return the totals in words."""
    judged = [entry.numbers for entry in entries if entry.numbers is not None and not entry.numbers.speeds]
    agreeing = sum(int(one.agree.sum()) for one in judged)
    findings = [one.holds for entry in entries for one in entry.findings]
    sentences = [
        f"The articles have {len(entries)} tables and figures.",
        f"The studies have something of {sum(not entry.empty for entry in entries)}.",
        f"Of {sum(len(one.frame) for one in judged):,} printed numbers in these tables,",
        f"{sum(len(one.there) for one in judged):,} have one of ours beside them,",
        f"and {agreeing:,} of these agree within {TWICE}.",
        _explained(sum(len(one.differing) for one in judged), entries),
        f"Of {len(findings)} findings that have no number in a table, {sum(findings)} come out again.",
    ]
    return "\n".join(sentences)


def _explained(differing: int, entries: Sequence[Entry]) -> str:
    reasons = [reason for entry in entries for reason in _reasons_of(entry)]
    within, none = reasons.count(WITHIN), reasons.count(UNKNOWN)
    return (
        f"Of the {differing} that differ by more, {differing - within - none} are explained below, "
        f"{within} are within {WORDS[DEVIATIONS]} of the article's deviations, and {none} are not explained."
    )


def _reasons_of(entry: Entry) -> list[str]:
    """For each differing number, the number of the remark about it, or a note that it is within the deviations."""
    if entry.numbers is None:
        return []
    differing = entry.numbers.differing
    reasons = np.where(differing["within"], WITHIN, UNKNOWN).astype(object)
    for number, remark in reversed(list(enumerate(entry.remarks, start=1))):
        reasons[remark.covers(differing.index)] = str(number)
    return reasons.tolist()


def _summary(entries: Sequence[Entry]) -> Iterator[str]:
    rows = []
    for article, some in groupby(entries, lambda entry: entry.article):
        for place, entry in enumerate(some):
            name = f"[{article.authors} ({article.year})](#{_anchor(article)})" if place == 0 else ""
            rows.append(
                [name, entry.item.replace(" ", "\N{NO-BREAK SPACE}"), entry.shows, _link(entry), agreement(entry)]
            )
    yield _table(["article", "item", "what it shows", "where", "agreement"], rows)


def agreement(entry: Entry) -> str:
    """One cell of the summary: numbers that agree, and findings; or the reason why there is nothing."""
    if entry.missing:
        return entry.missing
    parts = []
    if entry.numbers is not None:
        numbers = entry.numbers
        count = f"{len(numbers.there)} of {len(numbers.frame)} numbers"
        verdict = "speeds, not judged" if numbers.speeds else f"{int(numbers.agree.sum())} agree"
        parts.append(f"{count}: {verdict}" if len(numbers.there) else count)
    if entry.findings:
        parts.append(f"{sum(one.holds for one in entry.findings)} of {len(entry.findings)} findings")
    return "; ".join(parts) or "shown, nothing to count"


def section(article: Article, entries: Iterable[Entry]) -> str:
    """Return the section of one article."""
    return "\n\n".join([f"({_anchor(article)})=\n## {article.heading}", *map(_details, entries)])


def _anchor(article: Article) -> str:
    """Return an anchor that no two articles share."""
    return f"record-{article.year}-{article.about.replace(' ', '-')}"


def _details(entry: Entry) -> str:
    heading = f"**{entry.item}: {entry.shows}.**"
    if entry.missing:
        return f"{heading} {_sentence(entry.missing)}"
    where = f" {_link(entry)}." if entry.study else ""
    lines = [*_extent(entry), *(f"{MARKS[one.holds]} {one.text}" for one in entry.findings)]
    lines += [*entry.notes, *_reasons(entry)]
    return "\n".join([heading + where, "", *(f"- {line}" for line in lines), *_differing(entry)]).rstrip()


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _link(entry: Entry) -> str:
    return f"[{PurePosixPath(entry.study).stem.replace('_', ' ')}]({entry.study})" if entry.study else DASH


def _extent(entry: Entry) -> Iterator[str]:
    counted = [str(one) for one in entry.extent]
    if entry.numbers is not None:
        counted.append(f"{len(entry.numbers.there):,} of {len(entry.numbers.frame):,} numbers of the article")
    if counted:
        yield f"Run: {'; '.join(counted)}."
    if entry.made:
        yield f"Made by: {entry.made}."
    if entry.numbers is not None and len(entry.numbers.there):
        yield _verdict(entry)


def _verdict(entry: Entry) -> str:
    numbers = entry.numbers
    assert numbers is not None
    words = f"Ours over the article's: median {_number(numbers.ratio.median())}"
    if numbers.speeds:
        return f"{words}; speeds of different machines, which are not judged."
    words += f"; {int(numbers.agree.sum())} of {len(numbers.there)} within {TWICE}"
    if "deviation" in numbers.there:
        words += f", {int(numbers.within_deviations.sum())} within {WORDS[DEVIATIONS]} of {numbers.deviations}"
    return words + "."


def _reasons(entry: Entry) -> Iterator[str]:
    """Explanations, with the count of what each is about, and what has none."""
    reasons = _reasons_of(entry)
    for number, remark in enumerate(entry.remarks, start=1):
        if count := reasons.count(str(number)):
            yield f"({number}) {_cells(count)}: {remark.text}"
    if count := reasons.count(WITHIN):
        assert entry.numbers is not None
        yield f"{_cells(count)}: within {WORDS[DEVIATIONS]} of {entry.numbers.deviations}."
    if count := reasons.count(UNKNOWN):
        yield f"{_cells(count)}: not explained."


def _cells(count: int) -> str:
    return "One cell differs" if count == 1 else f"{count} cells differ"


def _differing(entry: Entry) -> list[str]:
    """A table that can be unfolded."""
    if entry.numbers is None or entry.numbers.differing.empty:
        return []
    frame = entry.numbers.differing
    names = [str(name).replace("_", " ") for name in frame.index.names]
    places = frame.index.to_frame().itertuples(index=False, name=None)
    rows = [
        [*map(str, place), _number(line.ours), _number(line.article), _number(line.ratio), reason]
        for place, line, reason in zip(places, frame.itertuples(), _reasons_of(entry), strict=True)
    ]
    title = f":::{{dropdown}} {len(frame)} of {len(entry.numbers.there)} cells differ by more than {TWICE}"
    return ["", title, _plain_table([*names, "ours", "article", "ratio", "reason"], rows, 4), ":::"]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.3g}"


def _file_table(files: Mapping[str, tuple[int, str]]) -> str:
    rows = [[f"`{name}`", f"{lines:,}", use] for name, (lines, use) in files.items()]
    return _table(["file", "lines", "what rests on it"], rows)


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """In small letters, as the tables of what works with what."""
    return f"```{{rst-class}} pmgp-support\n```\n\n{_plain_table(heading, rows, 0)}"


def _plain_table(heading: Sequence[str], rows: Iterable[Sequence[str]], right: int) -> str:
    """With the last few columns but one to the right."""
    rules = ["---"] * (len(heading) - right) + (["---:"] * (right - 1) + ["---"] if right else [])
    return "\n".join(_line(cells) for cells in [heading, rules, *rows])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
