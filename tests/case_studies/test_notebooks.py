"""What is stored of a notebook holds nothing of the run that made it, and a check of it finds what has changed."""

from __future__ import annotations

import base64
import io
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image

from case_studies.tools import notebooks
from case_studies.tools.output_comparison import Tables, differences, numbers, words

TABLE = """<style>.dataframe th {{ top: 0 }}</style><table><thead>
<tr><th></th><th>{heading}</th><th>R-hat</th></tr></thead><tbody><tr><th>level</th><td>{ess}</td><td>1.01</td></tr>{more}</tbody></table>"""


def picture(width=60, height=40, color="red"):
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), color).save(buffer, "PNG")
    return new_output("display_data", data={"image/png": base64.b64encode(buffer.getvalue()).decode()})


def table(heading="ESS", ess="812", more=""):
    return new_output("display_data", data={"text/html": TABLE.format(heading=heading, ess=ess, more=more)})


def text(line):
    return new_output("stream", name="stdout", text=line)


def notebook(*outputs, tags=(), source="run()"):
    cell = new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags)} if tags else {})
    return new_notebook(cells=[cell])


LINE = "ESS 1,204 of 4000, R-hat 1.002: no sign that chains differ\n"
STORED = (text(LINE), table(), picture())


def test_runs_that_differ_by_monte_carlo_agree():
    fresh = (text(LINE.replace("1,204", "987").replace("1.002", "1.01")), table(ess="640"), picture(62, 40, "blue"))
    assert differences(notebook(*STORED), notebook(*fresh)) == []


@pytest.mark.parametrize(
    ("fresh", "message"),
    [
        ((text(LINE), table(heading="draws"), picture()), "heading 'ESS' is now 'draws'"),
        ((text(LINE), table()), r"image/png'\], fresh ones \['stream', 'text/html'\]"),
        ((), "fresh ones none"),
        ((text(LINE), picture(), table()), "stored outputs are"),
        ((text(LINE), table(more="<tr><td>sd</td><td>1</td></tr>"), picture()), "cells in their rows"),
        ((text(LINE), table(), picture(width=120)), "60 by 40 pixels is now 120 by 40"),
        ((text(LINE.replace("1,204", "3")), table(), picture()), "1 of 3 numbers are too far apart: 1204 is now 3"),
        ((text(LINE.replace("1,204", "500")), table(), picture()), "1 of 3 numbers are too far apart: 1204 is now 500"),
        ((text(LINE), table(ess="20,000"), picture()), "812 is now 20000"),
        ((text(LINE.replace("no sign", "a sign")), table(), picture()), "is now"),
    ],
)
def test_what_has_changed_is_found_and_named(fresh, message):
    [found] = differences(notebook(*STORED), notebook(*fresh))
    assert found.startswith("code cell 1: ")
    assert re.search(message, found)


def test_other_cells_are_no_execution_of_the_same_notebook():
    assert differences(notebook(source="a"), notebook(source="b")) == ["the cells are others"]


def test_one_number_in_ten_may_be_off_and_none_far():
    steady = "1 2 3 4 5 6 7 8 9 "
    assert differences(notebook(text(steady + "10")), notebook(text(steady + "3"))) == []
    assert differences(notebook(text(steady + "10 10")), notebook(text(steady + "3 3"))) != []
    assert differences(notebook(text(steady + "100")), notebook(text(steady + "3"))) != []


def test_a_cell_that_varies_keeps_kinds_headings_and_sizes():
    stored = notebook(text("3.1 seconds"), table(), tags=["varies"])
    assert differences(stored, notebook(text("a minute"), table(ess="1"), tags=["varies"])) == []
    assert differences(stored, notebook(text("a minute"), table(heading="x"), tags=["varies"])) != []
    assert differences(stored, notebook(text("a minute"), tags=["varies"])) != []


def test_numbers_and_words_are_told_apart():
    assert numbers("n = 1,204, R-hat 1.002, −3.5 to 1e-3, v2 and EP-2") == [1204, 1.002, -3.5, 1e-3, 2]
    assert words("a   12\n----- b 3.5") == words("a 1 -- b 42.0") == "a # -- b #"
    assert words("a ▅▅▃") == words("a ▅▃▁") != words("a ▅▅▃▃")


def test_bars_may_be_one_height_apart():
    assert numbers("a ▁▃▅█ 7") == [7.0, 1.0, 2.0, 3.0, 4.0]
    stored = notebook(text("HMC ▅▅▃▁"))
    assert differences(stored, notebook(text("HMC ▅▃▃▃"))) == []
    assert differences(stored, notebook(text("HMC ▁▁▃█"))) != []


def test_a_version_is_a_word():
    assert numbers("pmgp 0.1.0 took 12.5 s for 1,234 draws") == [12.5, 1234.0]
    assert words("pmgp 0.1.0") != words("pmgp 0.2.0")


def test_styles_and_scripts_are_not_read():
    tables = Tables(TABLE.format(heading="ESS", ess="812", more=""))
    assert tables.headings == ["ESS", "R-hat", "level"]
    assert tables.shape == [3, 3]
    assert "top" not in " ".join(tables.text)


# ---- what is stored


def test_nothing_of_the_run_is_stored():
    result = new_output(
        "execute_result",
        data={"text/html": '<table id="T_1a2b3_level">', "text/plain": "a frame"},
        execution_count=7,
    )
    outputs = [
        text("one\n"),
        new_output("stream", name="stderr", text="Sampling: 100%"),
        text("<object at 0x7f3a5c0d2e10> in /home/someone/work/pmgp/case_studies/x.py\n"),
        new_output("display_data", data={"application/vnd.jupyter.widget-view+json": {}}),
        result,
    ]
    given = notebook(*outputs)
    given.cells[0].execution_count = 7
    given.cells[0].metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00"}
    cleaned = notebooks.clean(given)
    [cell] = cleaned.cells
    assert cell.execution_count is None
    assert "execution" not in cell.metadata
    assert [output.output_type for output in cell.outputs] == ["stream", "display_data"]
    assert cell.outputs[0].text == "one\n<object at 0x...> in case_studies/x.py\n"
    assert cell.outputs[1].data == {"text/html": '<table id="T_style_level">'}
    nbformat.validate(cleaned)
    assert notebooks.clean(cleaned) == cleaned


def test_figures_keep_their_size_and_become_small():
    noise = Image.effect_noise((300, 200), 60).convert("RGB")
    buffer = io.BytesIO()
    noise.save(buffer, "PNG")
    given = new_output("display_data", data={"image/png": base64.b64encode(buffer.getvalue()).decode()})
    [output] = notebooks.clean(notebook(given)).cells[0].outputs
    png = base64.b64decode(output.data["image/png"])
    assert Image.open(io.BytesIO(png)).size == (300, 200)
    assert len(png) <= len(buffer.getvalue())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one notebook of two cells, which is all that the tool sees."""
    path = tmp_path / "study" / "study.ipynb"
    path.parent.mkdir()
    cells = [new_code_cell("import os"), new_code_cell("print('folder', os.path.basename(os.getcwd()), 2)")]
    nbformat.write(new_notebook(cells=cells), path)
    find = notebooks.notebooks
    monkeypatch.setattr(notebooks, "notebooks", lambda names: find(names, root=tmp_path))
    return path


def test_a_stored_notebook_passes_its_check_until_it_is_changed(folder, capsys):
    assert notebooks.main(["check"]) == 1
    assert "stored outputs are none, fresh ones ['stream']" in capsys.readouterr().out
    assert notebooks.main(["store"]) == 0
    assert notebooks.main(["check", "study"]) == 0
    folder.write_text(folder.read_text().replace("folder study 2", "folder study 2000"))
    assert notebooks.main(["check"]) == 1
    assert "2000 is now 2" in capsys.readouterr().out


def test_an_unknown_name_is_refused_with_those_there_are(folder, capsys):
    with pytest.raises(SystemExit, match="2"):
        notebooks.main(["check", "studdy"])
    assert "no notebook studdy; there are study" in capsys.readouterr().err
