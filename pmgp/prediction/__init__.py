"""Predictions at new inputs: expectations averaged over the posterior, and draws."""

from pmgp.prediction.predict import predict
from pmgp.prediction.sample import sample_predictions

__all__ = ["predict", "sample_predictions"]
