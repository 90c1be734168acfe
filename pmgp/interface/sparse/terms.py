"""Expected log-likelihoods as functions of the means of f: kernels for labels and classes, graphs for the others."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pmgp.core.inducing.expected import ExpectedTerms
from pmgp.core.likelihoods.checks import check_classes
from pmgp.core.numerics.compiled.loading import compiled
from pmgp.core.numerics.quadrature import normal_rule
from pmgp.interface.distributions.base import known_value
from pmgp.interface.distributions.bernoulli import BernoulliLogit, BernoulliProbit
from pmgp.interface.distributions.records import record_of
from pmgp.interface.distributions.robust_max import RobustMaxRV
from pmgp.interface.graphs.numerical import NumericalFunction
from pmgp.interface.model.inducing_process import inducing_process
from pmgp.interface.sparse.inputs import current_value

SMOOTH = (BernoulliProbit.rv_type, BernoulliLogit.rv_type)


class Terms(Protocol):
    """The sum of all terms as a function of the means of f and of the terms' other parameters."""

    def refresh_data(self) -> None:
        """Read the observations again."""

    def values(self, *arguments: np.ndarray) -> list[Any]:
        """Return the sum, in a list."""

    def derivatives(self, *arguments: np.ndarray) -> list[Any]:
        """Return the gradient of the sum, and for each output the second derivative in each mean."""

    def slope(self, *arguments: np.ndarray) -> Any:
        """Return only the gradient."""


def terms_of(model: pm.Model, observed: list[TensorVariable], outputs: int) -> Terms:
    """Return the fastest implementation of the terms of one process's observed variables."""
    if len(observed) == 1:
        known = BinaryTerms.of(model, observed[0]) or RobustMaxTerms.of(model, observed[0], outputs)
        if known is not None:
            return known
    return GraphTerms(model, observed, outputs)


class _Graphs(NamedTuple):
    """The sum of all terms and its derivatives as graphs of the means of f and of the terms' other parameters."""

    inputs: list[TensorVariable]
    total: TensorVariable
    slope: TensorVariable
    curvatures: list[TensorVariable]

    @classmethod
    def of(cls, model: pm.Model, observed: list[TensorVariable], outputs: int) -> _Graphs:
        """Differentiate the terms of one process's observed variables."""
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
            return cls(inputs, total, slope, [pt.grad(slope.sum(), latent)])
        return cls(inputs, total, slope, [pt.grad(slope[k].sum(), latent)[k] for k in range(outputs)])

    def derivatives(self) -> NumericalFunction:
        """Return the gradient of the sum and the second derivatives as a function."""
        return NumericalFunction(self.inputs, [self.slope, *self.curvatures])


class GraphTerms:
    """Terms of any observed variables, computed with their graphs."""

    def __init__(self, model: pm.Model, observed: list[TensorVariable], outputs: int) -> None:
        graphs = _Graphs.of(model, observed, outputs)
        self.values = NumericalFunction(graphs.inputs, [graphs.total])
        self.derivatives = graphs.derivatives()
        self._slope = NumericalFunction(graphs.inputs, [graphs.slope])

    def refresh_data(self) -> None:
        """Read the observations again."""
        for function in (self.values, self.derivatives, self._slope):
            function.refresh_data()

    def slope(self, *arguments: np.ndarray) -> Any:
        """Return only the gradient."""
        return self._slope(*arguments)[0]


class BinaryTerms:
    """Terms for the labels of one observed variable, as functions of the means of f and their variances.

    The labels are a constant or a `pymc.Data`. `order` is the largest number of nodes.
    """

    def __init__(self, value: Any, constructor: Any, order: int) -> None:
        self._value = value
        self._constructor = constructor
        self._order = order
        self.refresh_data()

    @classmethod
    def of(cls, model: pm.Model, rv: Any) -> BinaryTerms | None:
        """Return the terms of an observed variable, or None for another likelihood or a function of f."""
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
        """Return the sum, in a list."""
        mean, variance = arguments
        return [self._terms.value(mean, variance)]

    def derivatives(self, *arguments: np.ndarray) -> list[Any]:
        """Return the first and second derivatives of each term, computed with few nodes."""
        mean, variance = arguments
        return list(self._terms.derivatives(mean, variance))

    def slope(self, *arguments: np.ndarray) -> Any:
        """Return the first derivatives, which are computed together with the second ones."""
        return self.derivatives(*arguments)[0]


class _Deviations(NamedTuple):
    """Standard deviations of latent values, and of their differences from the labeled ones."""

    variance: np.ndarray
    deviation: np.ndarray
    spread: np.ndarray


class RobustMaxTerms:
    """Terms for the classes of one observed variable, as functions of the means of f and their variances.

    For processes that share a covariance function: the kernels' quadrature needs variances that are alike.
    The derivatives are computed with the terms' graphs, because no kernel has the second ones.
    """

    def __init__(self, value: Any, epsilon: float, order: int, derivatives: NumericalFunction, outputs: int) -> None:
        self._observed = NumericalFunction([], [value])
        self._derivatives = derivatives
        self._rule = normal_rule(order)
        self._miss = float(np.log(epsilon / (outputs - 1)))
        self.gain = float(np.log1p(-epsilon)) - self._miss
        self._outputs = outputs
        self.refresh_data()

    @classmethod
    def of(cls, model: pm.Model, rv: Any, outputs: int) -> RobustMaxTerms | None:
        """Return the terms of an observed variable, or None for another likelihood, function of f or covariances."""
        process: Any = inducing_process(model)
        mean, _, *others = rv.owner.op.dist_params(rv.owner)
        value = model.rvs_to_values[rv]
        if process is None or others or mean.ndim != 2:
            return None
        likelihood = process.likelihood(rv.name)
        f = mean.type()
        drawn = likelihood.dist(f).owner
        if not isinstance(drawn.op, RobustMaxRV) or not likelihood.alike:
            return None
        by_class, epsilon = drawn.op.dist_params(drawn)
        known = known_value(epsilon)
        if by_class.owner is None or by_class.owner.inputs[0] is not f or known is None or np.ndim(known):
            return None
        derivatives = _Graphs.of(model, [rv], outputs).derivatives()
        return cls(value, float(known), likelihood.order, derivatives, outputs)

    def refresh_data(self) -> None:
        """Read the labels again."""
        self._observed.refresh_data()
        self._labels = check_classes(self._observed()[0], self._outputs).astype(np.int64)
        self._known: _Deviations | None = None
        self._derivatives.refresh_data()

    def values(self, *arguments: np.ndarray) -> list[Any]:
        """Return the sum, in a list."""
        mean, variance = arguments
        right = compiled("robust_max.right")(*self.arguments(mean, variance))
        return [self.gain * right + self._miss * len(self._labels)]

    def derivatives(self, *arguments: np.ndarray) -> list[Any]:
        """Return the gradient of the sum, and the second derivatives, computed with their graph."""
        return self._derivatives(*arguments)

    def slope(self, *arguments: np.ndarray) -> Any:
        """Return only the gradient."""
        mean, variance = arguments
        out = np.empty(mean.shape)
        compiled("robust_max.slopes")(*self.arguments(mean, variance), out)
        return self.gain * out

    def arguments(self, mean: np.ndarray, variance: np.ndarray) -> tuple[Any, ...]:
        """Return the kernels' arguments: labels, means, deviations, deviations of differences, nodes and weights."""
        _, deviation, spread = self._at(variance)
        return self._labels, np.ascontiguousarray(mean), deviation, spread, *self._rule

    def _at(self, variance: np.ndarray) -> _Deviations:
        """Return the deviations for these variances; reuse the last ones while the array stays the same."""
        if self._known is None or self._known.variance is not variance:
            if variance.shape != (self._outputs, len(self._labels)):
                raise ValueError(
                    f"there are {len(self._labels)} labels, and latent values of shape {variance.shape}: change the "
                    "inputs and the labels together"
                )
            own = variance[self._labels, np.arange(len(self._labels))]
            spread = np.sqrt(variance + own)
            self._known = _Deviations(variance, np.ascontiguousarray(np.sqrt(variance)), np.ascontiguousarray(spread))
        return self._known
