"""Why cells of Table I differ: ``python -m case_studies.annealing.sensitivity`` runs a chain for each question.

The article tunes a Metropolis proposal to an acceptance rate between 20 and 30 % and does not say which shape it has;
ours has the covariance of the draws of the preliminary run. Here it is a multiple of the identity.
"""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from case_studies.annealing import results
from case_studies.annealing.problems import on_real_data
from case_studies.tools.plain_pseudo_marginal import PlainPseudoMarginal
from case_studies.tools.provenance import provenance
from case_studies.tools.sensitivity import complete
from case_studies.tools.stream import stream
from pmgp.core.approximations import Laplace

__all__ = ["Question", "questions", "run"]

SEED, CHAINS, TUNE, DISCARDED, DRAWS = 2014, 5, 2000, 500, 1500
CELLS = (("Glass", "isotropic", 10), ("Thyroid", "ARD", 1))
"""Cells in which all of our five chains were run, and differ from the article's."""


class Question(NamedTuple):
    """One chain with importance sampling on one data set."""

    data: str
    kernel: str
    n_imp: int
    chain: int


def questions() -> list[Question]:
    """All of them."""
    return [Question(*cell, chain) for cell, chain in product(CELLS, range(CHAINS))]


def run(question: Question) -> dict[str, Any]:
    """Acceptance rates of one chain: under Laplace's evidence after tuning, then with importance sampling."""
    problem = on_real_data(question.data, question.kernel)
    adapter: Any = SimpleNamespace(model=SimpleNamespace(parts=problem.parts), dimension=problem.parts.dimension)
    rng = stream(SEED, "sensitivity", *map(str, question))
    start: Any = SimpleNamespace(theta=problem.start(rng))
    sampler = PlainPseudoMarginal(Laplace(sweeps=0), question.n_imp, tunes_on_evidence=True)
    iterate, before, after = (
        sampler.start(rng, adapter, start, TUNE, DRAWS),
        np.empty(TUNE),
        np.empty(DISCARDED + DRAWS),
    )
    for index in range(TUNE):
        iterate = sampler.step(rng, adapter, iterate, True)
        before[index] = iterate.acceptance
    for index in range(DISCARDED + DRAWS):
        iterate = sampler.step(rng, adapter, iterate, False)
        after[index] = iterate.acceptance
    rates = {"preliminary_acceptance": before[-TUNE // 4 :].mean(), "acceptance": after[DISCARDED:].mean()}
    return question._asdict() | rates | {"ess_ar": np.nan} | provenance()


if __name__ == "__main__":
    complete(results.FOLDER, Question._fields, questions(), run)
