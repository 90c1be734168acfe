"""A search for the nodes of a graph that are linear in latent variables x.

Their coefficients may be data, times a scale for each whole variable that depends on theta. The search goes up from x.
A node is linear if its derivatives in those inputs that depend on x depend neither on x nor on theta, or if it is a
linear node times a scalar. The last nodes of this kind are the linear predictors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import io_toposort, walk
from pytensor.scalar.basic import Add, Exp, Mul, Neg, Second, Sub, Switch, TrueDiv
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.variable import TensorVariable


class Linear(NamedTuple):
    """A node that is linear in latent pieces.

    `plain` is the node without the factors that depend on theta, which are scalars. `factors` has those of each piece
    in it, by its value variable.
    """

    plain: TensorVariable
    factors: dict[Variable, tuple[TensorVariable, ...]]


def predictors(
    terms: list[TensorVariable], values: list[TensorVariable], theta: list[TensorVariable], apart: bool = False
) -> dict[TensorVariable, Linear]:
    """Return the last nodes that are linear in values, with coefficients that are data times scales of whole pieces.

    A predictor ends at a node that enters a nonlinear function; other nodes computed from it are functions of it. It
    has no more axes than the terms: what an ordinal likelihood subtracts from its cutpoints is the predictor. If a
    piece has different scales in two predictors, predictors end before the scales. With `apart`, a predictor that is
    computed from another one, as u[group] is from u, stays beside it.
    """
    axes = max((term.type.ndim for term in terms), default=0)
    found = _search(terms, values, theta, scaled=True)
    kept = _distinct(found, values, axes, apart)
    for value in values:
        if len({one.factors[value] for one in kept.values() if value in one.factors}) > 1:
            return _distinct(_search(terms, values, theta, scaled=False), values, axes, apart)
    return kept


def written_predictors(
    terms: list[TensorVariable], values: list[TensorVariable], theta: list[TensorVariable], axes: int
) -> dict[TensorVariable, Linear]:
    """Return the linear predictors of one observed variable as a user writes them, with signs, factors and constants.

    They have as many `axes` as the observations, so that cutpoints are left out. So are the sign and the root of two in
    the error function of a probit link, and the sign in 1 / (1 + exp(-eta)). A table of logits is taken apart.
    """
    found = _search(terms, values, theta, scaled=True)
    negative = _in_logistic_functions(terms)
    written = [node for one in found.ends for node in _as_written(one, found.linear, axes, negative)]
    return _kept(dict.fromkeys(written), found, values)


class _Search(NamedTuple):
    """All linear nodes, the last ones, and the variables that depend on the pieces or on theta."""

    linear: dict[Variable, Linear]
    ends: dict[TensorVariable, None]
    varies: set[Variable]


def _search(
    terms: list[TensorVariable], values: list[TensorVariable], theta: list[TensorVariable], scaled: bool
) -> _Search:
    linear: dict[Variable, Linear] = {value: Linear(value, {value: ()}) for value in values}
    varies, ends = {*values, *theta}, dict.fromkeys(one for one in terms if one in linear)
    depends: set[Variable] = set(values)
    for node in io_toposort([*values, *theta], terms):
        read = [one for one in inputs_read(node) if one in varies]
        varies.update(node.outputs if read else [])
        own = [one for one in read if one in depends]
        if not own:
            continue
        depends.update(node.outputs)
        found = _linear(node, own, linear, varies, scaled) if all(one in linear for one in own) else None
        if found is not None:
            linear[node.outputs[0]] = found
            ends |= dict.fromkeys(one for one in node.outputs if one in terms)
        else:
            ends |= dict.fromkeys(one for one in own if one in linear)
    return _Search(linear, ends, varies)


def _distinct(
    found: _Search, values: list[TensorVariable], axes: int, apart: bool = False
) -> dict[TensorVariable, Linear]:
    """Return the last linear nodes, before signs, scales, and constants that have more axes than the terms."""
    fewer = [_before_table(one, found.linear, axes) for one in found.ends]
    ends = dict.fromkeys(_before_scaling(one, found.linear, found.varies) for one in fewer)
    return {node: found.linear[node] for node in ends} if apart else _kept(ends, found, values)


def _kept(
    ends: dict[TensorVariable, None], found: _Search, values: list[TensorVariable]
) -> dict[TensorVariable, Linear]:
    """Return the nodes that are not made of others."""
    kept = [node for node in ends if not is_made_of(node, [one for one in ends if one is not node], values)]
    return {node: found.linear[node] for node in kept}


def _in_logistic_functions(terms: list[TensorVariable]) -> set[Variable]:
    """Return the arguments of exponentials to which one is added."""
    found = set()
    for variable in walk(terms, lambda one: [] if one.owner is None else one.owner.inputs):
        if variable.owner is None or not _is(variable.owner, Add):
            continue
        exponentials = [one.owner for one in variable.owner.inputs if one.owner is not None and _is(one.owner, Exp)]
        rest = [one for one in variable.owner.inputs if one.owner not in exponentials]
        if len(exponentials) == len(rest) == 1 and _number(rest[0]) == 1.0:
            found.add(exponentials[0].inputs[0])
    return found


def _as_written(
    node: TensorVariable, linear: dict[Variable, Linear], axes: int, negative: set[Variable]
) -> list[TensorVariable]:
    own = [] if node.owner is None else [one for one in node.owner.inputs if one in linear]
    if own and node.type.ndim > axes:
        return [found for one in own for found in _as_written(one, linear, axes, negative)]
    if len(own) != 1:
        return [node]
    [before] = own
    if node in negative and _is(node.owner, Neg):
        return [before]
    numbers = [abs(_number(one)) for one in node.owner.inputs if one is not before]
    if len(numbers) == 1 and min(abs(numbers[0] - root) for root in (0.5**0.5, 2.0**0.5)) < 1e-6:
        return [before.owner.inputs[0] if before.owner is not None and _is(before.owner, Neg) else before]
    return [node]


def _is(node: Apply, operation: type) -> bool:
    return isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, operation)


def _number(variable: Variable) -> float:
    """Return a constant scalar, NaN for another variable."""
    [found] = constant_fold([variable], raise_not_constant=False)
    return float("nan") if isinstance(found, Variable) or np.size(found) != 1 else np.asarray(found).item()


def _before_table(node: TensorVariable, linear: dict[Variable, Linear], axes: int) -> TensorVariable:
    """Return the linear node with so many axes that a table is a sum of with constants, or the node itself."""
    before = node
    while before.type.ndim > axes and before.owner is not None:
        own = [one for one in before.owner.inputs if one in linear]
        adds = isinstance(before.owner.op, DimShuffle) or _is(before.owner, Add) or _is(before.owner, Sub)
        if len(own) != 1 or not adds:
            return node
        before = own[0]
    return before


def _before_scaling(node: TensorVariable, linear: dict[Variable, Linear], varies: set[Variable]) -> TensorVariable:
    """Return the linear node that a predictor has with another sign or on another scale, or the predictor itself.

    A likelihood that looks at (y - eta) / 2, or at eta or -eta by the label, depends on eta: observations with the same
    eta share a latent value.
    """
    if node.owner is None or not isinstance(node.owner.op, Elemwise):
        return node
    inputs = node.owner.inputs
    own = [one for one in inputs if one in linear]
    if any(one in varies for one in inputs if one not in own) or not _rescales(node.owner, own):
        return node
    before = {_before_scaling(one, linear, varies) for one in own}
    return before.pop() if len(before) == 1 else node


def _rescales(node: Apply, own: list[Variable]) -> bool:
    """Whether an elementwise operation changes the sign or the scale of its own inputs, not their shape."""
    if any(one.type.broadcastable != node.outputs[0].type.broadcastable for one in own):
        return False
    first, rest = node.inputs[0], node.inputs[1:]
    number = all(all(one.type.broadcastable) for one in node.inputs if one not in own)
    match node.op.scalar_op:
        case Neg():
            return True
        case Sub():
            return rest == own
        case Switch():
            return len(own) == 2 and first not in own
        case Mul():
            return len(own) == 1 and number
        case TrueDiv():
            return own == [first] and number
    return False


def _linear(
    node: Apply, own: list[Variable], linear: dict[Variable, Linear], varies: set[Variable], scaled: bool
) -> Linear | None:
    """Return a node as a linear one, or None if it is not linear."""
    before = scale_before(node, own, varies) if scaled else None
    if before is not None:
        [one] = own
        scale, data = before
        plain = _multiply([linear[one].plain, *data])
        return Linear(plain, {value: (*factors, scale) for value, factors in linear[one].factors.items()})
    if not is_linear(node, own, varies):
        return None
    together: dict[Variable, tuple[TensorVariable, ...]] = {}
    for one in own:
        for value, factors in linear[one].factors.items():
            if together.setdefault(value, factors) != factors:
                return None
    if not any(together.values()):
        return Linear(node.outputs[0], together)
    plain = [linear[one].plain if one in own else one for one in node.inputs]
    return Linear(node.clone_with_new_inputs(plain, strict=False).outputs[0], together)


def scale_before(
    node: Apply, own: list[Variable], varies: set[Variable]
) -> tuple[TensorVariable, list[TensorVariable]] | None:
    """Return the scalar of theta, and the data, by which a node multiplies one linear node.

    The result is None for a node that does something else, or multiplies by data alone.
    """
    found = _multiplied(node, own, varies) if len(own) == 1 else None
    if found is None or not found.scalars or own[0] not in found.others:
        return None
    return _multiply(found.scalars), [one for one in found.others if one is not own[0]]


def _multiply(factors: list[TensorVariable]) -> TensorVariable:
    return pt.mul(*factors) if len(factors) > 1 else factors[0]


def _scalar(variable: TensorVariable) -> TensorVariable:
    """Return a variable of one element without axes: the same one wherever it was given axes."""
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        [variable] = variable.owner.inputs
    return variable.dimshuffle() if variable.ndim else variable


class _Product(NamedTuple):
    """Factors of a product: scalars of theta, and others, which are data or a linear node."""

    scalars: list[TensorVariable]
    others: list[TensorVariable]


def _product(variable: TensorVariable, own: list[Variable], varies: set[Variable]) -> _Product | None:
    """Return a variable as a product, or None if it is not one of scalars of theta, data and a linear node."""
    if variable in own or variable not in varies:
        return _Product([], [variable])
    if all(variable.type.broadcastable):
        return _Product([_scalar(variable)], [])
    return None if variable.owner is None else _multiplied(variable.owner, own, varies)


def _multiplied(node: Apply, own: list[Variable], varies: set[Variable]) -> _Product | None:
    """Return what a node computes as a product; Python reads omega * z * w[group] as (omega * z) * w[group]."""
    operation = node.op if isinstance(node.op, DimShuffle) else getattr(node.op, "scalar_op", None)
    if not isinstance(operation, Mul | TrueDiv | Neg | DimShuffle):
        return None
    parts = [found for one in node.inputs if (found := _product(one, own, varies)) is not None]
    if len(parts) < len(node.inputs):
        return None
    first, rest = parts[0], parts[1:]
    match operation:
        case TrueDiv():
            rest = [_Product([1.0 / one for one in part.scalars], [1.0 / one for one in part.others]) for part in rest]
        case Neg():
            rest = [_Product([], [pt.constant(-1, dtype="int8")])]
        case DimShuffle():
            first = _Product(first.scalars, [node.op(_multiply(first.others))])
    together = [first, *rest]
    return _Product(*([one for part in together for one in part[kind]] for kind in range(2)))


def theta_scales(
    found: dict[TensorVariable, Linear], values: list[TensorVariable]
) -> tuple[list[int], list[TensorVariable]]:
    """Return the indices of the pieces with scales that depend on theta, and these scales."""
    factors = {value: scale for one in found.values() for value, scale in one.factors.items() if scale}
    places = [place for place, value in enumerate(values) if value in factors]
    products = [pt.prod(pt.stack(factors[values[place]])).astype("float64") for place in places]
    return places, products


def is_made_of(node: TensorVariable, others: Iterable[TensorVariable], values: list[TensorVariable]) -> bool:
    """Return whether a node depends on the values only through other nodes."""
    return not set(values) & (values_read([node], others) - set(others))


def is_linear(node: Apply, own: list[Variable], varies: set[Variable]) -> bool:
    """Whether the derivative of a node in its own inputs, times weights, depends on these weights and data alone."""
    if len(node.outputs) != 1 or node.outputs[0].dtype not in ("float64", "float32"):
        return False
    fresh = {one: one.type() for one in own}
    out = node.clone_with_new_inputs([fresh.get(one, one) for one in node.inputs]).outputs[0]
    weights = out.type()
    try:
        gradients = pytensor.grad(None, list(fresh.values()), known_grads={out: weights}, disconnected_inputs="raise")
    except Exception:  # A node without a derivative is not linear, whatever it raises.
        return False
    found = [values_read([gradient]) for gradient in gradients]
    return all(weights in read and not read & (varies | set(fresh.values())) for read in found)


def values_read(graphs: list[TensorVariable], stops: Iterable[TensorVariable] = ()) -> set[Variable]:
    """All variables that graphs depend on by their values, not by their shapes alone or through those to stop at."""
    ends = set(stops)

    def inputs(variable: Variable) -> list[Variable]:
        return [] if variable in ends or variable.owner is None else inputs_read(variable.owner)

    return set(walk(graphs, inputs))


def inputs_read(node: Apply) -> list[Variable]:
    """The inputs whose values a node reads."""
    if isinstance(node.op, Shape | Shape_i):
        return []
    # A fill takes only the shape of its first input.
    filled = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Second)
    return node.inputs[1:] if filled else node.inputs
