"""Probabilities of orthants under a multivariate normal, and classification as ratios of them."""

from pmgp.core.orthants import classify, log_probability

__all__ = ["classify", "log_probability"]
