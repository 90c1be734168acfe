"""Predictions at new inputs: expectations averaged over the posterior, and draws.

May import: core, interface.graphs, interface.covariance, interface.distributions, interface.importance,
interface.model.
"""

from pmgp.interface.prediction.predict import predict
from pmgp.interface.prediction.sample import sample_predictions

__all__ = ["predict", "sample_predictions"]
