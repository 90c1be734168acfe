"""The case studies as cards: a small picture of the stored results, and the question that the study answers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import thumbnails

__all__ = ["FIRST", "STUDIES", "cards", "notebook_paths"]

ROOT = Path(__file__).parents[1] / "case_studies"
STUDIES = {
    "calibrated_classification_from_csv": "A file, a classifier, and its probabilities checked against what came true.",
    "several_classes_from_csv": "Six kinds of glass: how sure, what for what, and what to leave to an expert.",
    "coal_mining": "The rate of disasters over a century, with bands: counts and a log-Gaussian Cox process.",
    "volatility": "How much a stock index moves from day to day, as a path with its uncertainty.",
    "stochastic_volatility": "The S&P 500, with an autoregression: normal or heavy tails, by their evidence.",
    "maps": "Where earthquakes are frequent, where a plant grows, and where pines stand: fields on lattices and areas.",
    "groups": "Seizures of patients and labels of children: effects of groups, and where Laplace's evidence is off.",
    "which_kernel_which_link": "Models chosen by their evidence and by leaving one out, with error bars.",
    "approximations": "Laplace, EP and others beside the exact chain on twenty posteriors, and signs of their error.",
    "calibrated_classification": "Which of four classifiers knows best when it does not know?",
    "pseudo_marginal": "How many importance samples a chain needs, and with which approximation.",
    "annealing": "Annealing from an approximation, where plain importance sampling sticks.",
    "orthants": "Counting particles, or drawing between limits: the evidence of labels as one probability.",
    "multiple_sources": "Which source of features tells which class: weighted sums of kernels, and what samples them.",
    "sparse": "Many points through a few: how fast, and how far from the exact chain.",
    "deep": "One layer, two and more, beside one process and trees, and what independent weights cost.",
    "iterative": "Linear systems without a factorization: iterations, errors over time, random stops.",
    "parameterizations": "What has to be held fixed while the hyper-parameters move.",
    "latent_operators": "Six transitions for the latent values, by draw, by second and by operation.",
}
FIRST = ("calibrated_classification_from_csv", "several_classes_from_csv", "coal_mining", "which_kernel_which_link")
"""The studies on the front page."""


def notebook_paths() -> dict[str, Path]:
    """Notebooks by name, wherever they are in case_studies."""
    return {path.stem: path for path in [*ROOT.glob("*.ipynb"), *ROOT.glob("*/*.ipynb")]}


def cards(folder: Path, names: Iterable[str] = STUDIES) -> str:
    """Return a grid of cards in Markdown; their pictures are written into the folder of that name in ``_static``."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = notebook_paths()
    blocks = [_card(json.loads(paths[name].read_text(encoding="utf-8")), name, folder) for name in names]
    return "::::{grid} 1 2 2 2\n:gutter: 3\n\n" + "\n".join(blocks) + "::::\n"


def _card(notebook: dict[str, Any], name: str, folder: Path) -> str:
    title = "".join(notebook["cells"][0]["source"]).splitlines()[0].removeprefix("# ")
    thumbnails.save(name, folder / f"{name}.png")
    lines = [
        f":::{{grid-item-card}} {title}",
        f":link: /case_studies/{name}",
        ":link-type: doc",
        f":img-top: /_static/{folder.name}/{name}.png",
        ":class-img-top: pmgp-picture",
    ]
    return "\n".join([*lines, "", STUDIES[name], ":::", ""])
