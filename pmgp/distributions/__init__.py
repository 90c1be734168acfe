"""The likelihoods as PyMC distributions."""

from pmgp.distributions.bernoulli import BernoulliLogit, BernoulliProbit

__all__ = ["BernoulliLogit", "BernoulliProbit"]
