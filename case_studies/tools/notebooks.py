"""The case studies' notebooks with their outputs: execute them, store what they show, and check what is stored.

``python -m case_studies.tools.notebooks store`` executes the notebooks in place and stores their outputs, so that they
can be read where the repository is; ``check`` executes copies and compares. Names of notebooks choose among them. The
stored outputs leave out whatever differs from run to run without meaning anything.
"""

from __future__ import annotations

import argparse
import base64
import io
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

from case_studies.tools.output_comparison import differences

__all__ = ["clean", "execute", "main", "notebooks"]

ROOT = Path(__file__).parents[1]
TIMEOUT = 900
"""Seconds for a cell."""
COLORS = 256
"""Number of colors of a stored figure, which make it a third as large."""
KEPT = ("text/html", "text/markdown", "text/latex", "image/png", "text/plain")
"""Kinds of outputs that are stored; of the first and the last, which say the same, the first."""
VOLATILE = (
    (re.compile(r"0x[0-9a-f]{6,}"), "0x..."),
    # Identifiers that pandas gives the styles of a table.
    (re.compile(r"\bT_[0-9a-f]{5}"), "T_style"),
    (re.compile(r"(?:/[\w.~-]+)+/(?=(?:case_studies|pmgp|site-packages)/|tmp\w+)"), ""),
)


def notebooks(names: list[str] | None = None, root: Path = ROOT) -> list[Path]:
    """Paths of the notebooks, or of those with the given names.

    Raises
    ------
    ValueError
        If a name is none of theirs.
    """
    found = {path.stem: path for path in sorted([*root.glob("*.ipynb"), *root.glob("*/*.ipynb")])}
    unknown = sorted(set(names or ()) - set(found))
    if unknown:
        raise ValueError(f"no notebook {', '.join(unknown)}; there are {', '.join(found)}")
    return [found[name] for name in names or found]


def execute(path: Path) -> NotebookNode:
    """Run a notebook in its folder, from the first cell to the last, and return it with its outputs cleaned."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=TIMEOUT, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    )
    return clean(client.execute())


def clean(notebook: NotebookNode) -> NotebookNode:
    """Leave out progress, warnings, counts, addresses and paths, and make figures small."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.execution_count = None
            kept = [_cleaned(output) for output in cell.outputs if output.get("name") != "stderr"]
            cell.outputs = _merged([output for output in kept if output is not None])
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def _cleaned(output: NotebookNode) -> NotebookNode | None:
    """One output, or none where nothing of it is kept."""
    if output.output_type == "stream":
        return nbformat.v4.new_output("stream", name="stdout", text=_stable(output.text))
    kind = next((kind for kind in KEPT if kind in output.data), None)
    if kind is None:
        return None
    content = _small(output.data[kind]) if kind == "image/png" else _stable(output.data[kind])
    return nbformat.v4.new_output("display_data", data={kind: content})


def _stable(text: str) -> str:
    for pattern, replacement in VOLATILE:
        text = pattern.sub(replacement, text)
    return text


def _small(png: str) -> str:
    """A picture of the same size with a palette, which plots of few colors do not show."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    buffer = io.BytesIO()
    image.quantize(COLORS, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join streams in sequence: where one ends and the next begins is chance."""
    merged: list[NotebookNode] = []
    for output in outputs:
        if merged and output.output_type == merged[-1].output_type == "stream":
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def store(path: Path) -> list[str]:
    """Execute a notebook and write it with its outputs."""
    notebook = execute(path)
    nbformat.write(notebook, path)
    print(f"{path.stem}: stored, {path.stat().st_size / 1000:.0f} kB", flush=True)
    return []


def check(path: Path) -> list[str]:
    """Execute a notebook, and return how what it shows differs from what is stored."""
    began = time.perf_counter()
    stored, fresh = clean(nbformat.read(path, as_version=4)), execute(path)
    found = [f"{path.stem}, {difference}" for difference in differences(stored, fresh)]
    print(f"{path.stem}: {len(found) or 'no'} differences, {time.perf_counter() - began:.0f} s", flush=True)
    return found


def main(words: list[str] | None = None) -> int:
    """Store or check notebooks; 1 where a check has found differences."""
    parser = argparse.ArgumentParser(prog="python -m case_studies.tools.notebooks", description=__doc__)
    parser.add_argument("action", choices=["store", "check"])
    parser.add_argument("names", nargs="*", metavar="NAME", help="notebooks, all by default")
    arguments = parser.parse_args(words)
    try:
        paths = notebooks(arguments.names)
    except ValueError as error:
        parser.error(str(error))
    found = [difference for path in paths for difference in {"store": store, "check": check}[arguments.action](path)]
    print(*found, sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
