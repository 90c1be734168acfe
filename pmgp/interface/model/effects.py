"""Normal variables that can be integrated out: effects of groups, and coefficients with a normal prior.

By default these are the variables with several elements whose standard deviation, or a factor before them, depends on a
hyper-parameter. No free variable may depend on them. All other normal variables are hyper-parameters, unless the user
names them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.multivariate import LKJCorrRV, _LKJCholeskyCovRV
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV, NormalRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.images import image_of
from pmgp.interface.model.linear_nodes import predictors
from pmgp.interface.model.points import initial_values

# Endings of the names of variables of which PyMC makes processes.
WHITENED = "_rotated_"
PROCESSES = (WHITENED, "_hsgp_coeffs")


def is_normal(rv: TensorVariable) -> bool:
    """Return whether the elements of a variable are independent and normal."""
    return rv.owner is not None and type(rv.owner.op) is NormalRV


def is_correlated(rv: TensorVariable) -> bool:
    """Return whether a variable has a row for each group, and all rows share a covariance of hyper-parameters.

    That is one with an LKJ distribution, or a covariance without inputs of variables that have more rows than columns:
    several processes at the same points have a covariance of inputs.
    """
    if rv.owner is None or not isinstance(rv.owner.op, MvNormalRV) or rv.ndim != 2:
        return False
    covariance = rv.owner.op.dist_params(rv.owner)[1]
    if not set(covariance.type.shape[:-2]) <= {1}:
        return False
    made_of = {type(one.owner.op) for one in ancestors([covariance]) if one.owner is not None}
    return bool(made_of & {_LKJCholeskyCovRV, LKJCorrRV}) or _has_rows(rv, covariance)


def _has_rows(rv: TensorVariable, covariance: TensorVariable) -> bool:
    (rows, _), columns = rv.type.shape, covariance.type.shape[-1]
    if columns is None or (rows is not None and rows <= columns):
        return False
    random = any(isinstance(one.owner.op, RandomVariable) for one in ancestors([covariance]) if one.owner is not None)
    return random and not has_inputs(rv, columns)


def has_inputs(rv: TensorVariable, size: int) -> bool:
    """Return whether a normal variable's covariance is computed from inputs with a row for each of its elements."""
    covariance = rv.owner.op.dist_params(rv.owner)[1]
    if covariance.owner is None:
        return False
    shapes = [np.shape(_value(v)) for v in ancestors([covariance]) if isinstance(v, Constant | SharedVariable)]
    return any(len(shape) == 2 and shape[0] == size != shape[1] for shape in shapes)


def _value(variable: Any) -> Any:
    return variable.data if isinstance(variable, Constant) else variable.get_value(borrow=True)


def is_standard(model: pm.Model, rv: TensorVariable) -> bool:
    """Return whether a variable is made of independent normal elements whose distribution is known."""
    return is_normal(rv) and not set(model.free_RVs) & (set(ancestors([rv])) - {rv})


def effects(model: pm.Model) -> list[TensorVariable]:
    """Return the normal variables that are integrated out if the user names none."""
    return [rv for rv in model.free_RVs if is_normal(rv) and _is_grouped(model, rv) and _is_last(model, rv)]


def why_not_effect(model: pm.Model, rv: TensorVariable) -> str | None:
    """Return why a normal variable cannot be integrated out, with advice, or None if it can."""
    if model.rvs_to_transforms[rv] is not None:
        return "it has a transform: leave that out"
    return None


def _is_grouped(model: pm.Model, rv: TensorVariable) -> bool:
    if model.rvs_to_transforms[rv] is not None or int(np.prod(model.eval_rv_shapes()[rv.name])) < 2:
        return False
    deviation = rv.owner.op.dist_params(rv.owner)[1]
    return bool(set(model.free_RVs) & set(ancestors([deviation]))) or _is_scaled(model, rv) or _is_mapped(model, rv)


def _is_scaled(model: pm.Model, rv: TensorVariable) -> bool:
    """Return whether a variable has a hyper-parameter as a factor in all predictors that contain it."""
    found = predictors(_seen(model, rv), [rv], [other for other in model.free_RVs if other is not rv])
    return bool(found) and all(one.factors[rv] for one in found.values())


def _seen(model: pm.Model, rv: TensorVariable) -> list[TensorVariable]:
    """Return the parameters of observed variables that depend on a variable."""
    return [one for observed in model.observed_RVs for one in observed.owner.inputs if rv in set(ancestors([one]))]


def _is_mapped(model: pm.Model, rv: TensorVariable) -> bool:
    """Return whether hyper-parameters map a variable, and no variable in the map could be an effect itself."""
    value = model.rvs_to_values[rv]
    if not is_standard(model, rv) or any(part in value.name for part in PROCESSES):
        return False
    terms = model.replace_rvs_by_values(_seen(model, rv))
    # Those of missing observations have the mask of the former rows, so that new rows may have no initial values.
    used = set(ancestors(terms)) | {value}
    needed = [one for one in model.free_RVs if model.rvs_to_values[one] in used]
    others = [model.rvs_to_values[one] for one in needed if one is not rv]
    found = image_of(terms, value, others, initial_values(model, needed))
    if found is None:
        return False
    read = set(ancestors([found[0]]))
    return not any(
        is_normal(one) and one.ndim and model.rvs_to_values[one] in read for one in model.free_RVs if one is not rv
    )


def _is_last(model: pm.Model, rv: TensorVariable) -> bool:
    """Return whether observed variables or potentials depend on it, but no free ones except missing observations."""
    children = [other for other in model.free_RVs if other is not rv and rv in set(ancestors([other]))]
    return rv in set(ancestors([*model.observed_RVs, *model.potentials])) and all(
        child.name.endswith("_unobserved") for child in children
    )
