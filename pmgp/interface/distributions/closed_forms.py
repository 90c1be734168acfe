"""The likelihoods of the numerical core that stand behind distributions, as their records say.

Where an observed variable has the latent vector itself for its first parameter, the core's closed forms replace the
derivatives of its graph. The other parameters may be constants, data, or functions of theta.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods import Likelihood
from pmgp.core.likelihoods.impossible import Impossible
from pmgp.interface.distributions.records import record_of
from pmgp.interface.graphs.theta_function import ThetaFunction

__all__ = ["ClosedForm", "find_closed_form"]


class ClosedForm:
    """The core likelihood of an observed variable, as a function of theta.

    Parameters
    ----------
    constructor : callable
        Takes the observations and the parameters.
    observed : variable
    parameters : list of variables
        What the likelihood has beside f, in terms of theta's value variables.
    parameters_at : ThetaFunction, optional
        The parameters as a function of theta, if any depends on it.
    """

    def __init__(
        self,
        constructor: Callable[..., Likelihood],
        observed: TensorVariable,
        parameters: list[TensorVariable],
        parameters_at: ThetaFunction | None,
    ) -> None:
        self.constructor = constructor
        self.observed = observed
        self.parameters = parameters
        self.parameters_at = parameters_at

    def refresh(self, theta: np.ndarray) -> None:
        """Read the data again, and check them and the parameters at a theta that must be possible.

        Raises
        ------
        ValueError
            If the observations or the parameters are outside their domain; the message names them.
        """
        self._observations = _value_of(self.observed)
        if self.parameters_at is not None:
            self.parameters_at.refresh_data()
            self.constructor(self._observations, *self.parameters_at(theta))
        else:
            self._fixed = self.constructor(self._observations, *map(_value_of, self.parameters))

    def __call__(self, theta: np.ndarray) -> Likelihood:
        """p(y|f, theta); zero for every f where the parameters are outside their domain."""
        if self.parameters_at is None:
            return self._fixed
        try:
            return self.constructor(self._observations, *self.parameters_at(theta))
        except ValueError as error:
            return Impossible(str(error))


def find_closed_form(
    model: pm.Model,
    latent: TensorVariable,
    variables: list[TensorVariable],
    function_of_theta: Callable[[list[TensorVariable]], ThetaFunction],
) -> ClosedForm | None:
    """The closed form of p(y|f, theta), if the core has it.

    Parameters
    ----------
    model : pymc.Model
    latent : variable
        f.
    variables : list of variables
        Those that depend on f.
    function_of_theta : callable
        Makes graphs of the value variables a function of theta.
    """
    if len(variables) != 1 or variables[0] not in model.observed_RVs:
        return None
    node = variables[0].owner
    constructor = record_of(variables[0]).constructor
    if constructor is None:
        return None
    first, *others = node.op.dist_params(node)
    parameters = model.replace_rvs_by_values(others)
    needed = set(ancestors(parameters))
    # Several observations of one latent value are left to the graph too.
    if first is not latent or variables[0].ndim != 1 or model.rvs_to_values[latent] in needed:
        return None
    depends = any(model.rvs_to_values[rv] in needed for rv in model.free_RVs)
    observed = model.rvs_to_values[variables[0]]
    return ClosedForm(constructor, observed, parameters, function_of_theta(parameters) if depends else None)


def _value_of(variable: TensorVariable) -> np.ndarray:
    """Current value of a constant, a `pymc.Data`, or a function of some."""
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    if isinstance(variable, SharedVariable):
        return np.asarray(variable.get_value())
    # Small and evaluated once: not worth compiling.
    return np.asarray(variable.eval(mode="FAST_COMPILE"))
