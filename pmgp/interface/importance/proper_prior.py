"""Check that the prior of theta integrates to one, also on the unconstrained scale; otherwise there is no evidence."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.transforms import CircularTransform, Interval, _default_transform
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.importance.theta_draws import transformed
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.missing import hyperparameters

PRIOR_DRAWS = 4000


def refuse_improper(model: pm.Model, latents: list[TensorVariable]) -> None:
    """Refuse improper priors, and warn about priors whose normalizing constant differs from PyMC's."""
    refuse_circular(model)
    theta = hyperparameters(model, latents)
    flat = improper(theta)
    if flat:
        raise ModelError(
            f"the prior of {', '.join(flat)} is improper, and a model with an improper prior has no evidence: give "
            "it a proper prior"
        )
    warn_of_constants(model, latents, stacklevel=4)


def warn_of_constants(model: pm.Model, latents: list[TensorVariable], stacklevel: int) -> None:
    """Warn about priors of theta whose normalizing constant differs from PyMC's.

    That is the case if a potential changes the prior, or a transformation confines theta to a part of its support.
    """
    potentials = [p.name for p in model.potentials if not set(latents) & set(ancestors([p]))]
    if potentials:
        warnings.warn(
            f"the potential {', '.join(potentials)} changes the prior of the hyper-parameters, which may no longer "
            "integrate to one: the evidence is that of the unnormalized prior",
            stacklevel=stacklevel,
        )
    _warn_of_confined(model, hyperparameters(model, latents), stacklevel + 1)


def refuse_circular(model: pm.Model) -> None:
    """Refuse angles whose transformation winds the whole line around the circle, on which no density has an integral.

    A chain is not disturbed by this, as it never sees more than ratios of densities.
    """
    angles = [str(rv.name) for rv in model.free_RVs if isinstance(model.rvs_to_transforms.get(rv), CircularTransform)]
    if angles:
        raise ModelError(
            f"PyMC's circular transformation of {', '.join(angles)} repeats the density on the unconstrained scale "
            "without end, so it cannot be integrated there: give the angle one period with "
            "default_transform=pymc.distributions.transforms.Interval(-numpy.pi, numpy.pi)"
        )


def improper(variables: list[TensorVariable]) -> list[str]:
    """Return the names of the variables whose prior does not integrate to one."""
    return [str(rv.name) for rv in variables if isinstance(rv.owner.op, FlatRV | HalfFlatRV)]


def _warn_of_confined(model: pm.Model, theta: list[TensorVariable], stacklevel: int) -> None:
    chosen = [rv for rv in theta if _transformed_otherwise(model, rv)]
    if not chosen:
        return
    drawn = pm.draw(transformed(model, chosen), draws=PRIOR_DRAWS, random_seed=0)
    inside = np.all([np.isfinite(v.reshape(PRIOR_DRAWS, -1)).all(axis=1) for v in drawn], axis=0).mean()
    if inside < 1.0:
        names = ", ".join(rv.name for rv in chosen)
        warnings.warn(
            f"the transformation of {names} confines it to a part of its prior's support that has probability "
            f"{inside:.3g}, and PyMC does not divide by it: before a comparison with a model without this variable, "
            f"add {-np.log(inside):.2f} to log_evidence (for k exchangeable elements in order, log k!)",
            stacklevel=stacklevel,
        )


def _transformed_otherwise(model: pm.Model, rv: TensorVariable) -> bool:
    """Return whether a variable's transformation differs from the default of its distribution."""
    given = model.rvs_to_transforms[rv]
    # Two intervals may have different bounds.
    otherwise = isinstance(given, Interval) or type(given) is not type(_default_transform(rv.owner.op, rv))
    return given is not None and otherwise
