"""Draws by importance sampling in place of a chain."""

from __future__ import annotations

import logging
import warnings
from functools import partial
from math import ceil
from typing import Any

import pymc as pm
import xarray as xr

from pmgp.interface.executors import Executors
from pmgp.interface.importance.sampling import importance
from pmgp.interface.sampling.drawing import REPORT

_log = logging.getLogger("pymc.pmgp")

WEIGHED = 1.5
"""Draws that are weighed for each one that is needed: near a normal posterior .6 to .8 of them are effective."""
MARGIN = 1.1
"""Factor for a second attempt, since the share of effective draws varies."""


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

    If the first draws can be trusted but are worth fewer than `needed`, a larger number is made once. The result is
    None if the weights cannot be trusted, or are worth too few draws; a message gives the diagnosis.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            draw = partial(
                importance,
                model,
                random_seed=random_seed,
                executor=executor,
                compile_kwargs=compile_kwargs,
                progressbar=progressbar,
            )
            draws = ceil(WEIGHED * needed)
            found = draw(draws=draws)
            effective = found.attrs["effective_size"]
            if found.attrs["trusted"] and effective < needed:
                found = draw(draws=ceil(MARGIN * draws * needed / effective))
    except ValueError as error:
        words, trusted = str(error), False
    else:
        words, trusted = found.attrs["words"], bool(found.attrs["trusted"])
    if not quiet:
        _log.info(f"Importance sampling from the maximum: {words}" + ("" if trusted else ". A chain is run instead"))
    if not trusted:
        return None
    found.attrs[REPORT] = words
    return found
