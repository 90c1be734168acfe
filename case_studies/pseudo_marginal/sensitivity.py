"""Why cells of Tables 1 to 3 differ: ``python -m case_studies.pseudo_marginal.sensitivity`` runs short chains.

The article has one data set for each n and d, and does not say with which length-scale it was simulated. So the same
samplers run on several data sets, simulated with two length-scales.

The twenty updates of theta in an iteration of Table 3 can have surrogate data each, as ours have, or all the same, as
here on one of these data sets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from case_studies.pseudo_marginal import results, study
from case_studies.pseudo_marginal.comparison import ARTICLE_DRAWS
from case_studies.pseudo_marginal.problems import LENGTHSCALE, Problem, simulate
from case_studies.pseudo_marginal.samplers import RepeatedWithin
from case_studies.pseudo_marginal.study import LATENT_UPDATES, REPEATS, SIMULATED, Cell
from case_studies.tools.chain import run_chain
from case_studies.tools.provenance import made_by
from case_studies.tools.samplers import Alternating, Sampler
from case_studies.tools.scale import Scale
from case_studies.tools.sensitivity import complete
from case_studies.tools.stream import stream
from pmgp.core.latent_updates import EllipticalSliceUpdate
from pmgp.core.theta_updates.schemes import SurrogateScheme

__all__ = ["WITHIN", "Question", "questions", "run"]

DATASETS = {(50, 2): 8, (50, 10): 4, (200, 2): 4}
"""By number of points and of inputs."""
SEED = 2014
SCALES = {
    "table 1": Scale("sensitivity", SEED, 1, 1500, 5000, (5000,), 1),
    "table 3": Scale("sensitivity", SEED, 1, 200, 1000, (1000,), 1),
}
METHODS = {"table 1": ("PM EP (64)", "AA", "SURR"), "table 3": ("AA", "SURR")}
LENGTHSCALES = {2: (LENGTHSCALE,), 10: (LENGTHSCALE, 1.0)}
WITHIN, WITHIN_N = "SURR, same data", 50
"""Twenty updates given the same surrogate data, and the number of points with which they were tried."""


class Question(NamedTuple):
    """A cell of a table, on one data set that was simulated with a length-scale."""

    experiment: str
    n: int
    d: int
    kernel: str
    lengthscale: float
    dataset: int
    method: str


def questions() -> list[Question]:
    """All of them."""
    places = [(n, d, kernel, tau) for n, d in DATASETS for kernel in ("isotropic", "ARD") for tau in LENGTHSCALES[d]]
    several = [
        Question(experiment, *place, dataset, method)
        for place in places
        for dataset in range(DATASETS[place[:2]])
        for experiment, methods in METHODS.items()
        for method in methods
    ]
    small = [place for place in places if place[0] == WITHIN_N and place[3] == LENGTHSCALE]
    return [*(Question("table 3", *place, 0, WITHIN) for place in small), *several]


@lru_cache(maxsize=1)
def _problem(n: int, d: int, kernel: str, lengthscale: float, dataset: int) -> Problem:
    rng = stream(SEED, "sensitivity data", n, d, f"{lengthscale:g}", dataset)
    return Problem.simulated(simulate(n, d, rng, lengthscale), kernel)


def _sampler(question: Question) -> Sampler:
    if question.method == WITHIN:
        scheme = RepeatedWithin(scheme=SurrogateScheme(), repeats=REPEATS)
        return Alternating(scheme, 1, latent=EllipticalSliceUpdate(LATENT_UPDATES[question.experiment]))
    experiment, n, d, kernel, *_, method = question
    return study.sampler(Cell(experiment, SIMULATED, n, d, kernel, method), None)


def run(question: Question) -> dict[str, Any]:
    """One chain; the effective size is that of the article's number of draws."""
    scale, problem = SCALES[question.experiment], _problem(*question[1:6])
    rng = stream(SEED, "sensitivity", *map(str, question))
    found = run_chain(rng, _sampler(question), problem, problem.start(rng), scale)
    size = found["ess_autoregressive"] * ARTICLE_DRAWS / scale.draws
    kept = {"acceptance": found["acceptance"], "seconds": found["seconds"]}
    return question._asdict() | {"tune": scale.tune, "draws": scale.draws, "ess_ar": size} | kept | made_by(found)


if __name__ == "__main__":
    complete(results.FOLDER, Question._fields, questions(), run)
