"""Which likelihoods have kernels that compute with their terms, beside those that stand for single functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pmgp.core.likelihoods.bernoulli import BernoulliProbit
from pmgp.core.numerics.compiled.loading import compiled

__all__ = ["LOG_RATIOS", "SWEEPS", "kernel_with_terms"]

SWEEPS, LOG_RATIOS = "propagation.probit_sweeps", "probit.log_ratios"


def kernel_with_terms(terms: Any, name: str) -> Callable[..., Any] | None:
    """The kernel, with the likelihood's data for its first argument; None where there is none.

    What is derived from a likelihood may have other terms, and is not taken for it.

    Parameters
    ----------
    terms : Likelihood
        Or anything else that factorizes over f.
    name : {SWEEPS, LOG_RATIOS}
    """
    if type(terms) is not BernoulliProbit:
        return None
    kernel = compiled(name)
    return None if kernel is None else partial(kernel, terms.sign)
