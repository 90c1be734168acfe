"""Models whose observations are multivariate normal, without latent values, such as those of `pymc.gp.Marginal`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymc as pm
from pymc.pytensorf import compile as compile_pytensor
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods.checks import marked_rows
from pmgp.interface.covariance.distances import centered
from pmgp.interface.distributions.base import value_of
from pmgp.interface.graphs.compilation import INTERPRETED, Compiler
from pmgp.interface.model.joint_terms import theta_values
from pmgp.interface.model.latent_variable import ModelError, refuse_split
from pmgp.interface.model.theta_prior import ThetaPrior
from pmgp.interface.model.theta_vector import ThetaVector


def gaussian_observations(model: pm.Model) -> TensorVariable | None:
    """Return the observed multivariate normal vector of a model without latent vectors, or None.

    Observations that are partly missing raise a ModelError.
    """
    refuse_split(model)
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
    """Return the observations as an array (n,); refuse missing ones, and another number of them than of inputs."""
    y = finite_observations(str(observed.name), value_of(model.rvs_to_values[observed]))
    n = _rows(model, observed)
    if len(y) != n:
        raise ModelError(f"there are {len(y)} observations {observed.name!r} for {n} rows of X: give one for each row")
    return y


def finite_observations(name: str, values: np.ndarray) -> np.ndarray:
    """Return observations as floats; refuse missing and infinite ones, which `pymc.set_data` accepts."""
    y = np.asarray(values, dtype=float)
    wrong = ~np.isfinite(y)
    if wrong.any():
        raise ModelError(
            f"the observations {name!r} are missing or infinite in {marked_rows(wrong, y)}: leave out these rows of X "
            "and of the observations"
        )
    return y


def _rows(model: pm.Model, observed: TensorVariable) -> int:
    """Return the number of rows of the covariance, which is not computed for that."""
    covariance = observed.owner.op.dist_params(observed.owner)[1]
    if covariance.type.shape[0] is not None:
        return int(covariance.type.shape[0])
    rows = model.replace_rvs_by_values([covariance.shape[0]])
    function = compile_pytensor(model.value_vars, rows, mode=INTERPRETED, on_unused_input="ignore")
    return int(function(**model.initial_point())[0])
