"""The articles that the studies repeat, as the record names them."""

from __future__ import annotations

from case_studies.tools.record import Article

__all__ = [
    "ANNEALING", "COMPARATIVE_EVALUATION", "DEEP_PROCESSES", "INDUCING_INPUTS", "LANGEVIN_DYNAMICS", "ORTHANTS",
    "PRECONDITIONERS", "PSEUDO_MARGINAL", "SEVERAL_SOURCES",
]  # fmt: skip

COMPARATIVE_EVALUATION = Article("Filippone, Zhong and Girolami", 2013, "a comparison of samplers")
SEVERAL_SOURCES = Article("Filippone, Marquand et al.", 2012, "several sources of features")
PSEUDO_MARGINAL = Article("Filippone and Girolami", 2014, "pseudo-marginal chains")
ANNEALING = Article("Filippone", 2014, "annealing")
ORTHANTS = Article("Atiya, Fayed and Abdel-Gawad", 2021, "orthant probabilities")
INDUCING_INPUTS = Article("Hensman, Matthews, Filippone and Ghahramani", 2015, "inducing inputs")
PRECONDITIONERS = Article("Cutajar, Osborne, Cunningham and Filippone", 2016, "preconditioners")
LANGEVIN_DYNAMICS = Article("Filippone and Engler", 2015, "Langevin dynamics without factorizations")
DEEP_PROCESSES = Article("Cutajar, Bonilla, Michiardi and Filippone", 2017, "deep processes")
