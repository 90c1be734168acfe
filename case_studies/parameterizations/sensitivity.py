"""Why cells of Tables 4 and 5 differ: ``python -m case_studies.parameterizations.sensitivity`` runs chains.

They run on several data sets, simulated with the article's variance of f and with a smaller one, with the same priors
and all else equal. KHR depends on how good Laplace's approximation is, which gets worse with that variance. Hybrid
Monte Carlo is tuned to several acceptance rates: the article names only that of Metropolis.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from case_studies.parameterizations import results, study
from case_studies.parameterizations.study import SIMULATED, Cell
from case_studies.tools.chain import run_chain
from case_studies.tools.provenance import made_by
from case_studies.tools.scale import Scale
from case_studies.tools.sensitivity import complete
from case_studies.tools.stream import stream

__all__ = ["LOG_VARIANCES", "Question", "questions", "run"]

SCALE = Scale("sensitivity", 2013, 1, 5000, 20_000, (20_000,), 4)
LOG_VARIANCES = (2.0, 1.0)
"""Logarithm of the variance of f: the article's, and a smaller one."""

CELLS = [
    (5, 100, 2, "LRG", "KHR"),
    (5, 100, 10, "LRG", "KHR"),
    (4, 100, 10, "VLT", "MH"),
    (5, 400, 2, "LRG", "KHR"),
    (5, 400, 10, "LRG", "KHR"),
]
"""Table, numbers of points and of inputs, model and method of what differs."""
RATES = (0.65, 0.9, 0.97)
TUNED = [
    (4, 100, 2, "LRG", "HMC"),
    (4, 100, 10, "LRG", "HMC"),
    (4, 100, 2, "ORD", "HMC"),
    (4, 100, 10, "ORD", "HMC"),
    (4, 100, 10, "VLT", "HMC"),
    (3, 100, 10, "LRG", "HMC"),
]
"""Cells that are run with several acceptance rates."""
TUNED_DATASETS = 2


class Question(NamedTuple):
    """A cell on one data set, which was simulated with a variance of f, tuned to an acceptance rate.

    The rate is zero for the operator's own.
    """

    table: int
    n: int
    d: int
    dataset: int
    model: str
    method: str
    log_variance: float
    rate: float = 0.0


def questions() -> list[Question]:
    """All of them."""
    several = product(CELLS, range(SCALE.datasets), LOG_VARIANCES)
    tuned = product(TUNED, range(TUNED_DATASETS), RATES)
    return [
        *(Question(*cell[:3], dataset, *cell[3:], log_variance) for cell, dataset, log_variance in several),
        *(Question(*cell[:3], dataset, *cell[3:], LOG_VARIANCES[0], rate) for cell, dataset, rate in tuned),
    ]


def run(question: Question) -> dict[str, Any]:
    """One chain, from where the study's chains start."""
    table, n, d, dataset, model, method, log_variance, rate = question
    problem = study.PROBLEMS[table](SCALE.seed, n, d, dataset, model, float(np.exp(log_variance)))
    cell = Cell(table, SIMULATED, n, d, dataset, model, method, "identity")
    # The method determines the table.
    rng = stream(SCALE.seed, "sensitivity", *map(str, question[1:-1]), *([f"{rate:g}"] if rate else []))
    found = run_chain(rng, study.sampler(cell, problem, rate or None), problem, problem.start(rng), SCALE)
    kept = {"acceptance": found["acceptance"], "ess_ar": found["ess_autoregressive"], "seconds": found["seconds"]}
    return question._asdict() | {"tune": SCALE.tune, "draws": SCALE.draws} | kept | made_by(found)


if __name__ == "__main__":
    complete(results.FOLDER, Question._fields, questions(), run)
