"""The case studies as cards: a picture out of the outputs stored in each notebook, and what the study answers."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

__all__ = ["STUDIES", "cards", "notebook_paths", "picture"]

ROOT = Path(__file__).parents[1] / "case_studies"
WIDTH = 560
"""Of a picture, in pixels: twice what a card has."""
CHOSEN = "gallery"
"""The tag of the cell whose figure is shown; the first figure where no cell has it."""
STUDIES = {
    "calibrated_classification_from_csv": "A file, a classifier, and its probabilities checked against what came true.",
    "several_classes_from_csv": "Six kinds of glass: how sure, what for what, and what to leave to an expert.",
    "coal_mining": "The rate of disasters over a century, with bands: counts and a log-Gaussian Cox process.",
    "volatility": "How much a stock index moves from day to day, as a path with its uncertainty.",
    "which_kernel_which_link": "Models chosen by their evidence and by leaving one out, with error bars.",
    "calibrated_classification": "Which of four classifiers knows best when it does not know?",
    "pseudo_marginal": "How many importance samples a chain needs, and with which approximation.",
    "annealing": "Annealing from an approximation, where plain importance sampling sticks.",
    "orthants": "Counting particles, or drawing between limits: the evidence of labels as one probability.",
    "multiple_sources": "Which source of features tells which class: weighted sums of kernels, and what samples them.",
    "sparse": "Many points through a few: how fast, and how far from the exact chain.",
    "parameterizations": "What has to be held fixed while the hyper-parameters move.",
    "latent_operators": "Six transitions for the latent values, by draw, by second and by operation.",
}


def notebook_paths() -> dict[str, Path]:
    """Notebooks by name, wherever they are in case_studies."""
    return {path.stem: path for path in [*ROOT.glob("*.ipynb"), *ROOT.glob("*/*.ipynb")]}


def cards(folder: Path) -> str:
    """Markdown of a grid of cards; their pictures are written into the folder of that name in ``_static``."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = notebook_paths()
    blocks = [_card(json.loads(paths[name].read_text(encoding="utf-8")), name, folder) for name in STUDIES]
    return "::::{grid} 1 2 2 2\n:gutter: 3\n\n" + "\n".join(blocks) + "::::\n"


def _card(notebook: dict[str, Any], name: str, folder: Path) -> str:
    title = "".join(notebook["cells"][0]["source"]).splitlines()[0].removeprefix("# ")
    lines = [f":::{{grid-item-card}} {title}", f":link: /case_studies/{name}", ":link-type: doc"]
    shown = picture(notebook)
    if shown is not None:
        shown.save(folder / f"{name}.png", optimize=True)
        lines += [f":img-top: /_static/{folder.name}/{name}.png", ":class-img-top: pmgp-picture"]
    return "\n".join([*lines, "", STUDIES[name], ":::", ""])


def picture(notebook: dict[str, Any]) -> Image.Image | None:
    """The figure of the cell that is tagged for the gallery, or the first, at the width of a card."""
    found = [
        (CHOSEN not in cell["metadata"].get("tags", []), output["data"]["image/png"])
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    if not found:
        return None
    _, png = min(found, key=lambda one: one[0])
    image = Image.open(io.BytesIO(base64.b64decode("".join(png)))).convert("RGB")
    image.thumbnail((WIDTH, WIDTH), Image.Resampling.LANCZOS)
    return image.quantize(128, dither=Image.Dither.NONE)
