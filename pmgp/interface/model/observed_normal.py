"""Models whose observations are multivariate normal, without latent values, such as those of `pymc.gp.Marginal`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymc as pm
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.covariance.distances import centered
from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.model.joint_terms import theta_values
from pmgp.interface.model.theta_prior import ThetaPrior
from pmgp.interface.model.theta_vector import ThetaVector


def gaussian_observations(model: pm.Model) -> TensorVariable | None:
    """Return the observed multivariate normal vector of a model without latent vectors, or None."""
    normal = [rv for rv in model.basic_RVs if rv.owner is not None and isinstance(rv.owner.op, MvNormalRV)]
    single = len(normal) == 1 and normal[0] in model.observed_RVs and normal[0].ndim == 1
    return normal[0] if single else None


class ObservedNormal(NamedTuple):
    """A model whose observations y (n,) are multivariate normal, with moments in terms of the value variables."""

    theta: ThetaVector
    theta_prior: ThetaPrior
    mean: TensorVariable
    covariance: TensorVariable
    y: np.ndarray


def observed_normal(model: pm.Model, observed: TensorVariable, compile_kwargs: dict | None = None) -> ObservedNormal:
    """Return the parts of a model with multivariate normal observations."""
    others = [v for v in (*model.basic_RVs, *model.potentials) if v is not observed]
    theta = ThetaVector(theta_values(model, []), model.initial_point(), Compiler(compile_kwargs))
    theta.refuse(theta.discrete)
    mean, covariance = centered(model.replace_rvs_by_values(list(observed.owner.op.dist_params(observed.owner))))
    prior = ThetaPrior(model.logp(vars=others, sum=False), theta)
    return ObservedNormal(theta, prior, mean, covariance, observed_values(model, observed))


def observed_values(model: pm.Model, observed: TensorVariable) -> np.ndarray:
    """Return the observations as an array (n,)."""
    return np.asarray(model.rvs_to_values[observed].eval(), dtype=float)
