"""The units of the study: the smallest pieces that are run, kept and resumed, and the order they are run in.

Table I is made of chains, and each chain needs the preliminary run that tuned its proposal, which all methods share.
Figure 2 is made of blocks of posterior draws of theta, which need those draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from case_studies.annealing.chains import Tuned, default_chain, estimator, plain_chain, preliminary
from case_studies.annealing.problems import KERNELS, REAL, on_real_data, synthetic
from case_studies.annealing.scales import PARTICLES, SCALES, Scale
from case_studies.annealing.spread import spread
from case_studies.tools.grid import Grid
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace

__all__ = [
    "METHODS",
    "OURS",
    "SCALES",
    "SPREADS",
    "Block",
    "Chain",
    "Posterior",
    "Preliminary",
    "Scale",
    "run",
    "units",
]

OURS = "PM"
"""pmgp's step method with its defaults."""

METHODS = tuple((q, name, draws) for q in ("Laplace", "EP") for draws in (1, 10) for name in ("IS", "AIS"))
"""q, estimator and N_imp of Table I; the article has Laplace's only."""

SPREADS = (("Laplace", "IS"), ("prior", "AIS"), ("Laplace", "AIS"), ("EP", "IS"), ("EP", "AIS"))
"""Where particles start, and the estimator, of the boxes of Figure 2; the article has the first three."""

SMALL = ("Glass", "Thyroid")
APPROXIMATIONS: dict[str, Approximation] = {"Laplace": Laplace(sweeps=0), "EP": ExpectationPropagation()}


class Preliminary(NamedTuple):
    """The preliminary run of the chains with one number."""

    data: str
    kernel: str
    chain: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"preliminary-{self.data}-{self.kernel}-chain{self.chain}"


class Chain(NamedTuple):
    """A chain of Table I: with q, estimator and N_imp, or (ours, 0) the step method with its defaults."""

    data: str
    kernel: str
    q: str
    estimator: str
    n_imp: int
    chain: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"chain-{self.data}-{self.kernel}-{self.q}-{self.estimator}-{self.n_imp}-chain{self.chain}"


class Posterior(NamedTuple):
    """Posterior draws of theta for one n."""

    n: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"posterior-{self.n}"


class Block(NamedTuple):
    """A method of Figure 2 at some of the posterior draws, those from `first` on."""

    n: int
    start: str
    estimator: str
    first: int

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"block-{self.n}-{self.start}-{self.estimator}-{self.first}"


BLOCK = 10


def units(scale: Scale) -> list[Chain | Block]:
    """All chains and blocks, what says most first; what else they need is made on the way."""
    small = [_chains(data, kernel, c) for kernel in KERNELS for data in SMALL for c in range(scale.chains)]
    large = [(data, kernel, c) for kernel in KERNELS for c in range(scale.chains) for data in list(REAL)[2:]]
    first = [one for one in large if one[1] == "isotropic" and one[2] == 0]
    rest = sorted((one for one in large if one not in first), key=lambda one: (one[0] == "Banknote", one[2]))
    return [*_joined(small), *_blocks(scale), *_joined([_chains(*one) for one in [*first, *rest]])]


def _joined(parts: list[list[Chain]]) -> Iterator[Chain]:
    return (chain for part in parts for chain in part)


def _chains(data: str, kernel: str, chain: int) -> list[Chain]:
    """All methods with one preliminary run; ours on the small data sets only."""
    methods = METHODS if data in SMALL else METHODS[: len(METHODS) // 2]
    ours = [Chain(data, kernel, "EP", OURS, 0, chain)] if data in SMALL else []
    return [*(Chain(data, kernel, *method, chain) for method in methods), *ours]


def _blocks(scale: Scale) -> Iterator[Block]:
    for n in scale.sizes:
        for first in range(0, scale.thetas, BLOCK):
            yield from (Block(n, *method, first) for method in SPREADS)


def run(scale: Scale, grid: Grid, unit: Any) -> dict[str, Any]:
    """Run a unit, or take what it gave before; fit for JSON."""
    [finished] = grid.run([unit], partial(_COMPUTE[type(unit)], scale, grid))
    return finished.result


def _stream(scale: Scale, unit: Any) -> np.random.Generator:
    """Random numbers of one unit, independent of those of all others; its name has its kind and all its fields."""
    return stream(scale.seed, unit.name)


def _preliminary(scale: Scale, grid: Grid, unit: Preliminary) -> dict[str, Any]:
    problem = on_real_data(unit.data, unit.kernel)
    return preliminary(_stream(scale, unit), problem, scale.preliminary)._asdict()


def _chain(scale: Scale, grid: Grid, unit: Chain) -> dict[str, Any]:
    problem, rng = on_real_data(unit.data, unit.kernel), _stream(scale, unit)
    if unit.estimator == OURS:
        _, found = default_chain(rng, problem, scale.preliminary, scale.discarded, scale.draws)
        return found | provenance()
    tuned = Tuned(**run(scale, grid, Preliminary(unit.data, unit.kernel, unit.chain)))
    method = APPROXIMATIONS[unit.q], estimator(unit.estimator, unit.n_imp)
    found = plain_chain(rng, problem, tuned, *method, scale.discarded, scale.draws)
    return found | {"preliminary_acceptance": tuned.acceptance} | provenance()


def _posterior(scale: Scale, grid: Grid, unit: Posterior) -> dict[str, Any]:
    problem, rng = synthetic(scale.seed, unit.n), _stream(scale, unit)
    thetas, found = default_chain(rng, problem, scale.tune, 0, scale.thetas * scale.thin)
    return found | {"thetas": thetas[scale.thin - 1 :: scale.thin].tolist()}


def _block(scale: Scale, grid: Grid, unit: Block) -> dict[str, Any]:
    problem, rng = synthetic(scale.seed, unit.n), _stream(scale, unit)
    thetas = np.array(run(scale, grid, Posterior(unit.n))["thetas"])[unit.first : unit.first + BLOCK]
    approximation = APPROXIMATIONS["Laplace" if unit.start == "prior" else unit.start]
    method = estimator("AIS prior" if unit.start == "prior" else unit.estimator, PARTICLES)
    measured = [spread(rng, problem, theta, approximation, method, scale.repetitions) for theta in thetas]
    rows = [{"draw": unit.first + index, **one} for index, one in enumerate(measured)]
    return {"rows": rows} | provenance()


_COMPUTE: dict[type, Callable[[Scale, Grid, Any], dict[str, Any]]] = {
    Preliminary: _preliminary,
    Chain: _chain,
    Posterior: _posterior,
    Block: _block,
}
