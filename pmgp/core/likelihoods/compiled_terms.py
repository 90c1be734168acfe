"""Table of the likelihoods with compiled kernels that evaluate their terms inside longer computations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pmgp.core.likelihoods.bernoulli import BernoulliProbit
from pmgp.core.likelihoods.multinomial_logit import MultinomialLogit
from pmgp.core.likelihoods.ordinal import OrdinalProbit
from pmgp.core.numerics.compiled.loading import compiled

SWEEPS, NEWTON, LOG_RATIOS = "sweeps", "newton", "log_ratios"
BLOCK_LOG_RATIOS = "block_log_ratios"
WEIGHED, ESTIMATED, SLICE, RENEWED = "weighed", "estimated", "slice_move", "renewed"
KERNELS: dict[tuple[type, str], str] = {
    (BernoulliProbit, SWEEPS): "propagation.probit_sweeps",
    (BernoulliProbit, NEWTON): "newton.probit_newton",
    (BernoulliProbit, LOG_RATIOS): "probit.log_ratios",
    (BernoulliProbit, WEIGHED): "probit.weighed",
    (BernoulliProbit, ESTIMATED): "probit.estimated",
    (BernoulliProbit, SLICE): "probit.slice_move",
    (BernoulliProbit, RENEWED): "probit.renewed",
    (MultinomialLogit, BLOCK_LOG_RATIOS): "softmax.log_ratios",
    (OrdinalProbit, LOG_RATIOS): "ordinal.log_ratios",
    (OrdinalProbit, WEIGHED): "ordinal.weighed",
    (OrdinalProbit, ESTIMATED): "ordinal.estimated",
    (OrdinalProbit, SLICE): "ordinal.slice_move",
    (OrdinalProbit, RENEWED): "ordinal.renewed",
}


def kernel_with_terms(terms: Any, name: str) -> Callable[..., Any] | None:
    """Return a kernel with the likelihood's data as its first argument; None if there is none.

    A class derived from a likelihood may have other terms, and so has no kernel.

    `terms`: a likelihood, or anything else that factorizes over f.
    """
    full = KERNELS.get((type(terms), name))
    return None if full is None else partial(compiled(full), _data_of(terms))


def _data_of(terms: BernoulliProbit | MultinomialLogit | OrdinalProbit) -> np.ndarray:
    return terms.sign if isinstance(terms, BernoulliProbit) else np.ascontiguousarray(terms.data)
