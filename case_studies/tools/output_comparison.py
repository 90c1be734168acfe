"""Whether two executions of a notebook show the same, up to what Monte Carlo and the machine change.

The same cells with the same kinds of outputs in the same order; the same words, with numbers put aside; the same
headings and shapes of tables; figures within a tenth of the same size, which labels change a little. Numbers agree
where they differ by no more than 0.3 or half the larger one. One in ten of a cell may miss that, where it is within 3
or a factor of ten. Little bars count as numbers, their heights from one on. A cell with the tag ``varies``, whose words
or numbers depend on the time it took or on chance, has to agree in kinds, headings, shapes and sizes only.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import NamedTuple

from nbformat import NotebookNode

from case_studies.tools.bars import BLOCKS

__all__ = ["Tables", "differences", "numbers", "words"]

VARIES = "varies"
# Characters on both sides of the place where texts begin to differ.
REACH = 30
CLOSE = (0.3, 0.5)
FAR = (3.0, 0.9)
"""Largest absolute difference, and largest relative to the larger number."""
SHARE = 0.1
"""Share of a cell's numbers that may be no closer than :data:`FAR`."""
SIZE = 0.1
"""Largest relative difference of a figure's width and height."""
# Three numbers with points between them are a version, and words.
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?![.]?\d)", re.IGNORECASE)
RULES = re.compile(r"[-─━═=]{2,}")
BARS = re.compile(f"[{BLOCKS}]")


class Tables(HTMLParser):
    """Parser of the tables in a piece of HTML: text of their heading cells, and number of cells in each row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.shape: list[int] = []
        self.text: list[str] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a heading, a row or a cell."""
        self._inside = tag
        if tag == "tr":
            self.shape.append(0)
        elif tag in ("td", "th"):
            self.shape[-1] += 1

    def handle_data(self, data: str) -> None:
        """Collect text, not that of styles and scripts."""
        if self._inside in ("style", "script") or not data.strip():
            return
        self.text.append(data.strip())
        if self._inside == "th":
            self.headings.append(words(data))

    def handle_endtag(self, tag: str) -> None:
        """Leave a style or script."""
        self._inside = ""


class Shown(NamedTuple):
    """Summary of an output: its kind, its headings and shape or its size, and its text."""

    kind: str
    headings: list[str]
    shape: list[int]
    text: str


def differences(stored: NotebookNode, fresh: NotebookNode) -> list[str]:
    """Say for each code cell how two executions of it differ; empty where they agree.

    Parameters
    ----------
    stored, fresh : NotebookNode
        Notebooks as :func:`case_studies.tools.notebooks.clean` leaves them.
    """
    pairs = [[cell for cell in notebook.cells if cell.cell_type == "code"] for notebook in (stored, fresh)]
    if [cell.source for cell in pairs[0]] != [cell.source for cell in pairs[1]]:
        return ["the cells are others"]
    found = []
    for position, (first, second) in enumerate(zip(*pairs, strict=True), start=1):
        varies = VARIES in first.metadata.get("tags", [])
        found += [f"code cell {position}: {what}" for what in _cell(first, second, varies)]
    return found


def _cell(first: NotebookNode, second: NotebookNode, varies: bool) -> Iterator[str]:
    shown = [[_shown(output) for output in cell.outputs] for cell in (first, second)]
    kinds = [[one.kind for one in outputs] for outputs in shown]
    if kinds[0] != kinds[1]:
        yield f"stored outputs are {kinds[0] or 'none'}, fresh ones {kinds[1] or 'none'}"
        return
    for a, b in zip(*shown, strict=True):
        yield from _output(a, b, varies)


def _shown(output: NotebookNode) -> Shown:
    if output.output_type == "stream":
        return Shown("stream", [], [], output.text)
    kind, content = next(iter(output.data.items()))
    if kind == "image/png":
        return Shown(kind, [], list(struct.unpack(">II", base64.b64decode(content[:64])[16:24])), "")
    if kind == "text/html":
        tables = Tables(content)
        return Shown(kind, tables.headings, tables.shape, " ".join(tables.text))
    return Shown(kind, [], [], content)


def _output(a: Shown, b: Shown, varies: bool) -> Iterator[str]:
    """Differences of two outputs of one kind."""
    if a.kind == "image/png":
        if any(abs(x - y) > SIZE * max(x, y) for x, y in zip(a.shape, b.shape, strict=True)):
            yield f"a figure of {a.shape[0]} by {a.shape[1]} pixels is now {b.shape[0]} by {b.shape[1]}"
    elif a.headings != b.headings:
        changed = next((x, y) for x, y in zip([*a.headings, ""], [*b.headings, ""], strict=False) if x != y)
        yield f"a table's heading {changed[0]!r} is now {changed[1]!r}"
    elif a.shape != b.shape:
        yield f"tables have {a.shape} cells in their rows, now {b.shape}"
    elif not varies:
        yield from _text(a.text, b.text)


def _text(a: str, b: str) -> Iterator[str]:
    if words(a) != words(b):
        yield f"text {_around(words(a), words(b))!r} is now {_around(words(b), words(a))!r}"
        return
    pairs = list(zip(numbers(a), numbers(b), strict=True))
    apart = [pair for pair in pairs if not _agree(*pair, CLOSE)]
    far = [pair for pair in apart if not _agree(*pair, FAR)]
    if far or len(apart) > SHARE * len(pairs):
        listed = ", ".join(f"{x:g} is now {y:g}" for x, y in (far or apart)[:3])
        yield f"{len(far or apart)} of {len(pairs)} numbers are too far apart: {listed}"


def words(text: str) -> str:
    """Text without its numbers and heights of bars, and with one space or dash where there are several."""
    return " ".join(BARS.sub(BLOCKS[0], RULES.sub("--", NUMBER.sub("#", text))).split())


def numbers(text: str) -> list[float]:
    """The numbers in a text, where commas between digits are those of thousands, and then the heights of bars."""
    written = [float(found.replace("−", "-").replace(",", "")) for found in NUMBER.findall(text)]
    return written + [float(1 + BLOCKS.index(bar)) for bar in BARS.findall(text)]


def _agree(x: float, y: float, tolerance: tuple[float, float]) -> bool:
    absolute, relative = tolerance
    return abs(x - y) <= max(absolute, relative * max(abs(x), abs(y)))


def _around(text: str, other: str) -> str:
    """The place where a text begins to differ from another."""
    place = next((k for k, (x, y) in enumerate(zip(text, other, strict=False)) if x != y), min(len(text), len(other)))
    return text[max(0, place - REACH) : place + REACH]
