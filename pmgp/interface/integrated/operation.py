"""PyTensor operations for the approximate log p(y|theta) and its gradient."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import generate_fallback_impl, numba_funcify

from pmgp.core.gaussians import Posterior
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.maximum import Objective


class ApproximateEvidence:
    """An approximation's log-evidence and its gradient, two functions of theta that share one fit.

    `size` is the number of latent values.
    """

    def __init__(self, objective: Objective, size: int) -> None:
        self._objective = objective
        self._threads = suitable_threads(size)
        self._last: tuple[np.ndarray, Posterior | None] | None = None

    def value(self, theta: np.ndarray) -> float:
        """Return log p~(y|theta), or minus infinity if there is no fit."""
        q = self._fit(theta)
        return -np.inf if q is None else q.log_evidence

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of log p~(y|theta), (dimension,), or zeros if there is no fit."""
        q = self._fit(theta)
        if q is None:
            return np.zeros_like(theta)
        with threads_limited(self._threads), np.errstate(all="ignore"):
            gradient = self._objective.evidence_gradient(theta, q)
        return np.zeros_like(theta) if gradient is None else np.where(np.isfinite(gradient), gradient, 0.0)

    def _fit(self, theta: np.ndarray) -> Posterior | None:
        # Read the attribute once, because another thread may set it. Any fit at theta will do.
        last = self._last
        if last is not None and np.array_equal(last[0], theta):
            return last[1]
        q = None
        if np.isfinite(theta).all():
            with threads_limited(self._threads), np.errstate(all="ignore"):
                q = self._objective.fit(theta)
        if q is not None and not np.isfinite(q.log_evidence):
            q = None
        self._last = theta.copy(), q
        return q

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the last fit, whose n x n matrices need not be pickled."""
        return self.__dict__ | {"_last": None}


class _OfTheta(Op):
    """An operation on the vector theta; two operations are equal only if they are the same object."""

    def __init__(self, evidence: ApproximateEvidence) -> None:
        self.evidence = evidence

    def make_node(self, theta: Any) -> Apply:
        theta = pt.as_tensor(theta, dtype="float64")
        return Apply(self, [theta], [self.output(theta)])

    def output(self, theta: Any) -> Variable:
        """Return a variable for the result."""
        raise NotImplementedError

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        """Return the output's shape: that of a scalar, or theta's shape for the gradient."""
        return [shapes[0][: node.outputs[0].type.ndim]]


class LogEvidence(_OfTheta):
    """The approximate log p(y|theta) as an operation."""

    def __init__(self, evidence: ApproximateEvidence) -> None:
        super().__init__(evidence)
        self.of_gradient = LogEvidenceGradient(evidence)

    def output(self, theta: Any) -> Variable:
        """Return a scalar variable."""
        return pt.dscalar()

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """Compute the value from a fit of q."""
        output_storage[0][0] = np.asarray(self.evidence.value(np.asarray(inputs[0])))

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
        """Return the gradient as another operation, which runs only if it is needed."""
        return [cotangents[0] * self.of_gradient(inputs[0])]


class LogEvidenceGradient(_OfTheta):
    """The gradient of the approximate log p(y|theta) as an operation."""

    def output(self, theta: Any) -> Variable:
        """Return a vector variable of theta's type."""
        return theta.type()

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """Compute the gradient, reusing the fit that gave the value at the same theta."""
        output_storage[0][0] = self.evidence.gradient(np.asarray(inputs[0]))


@numba_funcify.register(_OfTheta)
def _called_from_numba(op: _OfTheta, node: Apply, storage_map: Any = None, **kwargs: Any) -> Any:
    """Return an implementation that calls Python, without PyTensor's warning about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return generate_fallback_impl(op, node, storage_map, **kwargs)
