"""Why cells of Table 2 differ: ``python -m case_studies.latent_operators.sensitivity`` runs a chain for each question.

The article tunes to "recommended acceptance rates" and names only that of Metropolis. Hamiltonian and Langevin moves
are tuned to others here. The operators that mix slowly run on several data sets, whose effective sizes spread widely.
All operators but the Hamiltonian ones run on data that were simulated with a smaller variance of f as well, the
Hamiltonian ones on counts only; the thresholds of the ordinal model, which the article does not give, stay as
they are.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from case_studies.latent_operators import results, study
from case_studies.latent_operators.study import OPERATORS, Cell
from case_studies.tools import simulation
from case_studies.tools.provenance import provenance
from case_studies.tools.scale import Scale
from case_studies.tools.sensitivity import complete
from case_studies.tools.stream import stream

__all__ = ["BETWEEN", "LARGE", "LOCAL", "LOG_VARIANCE", "SLOW", "SMALL", "SMALLER", "Question", "questions", "run"]

SHORT = Scale("sensitivity", 2013, 1, 1500, 4000, (4000,), 2)
LONG = Scale("sensitivity", 2013, 1, 2500, 20_000, (20_000,), 5)
OF_PAPER = 20_000
"""Draws for which effective sizes are given."""

RATES = {
    ("HMC v1", "LRG"): (0.65, 0.9, 0.97),
    ("HMC v2", "LRG"): (0.65, 0.9, 0.97),
    ("HMC v1", "VLT"): (0.65, 0.9, 0.97),
    ("HMC v2", "VLT"): (0.65, 0.9, 0.97),
    ("SMMALA", "LRG"): (0.57, 0.3, 0.2),
    ("SMMALA", "ORD"): (0.57, 0.3, 0.2),
}
SMALL, LARGE = 100, 400
"""Numbers of points. With the larger one only what differs from the article's figures runs again."""
SLOW = (("MH v1", "LCX"), ("MH v1", "ORD"), ("MH v2", "LCX"))
LOG_VARIANCE, BETWEEN, SMALLER = 2.0, 1.5, 1.0
"""Logarithm of the variance of f: the article's, and smaller ones."""

LOCAL = ("MH v1", "MH v2", "SMMALA", "ELL-SS")
FEW = 2
"""Number of data sets with the smaller variance."""


class Question(NamedTuple):
    """A cell of the article's table, on one data set and tuned to one acceptance rate; zero for the operator's own.

    `log_variance` is that of f, in the data and in the prior.
    """

    n: int
    d: int
    dataset: int
    model: str
    operator: str
    rate: float
    log_variance: float = LOG_VARIANCE


def questions() -> list[Question]:
    """All of them."""
    tuned = [
        Question(SMALL, d, dataset, model, operator, rate)
        for (operator, model), rates in RATES.items()
        for d, dataset, rate in product((2, 10), range(SHORT.datasets), rates)
    ]
    places = product(SLOW, (2, 10), range(LONG.datasets))
    slow = [Question(SMALL, d, dataset, model, name, 0.0) for (name, model), d, dataset in places]
    smaller = [
        Question(SMALL, 10, dataset, model, name, 0.0, SMALLER)
        for dataset, model, name in product(range(FEW), simulation.MODELS, LOCAL)
    ]
    large = [
        Question(LARGE, d, 0, model, operator, rate)
        for (operator, model), rates in RATES.items()
        for d, rate in product((2, 10), rates)
        if operator != "SMMALA"
    ]
    large += [Question(LARGE, 2, 0, "ORD", "HMC v2", rate) for rate in (0.65, 0.9, 0.97)]
    varied = [*product(("MH v1", "MH v2", "ELL-SS"), simulation.MODELS), ("HMC v1", "LCX"), ("HMC v2", "LCX")]
    large += [
        Question(LARGE, 10, dataset, model, name, 0.0, SMALLER)
        for (name, model), dataset in product(varied, range(FEW))
    ]
    large += [Question(LARGE, 10, dataset, "LRG", "SMMALA", 0.0, SMALLER) for dataset in range(FEW)]
    large += [
        Question(LARGE, 10, dataset, "LCX", name, 0.0, BETWEEN)
        for name, dataset in product(("HMC v1", "HMC v2"), range(FEW))
    ]
    return [*tuned, *slow, *smaller, *large]


def run(question: Question) -> dict[str, Any]:
    """One chain, from the f behind the data, so that a short one need not find it."""
    cell, rate, scale = Cell(*question[:5]), question.rate or None, SHORT if question.rate else LONG
    place = (scale.seed, cell.n, cell.d, cell.dataset)
    data = simulation.data_set(*place, variance=float(np.exp(question.log_variance)))
    likelihood = simulation.observations(data, cell.model, *place)
    smaller = [] if question.log_variance == LOG_VARIANCE else [f"{question.log_variance:g}"]
    rng = stream(scale.seed, "sensitivity", *cell, f"{question.rate:g}", *smaller)
    operator = OPERATORS[cell.operator]
    target = operator.prepare(study.prior(data), likelihood)
    chain = study.run_chain(rng, operator, target, data.f, scale, rate)
    size = chain.ess_autoregressive * OF_PAPER / scale.draws
    kept = {"acceptance": round(chain.acceptance, 2), "ess_ar": size}
    return question._asdict() | {"tune": scale.tune, "draws": scale.draws} | kept | provenance()


if __name__ == "__main__":
    complete(results.FOLDER, Question._fields, questions(), run)
