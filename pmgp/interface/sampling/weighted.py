"""Draws by importance sampling in place of a chain."""

from __future__ import annotations

import logging
import warnings
from math import ceil
from typing import Any

import pymc as pm
import xarray as xr

from pmgp.interface.executors import Executors
from pmgp.interface.importance.sampling import begun, target_of, tree_of
from pmgp.interface.importance.trust import FEWEST, trust_in
from pmgp.interface.sampling.drawing import REPORT

_log = logging.getLogger("pymc.pmgp")

WEIGHED = 1.5
"""Weighted draws for each draw that is needed: near a normal posterior .6 to .8 of them are effective."""
MARGIN = 1.1
"""Factor for the draws that are added, since the share of effective ones varies."""


def weighted(
    model: pm.Model,
    needed: float,
    random_seed: Any,
    executor: Executors | None,
    compile_kwargs: dict[str, Any] | None,
    *,
    progressbar: bool,
    quiet: bool,
) -> xr.DataTree | None:
    """Draw by importance sampling from the maximum of the posterior.

    If the draws can be trusted but are worth fewer than `needed`, more are added once, from a proposal fitted to them.
    Their number depends on the weights, so the evidence is then not exactly unbiased.
    The result is None if the weights cannot be trusted, or are worth too few draws; a message gives the diagnosis.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            target = target_of(model, "auto", "ep", None, compile_kwargs)
            weighing = begun(model, target, None, executor, random_seed, compile_kwargs, progressbar)
            draws = max(ceil(WEIGHED * needed), FEWEST)
            trust, dimension = weighing.drawn(draws), weighing.theta.shape[1]
            if trust.suffices(dimension) and trust.effective_size < needed:
                weighing.refit()
                weighing.add(ceil((MARGIN * needed / trust.effective_size - 1.0) * trust.size))
                trust = trust_in(weighing.log_weights)
    except ValueError as error:
        words, trusted = str(error), False
    else:
        words, trusted = trust.words, trust.suffices(dimension)
    if not quiet:
        _log.info(f"Importance sampling from the maximum: {words}" + ("" if trusted else ". A chain is run instead"))
    if not trusted:
        return None
    found = tree_of(model, weighing, trust)
    found.attrs[REPORT] = words
    return found
