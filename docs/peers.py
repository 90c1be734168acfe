"""The package beside other samplers, read from what ``make bench-peers`` wrote: a table, and the README's picture.

Called as ``uv run --group docs python docs/peers.py``, it draws docs/_static/peers.png.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

__all__ = ["draw", "read", "table"]

FIGURES = Path(__file__).parents[1] / "benchmarks" / "results" / "peers.csv"
OUT = Path(__file__).parent / "_static" / "peers.png"
# In the order of the table, each with a color and a marker.
TOOLS = {
    "pmgp": ("#d1495b", "o"),
    "plain pseudo-marginal": ("#edae49", "o"),
    "AA": ("#8d6a9f", "o"),
    "marginalize and correct": ("#e07a5f", "P"),
    "NUTS": ("#1b7ea3", "s"),
    "nutpie": ("#00798c", "s"),
    "NumPyro": ("#66a182", "s"),
    "BlackJAX Laplace-HMC": ("#5c5c5c", "^"),
    "BlackJAX latent Gaussian": ("#9a9a9a", "^"),
    "GPflow GPMC": ("#2e4057", "D"),
}
KERNELS = {"rbf": "", "ard": ", ARD"}
STYLE = {"font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False}

Rows = dict[str, dict[str, dict[str, str]]]


def read(path: Path = FIGURES) -> Rows:
    """Rows by problem and tool, problems in the order of the file."""
    rows: Rows = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(_problem(row), {})[row["tool"]] = row
    return rows


def table(path: Path = FIGURES) -> str:
    """Effective draws for a second of one core, R-hat where it is too large, most memory: as a Markdown table."""
    lines = ["| data | " + " | ".join(TOOLS) + " |", "|---|" + "---:|" * len(TOOLS)]
    for problem, tools in read(path).items():
        lines.append(f"| {problem} | " + " | ".join(_cell(tools.get(tool)) for tool in TOOLS) + " |")
    return "\n".join(lines) + "\n"


def draw(axes: Axes, path: Path = FIGURES) -> None:
    """Effective draws for a second: filled where chains have converged, hollow where not."""
    rows = read(path)
    for tool, (color, marker) in TOOLS.items():
        for height, tools in enumerate(rows.values()):
            speed = float(tools[tool]["ESS/s"] or "nan") if tool in tools else np.nan
            face = color if np.isfinite(speed) and tools[tool]["status"] == "converged" else "white"
            axes.plot(speed, height, marker, color=color, markerfacecolor=face, markersize=6)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="smallest effective sample size of the hyper-parameters for a second of one core")
    axes.grid(axis="x", alpha=0.3)


def _problem(row: dict[str, str]) -> str:
    name = row["data"].split()[0]
    return f"{name}, n = {row['n']}, d = {row['d']}{KERNELS[row['kernel']]}" if row["kernel"] in KERNELS else name


def _cell(row: dict[str, str] | None) -> str:
    """A dash for what was not run; a status where there are no figures."""
    if row is None:
        return "–"
    if row["status"] not in ("converged", "not converged"):
        return row["status"]
    speed = float(row["ESS/s"])
    shown = f"{speed:.0f}" if speed >= 9.95 else f"{speed:.2g}"
    return shown if row["status"] == "converged" else f"({shown}, {float(row['R-hat']):.2f})"


def main() -> None:
    """Draw the picture, and say how large the file is."""
    with plt.style.context(STYLE):
        figure, axes = plt.subplots(figsize=(10.0, 1.6 + 0.28 * len(read())), layout="constrained")
        draw(axes)
        handles = [
            plt.Line2D([], [], marker=marker, linestyle="", color=color, label=tool)
            for tool, (color, marker) in TOOLS.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
        figure.savefig(OUT, dpi=115, pil_kwargs={"optimize": True})
    print(f"{OUT}: {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
