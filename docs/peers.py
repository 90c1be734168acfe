"""The package beside other samplers, read from what ``make bench-peers`` wrote: a sentence, a table, and a picture.

Called as ``uv run --group docs python docs/peers.py``, it draws docs/_static/peers.png.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

__all__ = ["draw", "read", "summary", "table"]

FIGURES = Path(__file__).parents[1] / "benchmarks" / "results" / "peers.csv"
OUT = Path(__file__).parent / "_static" / "peers.png"
# In the order of the table, each with a color and a marker of its own.
TOOLS = {
    "pmgp": ("#d1495b", "o"),
    "plain pseudo-marginal": ("#edae49", "h"),
    "AA": ("#9467bd", "v"),
    "marginalize and correct": ("#8c564b", "P"),
    "NUTS": ("#1f77e0", "s"),
    "nutpie": ("#111111", "X"),
    "NumPyro": ("#2e9e57", "D"),
    "BlackJAX Laplace-HMC": ("#17a2b8", "^"),
    "BlackJAX latent Gaussian": ("#8f8f8f", "<"),
    "GPflow GPMC": ("#e05fb0", "*"),
}
OURS = "pmgp"
KERNELS = {"rbf": "", "ard": ", ARD"}
STYLE = {"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}

Rows = dict[str, dict[str, dict[str, str]]]


def read(path: Path = FIGURES) -> Rows:
    """Rows by problem and tool, problems in the order of the file."""
    rows: Rows = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(_problem(row), {})[row["tool"]] = row
    return rows


def table(path: Path = FIGURES) -> str:
    """Effective draws per second of one core, R-hat where it is too large, most memory: as a Markdown table."""
    lines = ["```{rst-class} pmgp-support", "```", ""]
    lines += ["| data | " + " | ".join(TOOLS) + " |", "|---|" + "---:|" * len(TOOLS)]
    for problem, tools in read(path).items():
        lines.append(f"| {problem} | " + " | ".join(_cell(tools.get(tool)) for tool in TOOLS) + " |")
    return "\n".join(lines) + "\n"


def summary(path: Path = FIGURES) -> str:
    """Say on how many problems the default and the other tools have converged, and how far apart they are."""
    problems = list(read(path).values())
    done = {tool: sum(_converged(tools.get(tool)) for tools in problems) for tool in TOOLS}
    second = max((tool for tool in TOOLS if tool != OURS), key=done.__getitem__)
    ratios = sorted(_ratio(tools) for tools in problems if _converged(tools.get(OURS)))
    rest = [tools for tools in problems if not _converged(tools.get(OURS))]
    assert ratios[0] > 1, "another tool is faster on one of them: write another sentence"
    assert not any(_converged(row) for tools in rest for row in tools.values()), "another tool converged: say so"
    return (
        "In that time the default converged (R-hat at most 1.01, 400 effective draws) on "
        f"{done[OURS]} of {len(problems)} problems,\nand no other tool on more than {done[second]} ({second}).\n"
        f"On these {done[OURS]} it made {ratios[0]:.1f} to {ratios[-1]:.0f} times as many effective draws per second "
        "as the next best tool, converged or not.\n"
        f"On the other {len(rest)} nothing converged.\n"
    )


def draw(axes: Axes, path: Path = FIGURES) -> None:
    """Effective draws for a second: filled where chains have converged, hollow where not."""
    rows = read(path)
    for tool, (color, marker) in TOOLS.items():
        for height, tools in enumerate(rows.values()):
            speed = float(tools[tool]["ESS/s"] or "nan") if tool in tools else np.nan
            face = color if np.isfinite(speed) and tools[tool]["status"] == "converged" else "white"
            axes.plot(speed, height, marker, color=color, markerfacecolor=face, markersize=7)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="smallest effective sample size of the hyper-parameters per second of one core")
    axes.grid(axis="x", alpha=0.3)


def _converged(row: dict[str, str] | None) -> bool:
    return row is not None and row["status"] == "converged"


def _ratio(tools: dict[str, dict[str, str]]) -> float:
    """Speed of the default, as a multiple of the fastest other tool's."""
    others = [float(row["ESS/s"]) for tool, row in tools.items() if tool != OURS and row["ESS/s"]]
    return float(tools[OURS]["ESS/s"]) / max(others)


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
        figure, axes = plt.subplots(figsize=(9.5, 1.8 + 0.28 * len(read())), layout="constrained")
        draw(axes)
        handles = [
            plt.Line2D([], [], marker=marker, linestyle="", color=color, label=tool)
            for tool, (color, marker) in TOOLS.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(OUT, dpi=115, pil_kwargs={"optimize": True})
    print(f"{OUT}: {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
