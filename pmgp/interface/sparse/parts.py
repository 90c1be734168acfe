"""A `Sparse` model split into a function of theta, and the density of v given theta.

The log-density is log p(theta) + log N(v; 0, I) + sum_n l_n(f_n), f = m + A'v. Here theta determines m, A and the other
parameters of l, and l and its derivatives are functions of f and these parameters.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import join_nonshared_inputs
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pmgp.core.inducing import Derivatives, Sites, WhitenedConditional
from pmgp.interface.graphs.compilation import AS_WRITTEN, making_graphs
from pmgp.interface.graphs.numerical import NumericalFunction
from pmgp.interface.model.effects import WHITENED
from pmgp.interface.model.inducing_process import drawn_afterwards, sampled_variables
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.sparse.process import OBSERVATIONS
from pmgp.interface.sparse.terms import Terms, terms_of

ELSEWHERE = "pmgp.steps.SparseHMC takes any model whose variables are continuous"


class _Term(NamedTuple):
    """An observed variable with the parameters of its log-density."""

    rv: TensorVariable
    mean: TensorVariable
    others: list[TensorVariable]


class SparseParts:
    """Functions of a model with one process on inducing inputs.

    v has the name `latent_name` and the `shape` (k, m), whatever its shape in the model, which has no other such
    process. `theta_names` are the other value variables that are sampled, in their order in theta.
    """

    @making_graphs()
    def __init__(self, model: pm.Model, point: dict[str, np.ndarray]) -> None:
        v = _whitened(model)
        terms = [_term(rv) for rv in model.observed_RVs if v in set(ancestors([rv]))]
        value = model.rvs_to_values[v]
        self.latent_name = value.name
        self.theta_names = tuple(model.rvs_to_values[rv].name for rv in sampled_variables(model) if rv is not v)
        self.shape = (1, *point[value.name].shape)[-2:]
        mean = _the_mean(terms)
        known = [mean, *_projections(mean, v), *[other for term in terms for other in term.others]]
        # Values come first, since the clone of a random variable would be a different variable.
        whole, *known = model.replace_rvs_by_values(known)
        offset = clone_replace(whole, {value: _nothing(value, self.shape, whole)}, rebuild_strict=False)
        if value in set(ancestors(known)):
            raise ModelError(f"the likelihood depends on {v.name!r} other than through the process: {ELSEWHERE}")
        self._others = [len(term.others) for term in terms]
        self._number = len(known) - sum(self._others)
        self._theta_function = self._of_theta([log_prior_of(model, v), offset, *known], model, point)
        self._terms = terms_of(model, [term.rv for term in terms], self.shape[0])
        self._check(model, whole, point)

    def _of_theta(self, outputs: list[Any], model: pm.Model, point: dict[str, np.ndarray]) -> NumericalFunction:
        values = [variable for variable in model.value_vars if variable.name in self.theta_names]
        if not values:
            return NumericalFunction([pt.vector("theta")], outputs)
        graphs, vector = join_nonshared_inputs({name: point[name] for name in self.theta_names}, outputs, values)
        return NumericalFunction([vector], graphs)

    def _check(self, model: pm.Model, whole: TensorVariable, point: dict[str, np.ndarray]) -> None:
        """Compare the latent values with those of the model's own graph, at some v."""
        v = np.random.default_rng(0).standard_normal(self.shape)
        function = model.compile_fn(whole, inputs=model.value_vars, mode=AS_WRITTEN, on_unused_input="ignore")
        expected = function(point | {self.latent_name: v.reshape(point[self.latent_name].shape)})
        _, conditional = self.at(self.theta_of(point))
        if not np.allclose(conditional.latent(v), expected, rtol=1e-6, atol=1e-8):
            raise ModelError(f"the graph of the mean is not visibly linear in the whitened values: {ELSEWHERE}")

    def theta_of(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return all variables except v as one vector."""
        return np.concatenate([np.zeros(0), *[np.ravel(point[name]) for name in self.theta_names]])

    def refresh_data(self) -> None:
        """Read the data again, since `pymc.set_data` may have changed them."""
        for function in (self._theta_function, self._terms):
            function.refresh_data()

    def at(self, theta: np.ndarray, slopes_alone: bool = False) -> tuple[float, WhitenedConditional]:
        """Return the log-prior with the Jacobian, and the density of v given theta.

        With `slopes_alone`, slopes can be computed without curvatures; their last digits may then differ.
        """
        log_prior, offset, projections, others = self._values_at(theta)
        return log_prior, self._conditional(offset, projections, others, slopes_alone)

    def _values_at(self, theta: np.ndarray) -> tuple[float, np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """Return the log-prior, the offset, the projections, and the terms' other parameters."""
        log_prior, offset, *rest = self._theta_function(theta)
        return float(log_prior), offset, rest[: self._number], rest[self._number :]

    def explained_shares(self, theta: np.ndarray) -> np.ndarray:
        """Return the share of the prior variance at each observation that the inducing inputs explain, (k, n)."""
        _, _, projections, others = self._values_at(theta)
        explained = np.array([np.square(A).sum(axis=0) for A in projections])
        # The first parameter of the first term is the variance that they leave.
        return explained / (explained + others[0])

    def sites(self, theta: np.ndarray, mean: np.ndarray, factors: np.ndarray) -> Sites:
        """Return the sites with the derivatives of the terms, averaged over a Gaussian q(v).

        At a maximum of the bound, if no averaged curvature is positive, q is the Gaussian of the prior and these sites.
        The same sites then give a q at any other theta. The factors (k, m, m) are C of each output, the covariance of v
        being C C'.
        """
        _, offset, projections, others = self._values_at(theta)
        each = projections * (self.shape[0] if len(projections) == 1 else 1)
        spread = _flat(np.array([np.square(C.T @ A).sum(axis=0) for C, A in zip(factors, each, strict=True)]))
        # The first parameter of each term is the variance that the inducing inputs leave.
        for place in np.cumsum([0, *self._others[:-1]]):
            others[place] = others[place] + spread
        averaged = self._conditional(offset, projections, others)
        latent = averaged.latent(mean)
        return Sites.about(latent, averaged.derivatives(latent))

    def _conditional(
        self, offset: np.ndarray, projections: list[np.ndarray], others: list[np.ndarray], slopes_alone: bool = False
    ) -> WhitenedConditional:
        k, n = self.shape[0], projections[0].shape[1]
        return WhitenedConditional(
            np.broadcast_to(offset, (n,) if k == 1 else (k, n)).reshape(k, n),
            projections,
            partial(_value_at, self._terms, others),
            partial(_derivatives_at, self._terms, others),
            partial(_slope_at, self._terms, others) if slopes_alone else None,
        )


_known: WeakKeyDictionary[pm.Model, dict[tuple, SparseParts]] = WeakKeyDictionary()


def sparse_parts(model: pm.Model, point: dict[str, np.ndarray]) -> SparseParts:
    """Return the parts of a model with its present data; they are made anew only if its variables have changed.

    The optimization of the bound and the step methods of one model share them.

    Parameters
    ----------
    model : pymc.Model
    point : dict
        Values of all variables, for their shapes.
    """
    variables = tuple(id(variable) for variable in (*model.basic_RVs, *model.potentials))
    key = (variables, *((name, np.shape(value)) for name, value in point.items()))
    known = _known.setdefault(model, {})
    if key in known:
        known[key].refresh_data()
    else:
        known[key] = SparseParts(model, point)
    return known[key]


def _value_at(terms: Terms, others: list[np.ndarray], latent: np.ndarray) -> float:
    return float(terms.values(_flat(latent), *others)[0])


def _derivatives_at(terms: Terms, others: list[np.ndarray], latent: np.ndarray) -> Derivatives:
    slope, *curvatures = terms.derivatives(_flat(latent), *others)
    curvature = np.stack([np.broadcast_to(part, latent.shape[1:]) for part in curvatures])
    return Derivatives(np.reshape(slope, latent.shape), curvature)


def _slope_at(terms: Terms, others: list[np.ndarray], latent: np.ndarray) -> np.ndarray:
    return np.reshape(terms.slope(_flat(latent), *others), latent.shape)


def _flat(latent: np.ndarray) -> np.ndarray:
    return latent[0] if len(latent) == 1 else latent


def _whitened(model: pm.Model) -> Any:
    """Return the random variable v."""
    found = [rv for rv in model.free_RVs if rv.name.endswith(WHITENED)]
    if len(found) != 1:
        names = ", ".join(repr(rv.name) for rv in found) or "none"
        raise ModelError(f"the model must have one process of pmgp.gp.Sparse, but has {names}: {ELSEWHERE}")
    return found[0]


def _nothing(value: TensorVariable, shape: tuple[int, int], whole: TensorVariable) -> TensorVariable:
    """Return zeros in place of v."""
    if None not in value.type.shape and (whole.type.shape[-1] is not None or value.ndim == 1):
        return pt.zeros_like(value)
    # PyTensor replaces a product with zeros by zeros, and asserts a wrong shape for them if the shape is unknown.
    return pytensor.shared(np.zeros(shape[-value.ndim :], value.dtype))


def _term(rv: Any) -> _Term:
    if type(rv.owner.op).__name__ != OBSERVATIONS:
        raise ModelError(f"{rv.name!r} depends on the whitened values, but not through gp.observe: {ELSEWHERE}")
    mean, *others = rv.owner.op.dist_params(rv.owner)
    return _Term(rv, mean, others)


def _the_mean(terms: list[_Term]) -> TensorVariable:
    if not terms or any(term.mean is not terms[0].mean for term in terms):
        raise ModelError(f"all observations must be of one process at one set of inputs: {ELSEWHERE}")
    return terms[0].mean


def log_prior_of(model: pm.Model, v: Any, jacobian: bool = True) -> TensorVariable:
    """Return the log-density of every variable that does not depend on v, with or without the Jacobian."""
    observed = [rv for rv in model.observed_RVs if v in set(ancestors([rv]))]
    dependent = {v, *observed, *drawn_afterwards(model)}
    rest = [variable for variable in (*model.basic_RVs, *model.potentials) if variable not in dependent]
    log_prior = model.logp(vars=rest, jacobian=jacobian) if rest else pt.constant(0.0)
    if model.rvs_to_values[v] in set(ancestors([log_prior])):
        raise ModelError(f"a prior or potential depends on {v.name!r}: {ELSEWHERE}")
    return log_prior


def _projections(mean: TensorVariable, v: Any) -> list[TensorVariable]:
    """Return A of each output, or the shared one: the matrices by which v, or its rows, are multiplied."""
    found = {}
    for variable in ancestors([mean]):
        node = variable.owner
        op = getattr(node, "op", None)
        if isinstance(op.core_op if isinstance(op, Blockwise) else op, Dot):
            row = _row_of(node.inputs[0], v)
            if row is not None:
                found[row] = node.inputs[1]
    if not found:
        raise ModelError(f"the graph of the process is not visibly linear in the whitened values: {ELSEWHERE}")
    return [found[row] for row in sorted(found)]


def _row_of(variable: Any, v: Any) -> int | None:
    """Return the row of v that a variable is, 0 for the whole of v, or None for any other variable."""
    if variable is v:
        return 0
    node = variable.owner
    if node is not None and isinstance(node.op, DimShuffle):
        return _row_of(node.inputs[0], v)
    if node is not None and isinstance(node.op, Subtensor) and node.inputs[0] is v:
        places = node.inputs[1:]
        return int(places[0].data) if len(places) == 1 and isinstance(places[0], Constant) else None
    return None
