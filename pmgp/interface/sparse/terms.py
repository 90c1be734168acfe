"""Expected log-likelihoods as functions of the means of f, by kernels for binary labels, and by their graphs else."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pmgp.core.inducing.expected import ExpectedTerms
from pmgp.interface.distributions.bernoulli import BernoulliLogit, BernoulliProbit
from pmgp.interface.distributions.records import record_of
from pmgp.interface.graphs.numerical import NumericalFunction
from pmgp.interface.model.inducing_process import inducing_process
from pmgp.interface.sparse.inputs import current_value

__all__ = ["Terms", "terms_of"]

SMOOTH = (BernoulliProbit.rv_type, BernoulliLogit.rv_type)


class Terms(Protocol):
    """The sum of all terms, given the means of f and what else they depend on."""

    def refresh_data(self) -> None:
        """Read the observations again."""
        ...

    def values(self, *arguments: np.ndarray) -> list[Any]:
        """The sum."""
        ...

    def derivatives(self, *arguments: np.ndarray) -> list[Any]:
        """The gradient of the sum, and for each output second derivatives by each mean."""
        ...

    def slope(self, *arguments: np.ndarray) -> Any:
        """The gradient alone."""
        ...


def terms_of(model: pm.Model, observed: list[TensorVariable], outputs: int) -> Terms:
    """Those of observed variables of one process, in the fastest way there is.

    Parameters
    ----------
    model : pymc.Model
    observed : list of variables
        Which are given the same means.
    outputs : int
        Number of processes.
    """
    known = BinaryTerms.of(model, observed[0]) if len(observed) == 1 else None
    return known or GraphTerms(model, observed, outputs)


class GraphTerms:
    """Any terms, by their graphs.

    Parameters
    ----------
    model, observed, outputs
        As of `terms_of`.
    """

    def __init__(self, model: pm.Model, observed: list[TensorVariable], outputs: int) -> None:
        parameters = [rv.owner.op.dist_params(rv.owner) for rv in observed]
        mean = parameters[0][0]
        latent = mean.type()
        inputs, densities = [latent], []
        for rv, (_, *others) in zip(observed, parameters, strict=True):
            symbols = [other.type() for other in others]
            given = dict(zip(others, symbols, strict=True)) | {mean: latent}
            density = pm.logp(rv, model.rvs_to_values[rv])
            densities.append(clone_replace(density, given, rebuild_strict=False).sum())
            inputs += symbols
        total = sum(densities[1:], densities[0])
        slope = pt.grad(total, latent)
        if latent.ndim == 1:
            curvatures = [pt.grad(slope.sum(), latent)]
        else:
            curvatures = [pt.grad(slope[k].sum(), latent)[k] for k in range(outputs)]
        self._values = NumericalFunction(inputs, [total])
        self._derivatives = NumericalFunction(inputs, [slope, *curvatures])
        self._slope = NumericalFunction(inputs, [slope])

    def refresh_data(self) -> None:
        """Read the observations again."""
        self._values.refresh_data()
        self._derivatives.refresh_data()
        self._slope.refresh_data()

    def values(self, *arguments: np.ndarray) -> list[Any]:
        """The sum."""
        return self._values(*arguments)

    def derivatives(self, *arguments: np.ndarray) -> list[Any]:
        """The gradient of the sum, and second derivatives."""
        return self._derivatives(*arguments)

    def slope(self, *arguments: np.ndarray) -> Any:
        """The gradient alone."""
        return self._slope(*arguments)[0]


class BinaryTerms:
    """Of the labels of one observed variable, as functions of the means of f and their variances.

    Parameters
    ----------
    value : variable
        The labels, a constant or a `pymc.Data`.
    constructor : callable
        From labels to the likelihood.
    order : int
        The largest number of nodes.
    """

    def __init__(self, value: Any, constructor: Any, order: int) -> None:
        self._value = value
        self._constructor = constructor
        self._order = order
        self.refresh_data()

    @classmethod
    def of(cls, model: pm.Model, rv: Any) -> BinaryTerms | None:
        """Those of an observed variable of a process; None if its likelihood is another one, or not of f itself."""
        process: Any = inducing_process(model)
        mean, _, *others = rv.owner.op.dist_params(rv.owner)
        if process is None or others or mean.ndim != 1:
            return None
        likelihood = process.likelihood(rv.name)
        f = mean.type()
        drawn = likelihood.dist(f)
        op, value = drawn.owner.op, model.rvs_to_values[rv]
        known = isinstance(op, SMOOTH) and op.dist_params(drawn.owner)[0] is f and current_value(value) is not None
        return cls(value, record_of(drawn).constructor, likelihood.order) if known else None

    def refresh_data(self) -> None:
        """Read the labels again."""
        labels = current_value(self._value)
        assert labels is not None
        self._terms = ExpectedTerms(self._constructor, np.array(labels), self._order)

    def values(self, *arguments: np.ndarray) -> list[Any]:
        """The sum."""
        mean, variance = arguments
        return [self._terms.value(mean, variance)]

    def derivatives(self, *arguments: np.ndarray) -> list[Any]:
        """First and second derivatives of each term, by few nodes."""
        mean, variance = arguments
        return list(self._terms.derivatives(mean, variance))

    def slope(self, *arguments: np.ndarray) -> Any:
        """First derivatives, which come with the second ones."""
        return self.derivatives(*arguments)[0]
