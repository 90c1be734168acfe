"""A search for parts of a linear predictor that the data cannot distinguish, and whose priors are too wide to do so.

A number can be added to one part and subtracted from another if both can shift all predictors alike. The precision of
the shift of a piece with precision Q is 1'Q1; that of a level is the precision of its prior.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.continuous import FlatRV
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import NormalRV
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.theta_vector import ThetaVector

# Standard deviation of a shift, on the scale of the predictor, above which a prior hardly restricts it.
WIDE = 5.0


def unidentified(model: pm.Model, parts: Any) -> str | None:
    """Return which parts of a model's linear predictors the data cannot distinguish, with advice, or None.

    Levels with flat priors that can be shifted against each other make the posterior improper, which raises a
    ModelError.
    """
    latent = parts.latent_vector
    if not isinstance(latent, LatentPieces) or latent.dense:
        return None
    found = []
    for places in latent.alike:
        levels = _levels(model, latent, parts.theta, places)
        flat = [name for name, deviation in levels.items() if np.isinf(deviation)]
        if len(flat) > 1:
            raise ModelError(
                f"the posterior is improper: the levels {', '.join(map(repr, flat))} have flat priors, and the data "
                "determine only their sum. Leave all but one of them out, or give them normal priors"
            )
        shifts = levels | _of_pieces(parts, places)
        wide = {name: deviation for name, deviation in shifts.items() if deviation > WIDE}
        found += [_shifted(wide)] if len(wide) > 1 else []
    found += [
        f"{first!r} and {second!r} are independent effects over the same index, and the data determine only their sum: "
        "leave one of them out"
        for first, second in parts.latent_prior.same_index()
    ]
    return "; ".join(found) or None


def _shifted(wide: dict[str, float]) -> str:
    words = ", ".join(f"{name!r} ({deviation:.3g})" for name, deviation in wide.items())
    return (
        f"the data determine only the sum of {words}, and their priors hardly restrict how it is divided: a number can "
        "be added to one and subtracted from another, and the prior standard deviation of such a shift, in brackets, "
        "is large on the scale of the predictor. Give a random walk a narrow first value, "
        "init_dist=pm.Normal.dist(0, 0.5), or leave out a level beside it"
    )


def _of_pieces(parts: Any, places: Any) -> dict[str, float]:
    """Return standard deviations of shifts of pieces, for those that do not depend on theta; data inform the others."""
    first, other = (parts.latent_prior.shifts(parts.initial_theta + shift, places) for shift in (0.0, 0.5))
    return {name: deviation for name, deviation in first.items() if np.isclose(deviation, other[name], rtol=1e-3)}


def _levels(model: pm.Model, latent: LatentPieces, theta: ThetaVector, places: Any) -> dict[str, float]:
    """Return scalar hyper-parameters that shift some predictors alike, with the prior deviation of such a shift."""
    start, found = theta.initial, {}
    at_first = latent.predictor.offsets(start)
    for rv in model.free_RVs:
        deviation = _prior_deviation(model, rv)
        if deviation is None or model.rvs_to_values[rv] not in theta.values:
            continue
        [place] = theta.places([model.rvs_to_values[rv]])
        shift = (latent.predictor.offsets(start + np.eye(1, len(start), place)[0]) - at_first)[places]
        if shift[0] != 0.0 and np.allclose(shift, shift[0], rtol=1e-6):
            found[str(rv.name)] = abs(float(shift[0])) * deviation
    return found


def _prior_deviation(model: pm.Model, rv: TensorVariable) -> float | None:
    """Return the standard deviation of a scalar with a flat or a constant normal prior, or None for other variables."""
    if rv.owner is None or rv.ndim or model.rvs_to_transforms[rv] is not None:
        return None
    if isinstance(rv.owner.op, FlatRV):
        return np.inf
    if not isinstance(rv.owner.op, NormalRV) or set(model.free_RVs) & (set(ancestors([rv])) - {rv}):
        return None
    return float(rv.owner.op.dist_params(rv.owner)[1].eval())
