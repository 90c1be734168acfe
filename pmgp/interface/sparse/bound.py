"""The bound of the evidence of a `Sparse` model under a Gaussian q(v), as a function with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.pytensorf import join_nonshared_inputs

from pmgp.core.inducing import ExpectedLogDensity, Variational, fitted
from pmgp.interface.graphs.numerical import NumericalFunction
from pmgp.interface.sparse.inputs import current_value
from pmgp.interface.sparse.parts import log_prior_of, sparse_parts
from pmgp.interface.sparse.process import Sparse


class BoundFunction:
    """The function E_q log p(y|f) + log p(theta) of a model, without the Jacobian, and its gradient."""

    def __init__(self, process: Sparse, model: pm.Model, point: dict[str, np.ndarray]) -> None:
        v = process.whitened
        self._point = point
        self._inducing = np.array(current_value(process.inducing_inputs), dtype=float)
        arguments = _arguments(point[model.rvs_to_values[v].name].shape, self._inducing.shape)
        expected = process.expected_log_likelihood(*arguments, model=model)
        self.parts = sparse_parts(model, point)
        graphs = [*model.replace_rvs_by_values([expected]), log_prior_of(model, v, jacobian=False)]
        names = self.parts.theta_names
        vector = pt.vector("theta")
        if names:
            variables = [variable for variable in model.value_vars if variable.name in names]
            graphs, vector = join_nonshared_inputs({name: point[name] for name in names}, graphs, variables)
        total, log_prior = graphs[0] + graphs[1], graphs[1]
        slopes = pt.grad(total, [vector, *arguments], disconnected_inputs="ignore")
        self._function = NumericalFunction([vector, *arguments], [total, *slopes])
        self._log_prior = NumericalFunction([vector], [log_prior])

    def __call__(self, at: Variational) -> ExpectedLogDensity:
        """Return the value and the gradient."""
        shape = self._point[self.parts.latent_name].shape
        value, *slopes = self._function(at.theta, at.inducing, at.mean.reshape(shape), at.factor)
        parts = (np.reshape(slope, part.shape) for slope, part in zip(slopes, at, strict=True))
        return ExpectedLogDensity(float(value), Variational(*parts))

    def log_prior(self, theta: np.ndarray) -> float:
        """Return log p(theta) without the Jacobian."""
        return float(self._log_prior(theta)[0])

    def start(self) -> Variational:
        """Return the present inducing inputs and hyper-parameters with the Gaussian at the mode of v.

        A density that is not finite there is refused.
        """
        found = self.possible_start(self.parts.theta_of(self._point))
        if found is None:
            named = {name: self._point[name] for name in self.parts.theta_names}
            raise ValueError(f"the log-density is not finite at {named}: give other values as start")
        return found

    def possible_start(self, theta: np.ndarray) -> Variational | None:
        """Return a start at these hyper-parameters, or None if the density is not finite there."""
        log_prior, conditional = self.parts.at(theta)
        fit = fitted(conditional, np.zeros(self.parts.shape)) if np.isfinite(log_prior) else None
        if fit is None:
            return None
        columns = [fit.deviation(np.broadcast_to(row, self.parts.shape)) for row in np.eye(len(self._inducing))]
        return Variational(theta, self._inducing, fit.mode, np.stack(columns, axis=-1))

    @property
    def places(self) -> list[np.ndarray]:
        """The places of each variable's elements in theta."""
        sizes = [self._point[name].size for name in self.parts.theta_names]
        return np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]) if sizes else []

    def values_at(self, at: Variational) -> dict[str, np.ndarray]:
        """Return the values of all value variables."""
        named = zip(self.parts.theta_names, self.places, strict=True)
        values = {name: at.theta[places].reshape(self._point[name].shape) for name, places in named}
        return self._point | values


def _arguments(shape: tuple[int, ...], inducing: tuple[int, ...]) -> list[Any]:
    """Return symbols for Z and for the mean and the factors of q, given the shapes of v and Z."""
    outputs = 1 if len(shape) == 1 else shape[0]
    symbols = {"Z": inducing, "mean": shape, "factor": (outputs, shape[-1], shape[-1])}
    return [pt.tensor(name, dtype="float64", shape=lengths) for name, lengths in symbols.items()]
