"""The units of the study: the smallest pieces that are run, kept and resumed, and the order they are run in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from case_studies.sparse import data, held_out, pictures
from case_studies.sparse.chains import Run, Size, slowest_rhat, summary
from case_studies.sparse.problems import Problem, inducing_inputs, problem, sparse
from case_studies.sparse.scales import SCALES, Scale
from case_studies.tools.grid import Grid
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp.interface.sparse.selection import METHODS

__all__ = ["SCALES", "Convergence", "Fit", "HeldOut", "Scale", "Unit", "computable", "run", "units"]

KERNELS = ("isotropic", "ARD")
SELECTIONS = ("kmeans", "conditional_variance", "optimized")
"""Inducing inputs for image: the article's, and those that the covariance chooses."""

BOTH = 3
"""Splits of coal on which both samplers run."""

CELLS = (("toy", "isotropic"), ("toy", "ARD"), ("image", "isotropic"), ("image", "ARD"))
"""Of which, with coal, the article shows R-hat."""


class Fit(NamedTuple):
    """Chains on one split of a data set; for pines, those without inducing inputs are of kind "all"."""

    problem: str
    split: int
    kernel: str
    inducing: str
    points: int
    method: str

    @property
    def name(self) -> str:
        """File name without ending."""
        return "-".join(["fit", *map(str, self)]).replace(" ", "")

    @property
    def shown(self) -> bool:
        """Whether its figures need more than a line."""
        return self.split == 0 and self.problem != "image" and self.method != "HMC" and self.kernel == KERNELS[0]


class Convergence(NamedTuple):
    """Ten chains on the first split, for R-hat."""

    problem: str
    kernel: str
    method: str

    @property
    def name(self) -> str:
        """File name without ending."""
        return "-".join(["convergence", *self])


class HeldOut(NamedTuple):
    """All methods on one split of two classes, compared point by point with the exact chain."""

    problem: str
    split: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"held_out-{self.problem}-{self.split}"


Unit = Fit | Convergence | HeldOut
POINTS = {"coal": ("grid", 30), "toy": ("kmeans", 50), "image": ("kmeans", 100)}


def units(scale: Scale) -> list[Unit]:
    """All units, the cheap ones first."""
    pines = [Fit(f"pines {side}", 0, "isotropic", "grid", 225, "Gibbs") for side in (32, 64)]
    coal = [
        Fit("coal", split, "isotropic", "grid", 30, method)
        for split in range(scale.splits["coal"])
        for method in ("Gibbs", "HMC")[: 2 if split < BOTH else 1]
    ]
    exact = [Fit("coal", 0, "isotropic", "all", 100, "exact"), Fit("pines 32", 0, "isotropic", "all", 1024, "exact")]
    toy = [Fit("toy", 0, kernel, kind, 50, "Gibbs") for kernel in KERNELS for kind in ("kmeans", "optimized")]
    image = [
        Fit("image", split, kernel, kind, points, "Gibbs" if kernel == "isotropic" else "HMC")
        for split in range(scale.splits["image"])
        for kernel in KERNELS
        for kind in SELECTIONS
        for points in scale.points
    ]
    compared = [HeldOut(name, split) for name in held_out.PROBLEMS for split in range(scale.splits[name])]
    chains = [
        Convergence(name, kernel, method)
        for name, kernel in (("coal", "isotropic"), *CELLS)
        for method in ("Gibbs", "HMC")
    ]
    mnist = [
        Fit("mnist", 0, "isotropic" if scale.name == "quick" else "ARD", kind, 500, "HMC")
        for kind in ("kmeans", "optimized")
    ]
    return [*coal, *exact, *chains[:2], *pines, *toy, *image, *compared, *chains[2:], *mnist]


def computable(unit: Unit) -> bool:
    """Whether the package chooses inducing inputs of this kind, and the data are there."""
    known = not isinstance(unit, Fit) or unit.inducing in ("grid", "all", *METHODS)
    return known and data.available(unit.problem)


def run(scale: Scale, grid: Grid, unit: Unit) -> dict[str, Any]:
    """Run a unit, or take what it gave before; fit for JSON."""
    compute = {Fit: _fit, Convergence: _convergence, HeldOut: _held_out}[type(unit)]
    [finished] = grid.run([unit], lambda one: compute(scale, one))
    return finished.result


def _problem(scale: Scale, name: str, split: int) -> Problem:
    sizes = scale.seen.get(name, 0), scale.held_out.get(name, 0)
    return problem(name, data.load(name, split, scale.seed, *sizes))


def _starts(rng: np.random.Generator, given: Problem, kernel: str, size: Size) -> list[dict[str, Any]]:
    return [given.start(rng, kernel) for _ in range(size.chains)]


def _fit(scale: Scale, unit: Fit) -> dict[str, Any]:
    rng = stream(scale.seed, unit.name)
    given, size = _problem(scale, unit.problem, unit.split), scale.size(unit.problem, unit.method)
    kind, points = ("grid", 4) if unit.inducing == "all" else (unit.inducing, unit.points)
    Z = inducing_inputs(stream(scale.seed, "inducing", *unit[:2], *unit[3:5]), given.data, kind, points)
    model, process = sparse(given, unit.kernel, Z)
    if unit.inducing == "all":
        model, process = process.exact_model(model=model), None
    found = Run.of(model, unit.method, size, _starts(rng, given, unit.kernel, size), rng)
    density = None if process is None else held_out.log_density(process, model, found.idata, given.data, scale.kept)
    row = held_out.score(density) | summary(found)
    shown = pictures.of(given, found.idata, model, process, Z, scale.kept) if unit.shown else None
    return {"rows": [row], "picture": shown} | provenance()


def _convergence(scale: Scale, unit: Convergence) -> dict[str, Any]:
    rng = stream(scale.seed, unit.name)
    given, size = _problem(scale, unit.problem, 0), scale.convergence
    kind, points = POINTS[unit.problem]
    Z = inducing_inputs(stream(scale.seed, "inducing", unit.problem, 0, kind, points), given.data, kind, points)
    model, _ = sparse(given, unit.kernel, Z)
    found = Run.of(model, unit.method, size, _starts(rng, given, unit.kernel, size), rng)
    figures = summary(found)
    values = slowest_rhat(found, scale.checkpoints)
    rows = [
        {"checkpoint": checkpoint} | {f"rhat_{rank}": float(value) for rank, value in enumerate(line)} | figures
        for checkpoint, line in zip(scale.checkpoints, values, strict=True)
    ]
    return {"rows": rows} | provenance()


def _held_out(scale: Scale, unit: HeldOut) -> dict[str, Any]:
    rng = stream(scale.seed, unit.name)
    given = _problem(scale, unit.problem, unit.split)
    return {"rows": list(held_out.compared(rng, scale, given))} | provenance()
