"""What the front page and the README show of results is what the results say, and every case study has its card."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import textwrap
import zlib
from pathlib import Path

import matplotlib.figure
import matplotlib.pyplot as plt
import matplotlib.text
import numpy as np
import pytest
from PIL import Image

from benchmarks.peers import TOOLS

ROOT = Path(__file__).parents[1]


@pytest.fixture
def part(monkeypatch):
    """A module of docs/, which is no package."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


def test_the_readme_says_as_much_about_other_tools_as_the_results_do(part):
    assert part("peers").summary() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_summary_counts_only_what_has_converged(part, tmp_path):
    """The default has converged on two of three problems, three and ten times as fast as the next tool."""
    peers, path = part("peers"), tmp_path / "peers.csv"
    rows = [
        "a,10,1,rbf,pmgp,converged,30,1.0",
        "a,10,1,rbf,NUTS,converged,10,1.0",
        "b,10,1,rbf,pmgp,converged,30,1.0",
        "b,10,1,rbf,nutpie,not converged,3,1.3",
        "c,10,1,rbf,pmgp,not converged,500,1.6",
        "c,10,1,rbf,AA,over budget,,",
    ]
    path.write_text("\n".join([PEERS.splitlines()[0], *rows]), encoding="utf-8")
    said = peers.summary(path)
    assert "on 2 of 3 problems,\nand no other tool on more than 1 (NUTS)" in said
    assert "it made 3.0 to 10 times as many" in said
    assert "On the other 1 nothing converged" in said


def test_a_tool_that_is_ahead_is_not_passed_over(part, tmp_path):
    path = tmp_path / "peers.csv"
    rows = ["a,10,1,rbf,pmgp,converged,30,1.0", "a,10,1,rbf,NUTS,not converged,31,1.2"]
    path.write_text("\n".join([PEERS.splitlines()[0], *rows]), encoding="utf-8")
    with pytest.raises(AssertionError, match="another tool is faster"):
        part("peers").summary(path)


def test_figures_after_hardly_any_tuning_are_left_out_with_the_reason_beside_them(part, tmp_path):
    comparison, path = part("comparison"), tmp_path / "schemes.csv"
    _, problem = comparison.PROBLEMS[0]
    rows = [
        f"{problem},{method},12.3,1.0,{tune},60" for method, tune in (("PM EP", 1000), ("NUTS", 50), ("nutpie", 400))
    ]
    path.write_text("\n".join(["data,method,ESS/s,R-hat,tune,draws", *rows]), encoding="utf-8")
    text = comparison.table(path)
    assert f"| 12 | {comparison.SHORT} | 12 |" in text
    assert "only 50 + 60 iterations" in text


def test_figures_that_have_not_converged_say_so(part, tmp_path):
    comparison = part("comparison")
    rows = [(problem, method) for _, problem in comparison.PROBLEMS for method in comparison.METHODS.values()]
    lines = [f"{problem},{method},{12.34 if method == 'NUTS' else 0.456},1.2,400,400" for problem, method in rows]
    path = tmp_path / "schemes.csv"
    path.write_text("\n".join(["data,method,ESS/s,R-hat,tune,draws", *lines]), encoding="utf-8")
    assert "| 0.46, R-hat 1.20 | 12, R-hat 1.20 | 0.46, R-hat 1.20 |" in comparison.table(path)


PEERS = """data,n,d,kernel,tool,status,ESS/s,R-hat
synthetic n=100 d=2,100,2,rbf,pmgp,converged,123.4,1.001
synthetic n=100 d=2,100,2,rbf,NUTS,not converged,0.456,1.2
crabs ARD,200,5,ard,nutpie,over budget,,
"""


def test_the_table_of_peers_says_what_has_not_converged(part, tmp_path):
    peers, path = part("peers"), tmp_path / "peers.csv"
    path.write_text(PEERS, encoding="utf-8")
    *_, first, second = peers.table(path).splitlines()
    nothing = dict.fromkeys(peers.TOOLS, "–")
    cells = {"synthetic, n = 100, d = 2": nothing | {"pmgp": "123", "NUTS": "(0.46, 1.20)"}}
    cells["crabs, n = 200, d = 5, ARD"] = nothing | {"nutpie": "over budget"}
    rows = [" | ".join([name, *row.values()]) for name, row in cells.items()]
    assert [first, second] == [f"| {row} |" for row in rows]


def test_the_picture_of_peers_is_hollow_where_nothing_has_converged(part, tmp_path):
    peers, path = part("peers"), tmp_path / "peers.csv"
    path.write_text(PEERS, encoding="utf-8")
    axes = matplotlib.figure.Figure().add_subplot()
    peers.draw(axes, path)
    points = {line.get_xdata()[0]: line for line in axes.lines if np.isfinite(line.get_xdata()[0])}
    assert set(points) == {123.4, 0.456}
    assert points[123.4].get_markerfacecolor() == peers.TOOLS["pmgp"][0]
    assert points[0.456].get_markerfacecolor() == "white"
    assert [label.get_text() for label in axes.get_yticklabels()] == [*peers.read(path)]


def test_every_tool_has_a_column_a_color_and_a_marker_of_its_own(part):
    tools = part("peers").TOOLS
    assert list(tools) == list(TOOLS)
    for looks in zip(*tools.values(), strict=True):
        assert len(set(looks)) == len(tools)


@pytest.fixture
def gallery(part):
    part("thumbnails")
    return part("gallery")


def test_every_case_study_has_a_card_and_a_place_in_the_list(gallery, tmp_path):
    assert set(gallery.STUDIES) == set(gallery.notebook_paths())
    text = gallery.cards(tmp_path / "gallery")
    listed = (ROOT / "docs" / "case_studies" / "index.md").read_text(encoding="utf-8").splitlines()
    for name in gallery.STUDIES:
        assert f":link: /case_studies/{name}\n" in text
        assert name in listed
    pictures = list((tmp_path / "gallery").iterdir())
    assert {path.stem for path in pictures} == set(gallery.STUDIES)
    assert len({Image.open(path).size for path in pictures}) == 1
    for path in pictures:
        assert f":img-top: /_static/gallery/{path.name}" in text
        assert path.stat().st_size < 100_000


def test_the_front_page_has_four_of_the_cards(gallery, tmp_path):
    text = gallery.cards(tmp_path / "gallery", gallery.FIRST)
    assert re.findall(r":link: /case_studies/(\w+)", text) == [*gallery.FIRST]
    assert len(gallery.FIRST) == 4


NARROWEST = 400
"""Width of a card in a wide window, in pixels of 96 to the inch."""


def test_the_picture_of_a_card_has_few_words_in_letters_that_can_be_read(part):
    """No more than ten words, and no letter under nine points at the size shown."""
    thumbnails = part("thumbnails")
    for name in thumbnails.DRAWN:
        with plt.style.context(thumbnails.STYLE):
            figure = thumbnails.figure(name)
        shown = NARROWEST / 96 / figure.get_figwidth()
        figure.canvas.draw()
        texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_visible() and text.get_text()]
        assert min(text.get_fontsize() for text in texts) * shown >= 9, name
        words = [word for text in texts for word in re.findall(r"[A-Za-z-]{2,}", text.get_text())]
        assert len(words) <= 10, (name, words)
        plt.close(figure)


def test_methods_that_take_the_same_share_a_column(part, tmp_path):
    rows = ["feature,A,B,C,predict,refused with", "one,yes,yes,–,mean,no x", "two,–,–,–,–,no x"]
    (tmp_path / "some.csv").write_text("\n".join(rows), encoding="utf-8")
    lines = part("what_works").markdown("some", tmp_path).splitlines()
    assert lines[3] == "| feature | A, B | C | predict |"
    assert lines[5] == "| one <sup>1</sup> | ✓ | – | mean |"


def test_refusals_are_notes_beneath_their_table(part, tmp_path):
    rows = ["feature,A,B,refused with", "one,yes,mean,", "two,–,yes,no x", '"three, four",–,–,no x; no y']
    (tmp_path / "some.csv").write_text("\n".join(rows), encoding="utf-8")
    lines = part("what_works").markdown("some", tmp_path).splitlines()
    assert lines[3:] == [
        "| feature | A | B |",
        "| --- | :-: | :-: |",
        "| one | ✓ | mean |",
        "| two <sup>1</sup> | – | ✓ |",
        "| three, four <sup>1, 2</sup> | – | – |",
        "",
        "1. “no x”",
        "2. “no y”",
    ]


def test_links_go_to_names_that_the_installed_packages_have(part, tmp_path):
    """Writing an inventory looks each of them up."""
    inventories = part("inventories")
    lines = []
    for _, path in inventories.write(tmp_path).values():
        *header, body = Path(path).read_bytes().split(b"\n", 4)
        assert header[0] == b"# Sphinx inventory version 2"
        lines += zlib.decompress(body).decode().splitlines()
    assert {line.split()[0] for line in lines} == set(inventories.NAMES)
    assert f"pymc.sample py:function 1 {inventories.SAMPLING} -" in lines
    assert inventories.whole("pm.sample()") == "pymc.sample"


def test_an_unknown_name_has_no_link(part, tmp_path, monkeypatch):
    inventories = part("inventories")
    monkeypatch.setitem(inventories.NAMES, "pymc.no_such_name", "api.html")
    with pytest.raises(AttributeError, match="no_such_name"):
        inventories.write(tmp_path)


PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tasks").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page):
    """But those that a reader is to write, which stand for any name."""
    named = re.findall(
        r"`((?:pmgp|tests|docs|benchmarks|case_studies)/[\w/.-]+\.\w+)`", page.read_text(encoding="utf-8")
    )
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []


def blocks(page: Path) -> list[list[str]]:
    """Return the blocks of a page, which empty lines part, without its code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in re.split(r"\n\s*\n", text.strip())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_row_is_cut_off_from_its_table(page):
    """A block of rows has its header first, and a line that parts it from the others."""
    tables = [lines for lines in blocks(page) if lines and all(line.startswith("|") for line in lines)]
    assert [lines[0] for lines in tables if len(lines) < 3 or not re.fullmatch(r"[| :-]+", lines[1])] == []


LONGEST = 100
"""Words of a paragraph: some eight lines of text."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "record.md"], ids=lambda page: page.name)
def test_no_paragraph_is_a_wall_of_text(page):
    """Tables, lists and headings aside, and the record, whose lists are written by its script."""
    paragraphs = [lines for lines in blocks(page) if lines and not re.match(r"[|#-]|\d\.", lines[0])]
    words = {lines[0]: len(" ".join(lines).split()) for lines in paragraphs}
    assert {line: number for line, number in words.items() if number > LONGEST} == {}


def code(page: Path) -> list[str]:
    """Return the blocks of code of a page, without the options of their cells."""
    blocks = r"^```(?:python|\{code-cell\} ipython3)\n(.*?)^```"
    cells = re.findall(blocks, page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(re.sub(r"^:tags:.*\n", "", cell, flags=re.MULTILINE)) for cell in cells]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_a_page_is_python(page):
    """A block may go on with the block of the one before, whose indentation it then has."""
    for cell in code(page):
        ast.parse(cell)


def test_links_of_the_bibliography_are_those_of_the_citation_file():
    cited = re.search(r"^    doi: (\S+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    page = (ROOT / "docs" / "bibliography.md").read_text(encoding="utf-8")
    assert f"https://doi.org/{cited}" in page
    assert f"doi     = {{{cited}}}" in page


def texts() -> str:
    """Return all strings of the package, with a gap where a value is filled in."""
    nodes = [
        node for path in (ROOT / "pmgp").rglob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    filled = [
        [part for part in node.values if isinstance(part, ast.Constant)]
        for node in nodes
        if isinstance(node, ast.JoinedStr)
    ]
    plain = [[node] for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "\n".join("\0".join(str(part.value) for part in parts) for parts in [*filled, *plain])


def runs(message: str) -> list[str]:
    """Return the runs of three words in a message (two in a short one), without the parts that are filled in."""
    parts = [part.split() for part in re.split(r"\.\.\.|'\w+'|\([^)]*\)|\b[kNn]\b|\b\d+\b", message)]
    sizes = [(words, min(3, len(words) - 1)) for words in parts if len(words) > 1]
    return [" ".join(words[i : i + size]) for words, size in sizes for i in range(len(words) - size + 1)]


def test_messages_that_are_explained_are_the_packages():
    """Most words in a row of each message in a heading, except for messages of PyMC and PyTensor.

    Names and kinds of variables, which are filled in, are not found.
    """
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### (?!PyMC:|\"PyTensor could)(.*)$", page, flags=re.MULTILINE)
    messages = [message for heading in headings for message in re.findall(r'"([^"]*)"', heading) if runs(message)]
    said = texts()
    assert [message for message in messages if np.mean([run in said for run in runs(message)]) < 0.5] == []
    assert len(messages) > 60
