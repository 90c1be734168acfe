"""A likelihood that is given by its graph: its terms and their derivatives in f, in NumPy or compiled by PyTensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.scalar.math import GammaIncC
from pytensor.tensor.rewriting.special import local_log_add_exp, local_log_sum_exp
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.type_other import NoneTypeT
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods.block_moments import moments_of_sites
from pmgp.core.likelihoods.blocks import BlockMoments
from pmgp.core.numerics.block_matrices import BlockMatrix, DenseBlocks
from pmgp.core.numerics.quadrature import SITES, TiltedMoments, tilted_moments, tilted_moments_in_parts
from pmgp.interface.graphs.compilation import CompiledOnRequest
from pmgp.interface.graphs.rewriting import rewrite_by
from pmgp.interface.graphs.unrolling import NotElementwiseError, elementwise
from pmgp.interface.model.likelihood_terms import LikelihoodTerms
from pmgp.interface.model.theta_vector import ThetaVector

CHECKS_AS_SWITCHES = in2out(local_check_parameter_to_ninf_switch)
LOGS_OF_SUMS = in2out(local_log_add_exp, local_log_sum_exp, name="logs_of_sums")


@node_rewriter([pt.log])
def _log_of_no_count(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Replace the log of gammaincc(1, mu), the probability of a count of zero, by -mu.

    It underflows where mu > 745, and a count that is truncated at zero then has no derivative. Where mu < 1e-16 it
    rounds to zero, and such a count would be infinitely probable.
    """
    [survival] = node.inputs
    if survival.owner is None or not isinstance(getattr(survival.owner.op, "scalar_op", None), GammaIncC):
        return None
    [shape], rate = constant_fold([survival.owner.inputs[0]], raise_not_constant=False), survival.owner.inputs[1]
    if isinstance(shape, Variable) or not np.all(np.equal(shape, 1.0)):
        return None
    return [pt.second(survival, -rate).astype(node.outputs[0].dtype)]


@node_rewriter([pt.log1mexp])
def _log_of_rest(fgraph: FunctionGraph, node: Apply) -> list[Variable]:
    """Replace log1mexp, whose second derivative is the ratio of infinite numbers where its argument is below -709."""
    return [pt.log(-pt.expm1(node.inputs[0])).astype(node.outputs[0].dtype)]


@node_rewriter([SpecifyShape])
def _of_unknown_lengths(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Leave out a shape of which only some lengths are known: PyTensor cannot lift an index through it."""
    x, *lengths = node.inputs
    return [x] if any(isinstance(length.type, NoneTypeT) for length in lengths) else None


STABLE = in2out(_log_of_no_count, _of_unknown_lengths, name="stable")
SMOOTH = in2out(_log_of_rest, name="with_finite_derivatives")
# The relative and absolute tolerance of the comparison of terms.
SAME = 1e-9


class _FromGraph:
    """A likelihood at one theta, computed from its graph."""

    def __init__(self, functions: LikelihoodFunctions, theta: np.ndarray) -> None:
        self.functions = functions
        self.theta = theta

    @property
    def separate(self) -> bool:
        """Whether each term depends on the latent values of only one observation."""
        return self.functions.terms.separate

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f): (..., C n) -> (...)."""
        rows = np.ascontiguousarray(f.reshape(-1, f.shape[-1]))
        return self.functions.terms.flat(rows, self.theta).sum(axis=1).reshape(f.shape[:-1])

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f) for each observation: (draws, C n) -> (draws, n). Terms must be separate."""
        return self.functions.terms.sites(np.ascontiguousarray(f), self.theta)

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative in f: (C n,) -> (C n,)."""
        return self.functions.gradient(np.ascontiguousarray(f), self.theta)[0]


class PyTensorLikelihood(_FromGraph):
    """A likelihood of one latent vector."""

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Return minus the second derivative in f: (n,) -> (n,)."""
        return self.derivatives(f)[1]

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and curvature, computed together: (n,) to two (n,) arrays."""
        gradient, curvature = self.functions.derivatives(np.ascontiguousarray(f), self.theta)
        return gradient, curvature

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Return the third derivative in f: (n,) -> (n,)."""
        return self.functions.third(np.ascontiguousarray(f), self.theta)[0]

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments | None:
        """Return tilted moments by quadrature, or None if a term of log p(y|f) depends on several latent values."""
        terms = self.functions.terms
        if not terms.separate:
            return None
        return tilted_moments(lambda f: terms.sites(f, self.theta), mean, variance, near)

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return the absolute curvature, in place of the Fisher information, which the graph of log p does not give."""
        return np.abs(self.curvature(f))


class DivisibleLikelihood(PyTensorLikelihood):
    """A likelihood of separate terms, which can be computed for some of the latent values alone."""

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments | None:
        """Return tilted moments by quadrature."""
        terms = self.functions.terms
        if len(mean) <= SITES or not terms.divisible:
            return super().tilted_moments(mean, variance, near)
        return tilted_moments_in_parts(lambda part: lambda f: terms.part(f, self.theta, part), mean, variance, near)

    def subset(self, sites: Any) -> PartialLikelihood:
        """Return the terms of some latent values, given as a slice or as their indices."""
        return PartialLikelihood(self.functions.terms, self.theta, sites)


class PartialLikelihood(NamedTuple):
    """The terms of the latent values at some sites."""

    terms: LikelihoodTerms
    theta: np.ndarray
    sites: Any

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of these values: (draws, s) -> (draws,)."""
        return self.terms.part(np.ascontiguousarray(f), self.theta, self.sites).sum(axis=1)


class PyTensorBlockLikelihood(_FromGraph):
    """A likelihood of several latent vectors, C of them."""

    site_form: ClassVar[type[BlockMatrix]] = DenseBlocks

    def __init__(self, functions: LikelihoodFunctions, theta: np.ndarray) -> None:
        super().__init__(functions, theta)
        self.contrasts = np.eye(functions.number)

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, DenseBlocks]:
        """Return the gradient, and the blocks of the curvature with the absolute values of their eigenvalues."""
        gradient, curvature = self.functions.derivatives(np.ascontiguousarray(f), self.theta)
        number = self.functions.number
        blocks = np.moveaxis(curvature.reshape(number, number, -1), 2, 0)
        finite = np.where(np.isfinite(blocks), blocks, 0.0)
        return gradient, DenseBlocks.from_curvature(0.5 * (finite + finite.swapaxes(1, 2)))

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return the diagonal of the positive definite curvature, as the graph does not give an expectation: (C n,)."""
        return np.einsum("icc->ci", self.derivatives(f)[1].blocks).ravel()

    def tilted_moments(
        self, mean: np.ndarray, covariance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> BlockMoments | None:
        """Return tilted moments from nodes around `near`, or None if a term depends on several observations' values."""
        return moments_of_sites(self.log_density, mean, covariance, near) if self.separate else None


class DivisibleBlockLikelihood(PyTensorBlockLikelihood):
    """A likelihood of separate terms of several values each, which can be computed for some observations alone."""

    def subset(self, sites: Any) -> PartialLikelihood:
        """Return the terms of some observations, given by their indices."""
        return PartialLikelihood(self.functions.terms, self.theta, sites)


@dataclass
class LikelihoodFunctions:
    """The terms of log p(y|f, theta), and its derivatives as functions of (f, theta) that return lists of (n,) arrays.

    For several latent vectors, C = `number`, the curvature is (C, C n): row c holds the derivatives of vector c's part
    of the gradient in all elements of f.

    One function computes gradient and curvature, because Numba compiles one in less time than two; samplers that need
    the gradient alone have another one. NumPy computes them, if it can, until compilation is requested: a search for a
    mode takes few calls, a sampler's trajectories many.
    """

    terms: LikelihoodTerms
    gradient: CompiledOnRequest
    derivatives: CompiledOnRequest
    third: CompiledOnRequest
    number: int = 1

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them."""
        self.terms.refresh_data()
        for function in (self.gradient, self.derivatives, self.third):
            function.refresh_data()


def compile_likelihood(
    names: list[str],
    terms: list[TensorVariable],
    latent: TensorVariable,
    functions: ThetaVector,
    at: tuple[np.ndarray, np.ndarray],
    number: int = 1,
) -> LikelihoodFunctions:
    """Return the functions that compute a likelihood given by its graph.

    The terms are graphs of any shape, in terms of f and theta. `at` is an f and a theta at which rewritten graphs are
    compared with those of the model; `number` is the number of latent vectors in f.
    """
    evaluate, terms = _of_rows(rewrite_by(STABLE, terms, clone=True), latent, functions, at)
    # Expectation propagation needs derivatives only at its start; Laplace's method needs them all the time.
    smooth = rewrite_by(SMOOTH, terms, clone=True)
    gradient = pt.grad(pt.add(*[term.sum() for term in smooth], 0.0), latent)
    curvature = _curvature(gradient, latent, number)
    third = -pt.grad(curvature.sum(), latent, disconnected_inputs="ignore")
    first, both, highest = (
        CompiledOnRequest(partial(functions.compile, [latent], outputs), partial(functions.by_numpy, [latent], outputs))
        for outputs in ([gradient], [gradient, curvature], [third])
    )
    return LikelihoodFunctions(LikelihoodTerms(names, evaluate, number), first, both, highest, number)


def _curvature(gradient: TensorVariable, latent: TensorVariable, number: int) -> TensorVariable:
    """Return minus the row sums of the Hessian, which is diagonal; with several latent vectors a row for each."""
    if number == 1:
        return -pt.grad(gradient.sum(), latent, disconnected_inputs="ignore")
    parts = gradient.reshape((number, -1))
    return pt.stack([-pt.grad(parts[c].sum(), latent, disconnected_inputs="ignore") for c in range(number)])


def _of_rows(
    terms: list[TensorVariable], latent: TensorVariable, functions: ThetaVector, at: tuple[np.ndarray, np.ndarray]
) -> tuple[Callable[..., list[np.ndarray]], list[TensorVariable]]:
    """Return the terms as a function of (rows of f, theta), in NumPy if the values agree, and the graphs behind it."""
    found = [_elementwise_or_none(term, latent) for term in terms]
    expected = functions.compile([latent], terms, interpreted=True)(*at)
    rows = pt.matrix("f_rows", dtype=latent.dtype)

    def of_rows(written: list[TensorVariable]) -> list[TensorVariable]:
        return vectorize_graph(written, replace={latent: rows})

    written = [_independent_rows(term) if new is None else new for term, new in zip(terms, found, strict=True)]
    evaluate = functions.by_numpy([rows], of_rows(written))
    if evaluate is not None and _all_same(expected, evaluate, at):
        return evaluate, written
    values = iter(functions.compile([latent], [new for new in found if new is not None], interpreted=True)(*at))
    same = [new is not None and _same(value, next(values)) for new, value in zip(found, expected, strict=True)]
    written = [
        new if new is not None and kept else _independent_rows(term)
        for term, new, kept in zip(terms, found, same, strict=True)
    ]
    return functions.compile([rows], of_rows(written)), written


def _all_same(
    expected: list[np.ndarray], evaluate: Callable[..., list[np.ndarray]], at: tuple[np.ndarray, np.ndarray]
) -> bool:
    values = evaluate(at[0][None, :], at[1])
    return all(_same(value, found[0]) for value, found in zip(expected, values, strict=True))


def _elementwise_or_none(term: TensorVariable, latent: TensorVariable) -> TensorVariable | None:
    try:
        # These patterns get their stable form here, so that nothing needs to look for them after unrolling.
        return elementwise(rewrite_by(LOGS_OF_SUMS, [term], clone=True)[0], latent)
    except NotElementwiseError:
        return None


def _same(expected: np.ndarray, found: np.ndarray) -> bool:
    """Return whether two evaluations of a term agree where finite, and either both or none have infinite values."""
    if expected.shape != found.shape or np.isfinite(expected).all() != np.isfinite(found).all():
        return False
    finite = np.isfinite(expected) & np.isfinite(found)
    return bool(np.allclose(found[finite], expected[finite], rtol=SAME, atol=SAME))


def with_checks_as_values(graphs: list[TensorVariable]) -> list[TensorVariable]:
    """Return log-densities that are minus infinity where a check of their parameters fails, in place of an error."""
    return [_independent_rows(graph) for graph in graphs]


def _independent_rows(term: TensorVariable) -> TensorVariable:
    """Return a term in which parameters are checked for each f separately.

    PyTensor checks a parameter that depends on f for all rows of f together, so one draw outside the parameter's
    domain would make every draw impossible.
    """
    return rewrite_by(CHECKS_AS_SWITCHES, [term], clone=True)[0]
