"""Step methods that suit a model: the answer of the page "Which scheme should I use?", with its reason.

The rules follow the measured figures in ``benchmarks/results/schemes.csv``, which that page shows.

May import: core, interface.model, interface.sparse, interface.steps.
"""

from pmgp.interface.recommendation.choice import MANY_POINTS, recommend
from pmgp.interface.recommendation.result import Recommendation
from pmgp.interface.recommendation.schemes import MANY_HYPERPARAMETERS

__all__ = ["MANY_HYPERPARAMETERS", "MANY_POINTS", "Recommendation", "recommend"]
