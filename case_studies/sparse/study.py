"""The units of the study: the smallest pieces that are run, kept and resumed, and the order they are run in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

from case_studies.sparse import data, held_out, pictures
from case_studies.sparse.chains import Run, slowest_rhat, summary
from case_studies.sparse.optimum import Optimum, optimum
from case_studies.sparse.problems import Problem, inducing_inputs, problem, sparse
from case_studies.sparse.scales import SCALES, Scale
from case_studies.tools.grid import Grid
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp.gp import Sparse

__all__ = ["SCALES", "Convergence", "Fit", "HeldOut", "Scale", "Unit", "run", "units"]

KERNELS = ("isotropic", "ARD")
SELECTIONS = ("kmeans", "optimized")
GAUSSIAN = "Gaussian"
"""The method without chains: draws of the q that maximizes the bound, with theta at its maximum."""

BOTH = 3
"""Splits of coal on which both samplers run."""


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
        if self.problem == "mnist":
            return self.method == GAUSSIAN and self.inducing == "optimized"
        chosen = self.problem == "toy" or self.method != "HMC"
        return self.split == 0 and self.problem != "image" and self.kernel == KERNELS[0] and chosen


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


def units(scale: Scale) -> list[Unit]:
    """All units, the cheap ones first."""
    compared = [HeldOut(name, split) for name in held_out.PROBLEMS for split in range(scale.splits[name])]
    chains = [Convergence(cell.problem, cell.kernel, method) for cell in scale.cells for method in cell.methods]
    return [*_coal(scale), *chains[:2], *_pines(), *_toy(), *_image(scale), *compared, *chains[2:], *_mnist(scale)]


def _coal(scale: Scale) -> list[Unit]:
    methods = ("Gibbs", GAUSSIAN, "HMC")
    cells = [(split, method) for split in range(scale.splits["coal"]) for method in methods[: 3 if split < BOTH else 2]]
    found: list[Unit] = [Fit("coal", split, KERNELS[0], "grid", 30, method) for split, method in cells]
    return [*found, Fit("coal", 0, KERNELS[0], "all", data.BINS, "exact")]


def _pines() -> list[Unit]:
    sparse = [Fit(f"pines {side}", 0, KERNELS[0], "grid", 225, "Gibbs") for side in (32, 64)]
    return [*sparse, Fit("pines 32", 0, KERNELS[0], "all", 32**2, "exact")]


def _toy() -> list[Unit]:
    """Newton's method, which `SparseGibbs` makes for each proposal, often does not converge for this likelihood."""
    cells = [(kernel, kind) for kernel in KERNELS for kind in SELECTIONS]
    return [Fit("toy", 0, *cell, 50, method) for cell in cells for method in (GAUSSIAN, "HMC", "tempered")]


def _image(scale: Scale) -> list[Unit]:
    return [
        Fit("image", split, kernel, kind, points, method)
        for split in range(scale.splits["image"])
        for kernel, sampler in zip(KERNELS, ("Gibbs", "HMC"), strict=True)
        for kind in SELECTIONS
        for points in scale.points
        for method in (GAUSSIAN, sampler)
    ]


def _mnist(scale: Scale) -> list[Unit]:
    """Few inducing inputs are optimized at the quick scale, where 500 with ten Gaussians would take an hour."""
    kernel, points = (KERNELS[0], 100) if scale.name == "quick" else (KERNELS[1], 500)
    cells = (("optimized", points), ("kmeans", 500))
    return [Fit("mnist", 0, kernel, *cell, method) for cell in cells for method in (GAUSSIAN, "HMC")]


def run(scale: Scale, grid: Grid, unit: Unit) -> dict[str, Any]:
    """Run a unit, go on with its chains if it was killed, or take what it gave before; fit for JSON."""
    compute = {Fit: _fit, Convergence: _convergence, HeldOut: _held_out}[type(unit)]
    folder = grid.folder / unit.name
    [finished] = grid.run([unit], lambda one: compute(scale, one, folder))
    shutil.rmtree(folder, ignore_errors=True)
    return finished.result


def _problem(scale: Scale, name: str, split: int) -> Problem:
    sizes = scale.seen.get(name, 0), scale.held_out.get(name, 0)
    return problem(name, data.load(name, split, scale.seed, *sizes))


class Prepared(NamedTuple):
    """A model with where its chains start; without inducing inputs it has no process."""

    model: pm.Model
    process: Sparse | None
    Z: np.ndarray
    starts: list[dict[str, Any]]
    best: Optimum | None


def _prepared(rng: np.random.Generator, scale: Scale, given: Problem, unit: Fit, chains: int) -> Prepared:
    """Chains start from q where the bound is maximized, and always for classes: from v = 0 these get nowhere."""
    chosen = stream(scale.seed, "inducing", *unit[:2], *unit[3:5])
    if unit.inducing == "optimized" or unit.method == GAUSSIAN or given.outputs > 1:
        best = optimum(chosen, given, unit.kernel, unit.inducing, unit.points, scale.steps(unit.problem))
        return Prepared(best.model, best.process, best.found.Z, best.found.initvals(chains, rng), best)
    whole = unit.inducing == "all"
    Z = inducing_inputs(chosen, given.data, *(("grid", 4) if whole else (unit.inducing, unit.points)))
    model, process = sparse(given, unit.kernel, Z)
    starts = [given.start(rng, unit.kernel) for _ in range(chains)]
    return Prepared(process.exact_model(model=model) if whole else model, None if whole else process, Z, starts, None)


def _fit(scale: Scale, unit: Fit, folder: Path | None = None) -> dict[str, Any]:
    rng = stream(scale.seed, unit.name)
    given, size = _problem(scale, unit.problem, unit.split), scale.size(unit.problem, unit.method)
    model, process, Z, starts, best = _prepared(rng, scale, given, unit, size.chains)
    optimized = {"optimizing": 0.0 if best is None else best.seconds}
    if unit.method == GAUSSIAN:
        assert best is not None
        idata, figures = best.draws(rng, scale.kept), {}
    else:
        found = Run.of(model, unit.method, size, starts, rng, folder)
        idata, figures = found.idata, summary(found)
    predicted = None if process is None else held_out.prediction(process, model, idata, given.data, scale.kept)
    shown = (
        pictures.of(given, idata, model, process, (Z, best.first if best else Z), scale.kept) if unit.shown else None
    )
    return {"rows": [held_out.summary(predicted, given.data) | optimized | figures], "picture": shown} | provenance()


def _convergence(scale: Scale, unit: Convergence, folder: Path | None = None) -> dict[str, Any]:
    rng = stream(scale.seed, unit.name)
    given, cell = _problem(scale, unit.problem, 0), scale.cell(unit.problem, unit.kernel)
    fit = Fit(unit.problem, 0, unit.kernel, cell.inducing, cell.points, unit.method)
    model, _, _, starts, _ = _prepared(rng, scale, given, fit, cell.size.chains)
    found = Run.of(model, unit.method, cell.size, starts, rng, folder)
    checkpoints = [checkpoint for checkpoint in scale.checkpoints if checkpoint <= cell.size.draws]
    figures, values = summary(found), slowest_rhat(found, checkpoints)
    rows = [
        {"checkpoint": checkpoint} | {f"rhat_{rank}": float(value) for rank, value in enumerate(line)} | figures
        for checkpoint, line in zip(checkpoints, values, strict=True)
    ]
    return {"rows": rows} | provenance()


def _held_out(scale: Scale, unit: HeldOut, folder: Path | None = None) -> dict[str, Any]:
    rng = stream(scale.seed, unit.name)
    given = _problem(scale, unit.problem, unit.split)
    return {"rows": list(held_out.compared(rng, scale, given, folder))} | provenance()
