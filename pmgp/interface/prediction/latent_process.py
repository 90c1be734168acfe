"""The latent process at new inputs, given its values at the old ones.

The covariance between old and new inputs comes from the model's own graph, in which the inputs X are replaced by X
stacked on the new inputs, or from the process if the user passes it. So every covariance and mean function of `pymc.gp`
works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.pytensorf import compile as compile_pytensor
from pytensor.compile import SharedVariable
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import DensePrior
from pmgp.core.gaussians.dense import INDEFINITE
from pmgp.core.numerics import linalg
from pmgp.interface.covariance.distances import centered
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.prediction.joint_covariance import JointMoments, Parts, compile_joint_moments
from pmgp.interface.prediction.known_process import KnownProcess
from pmgp.interface.prediction.new_points import NewInputs
from pmgp.interface.prediction.point_function import QUICKLY
from pmgp.interface.prediction.rules import NotPointwiseError

Moments = tuple[TensorVariable, TensorVariable]

# Elements of the largest array: 4 million numbers are 32 MB.
LARGEST = 4_000_000
FEWEST_POINTS = 256
# Number of inputs at which the parts of the covariance are compared with the whole.
PROBED = 20
ASK = "pass the process itself, which knows its inputs: gp=gp"
# Relative to the mean variance of the process.
RELATIVE_JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)


class LatentProcess:
    """A latent process given by the graph of its mean and covariance.

    The moments are those of f, or `moments` if f has several rows, and depend on the free variables `theta`. One of the
    `known` processes has this covariance; without any, the graphs are searched for the inputs.
    """

    # What to do if other arrays than the inputs have a value for each of them.
    _remedy = f"build it with pm.gp.Latent(...).prior(..., X=X), and {ASK}"

    def __init__(
        self,
        f: TensorVariable,
        theta: list[TensorVariable],
        moments: Moments | None = None,
        known: Sequence[KnownProcess] = (),
    ) -> None:
        self._f = f
        self._own = f.owner.op.dist_params(f.owner) if moments is None else moments
        self.theta = theta
        self._size = int(f.type.shape[-1] if f.type.shape[-1] is not None else f.shape.eval()[-1])
        self._joint = pt.matrix("X_joint", dtype="float64")
        self._values = [rv.type() for rv in theta]
        self._graphs, self.inputs, self.X = self._found_in_graphs() if not known else self._given_by(known)
        self._moments: JointMoments | None = None

    @property
    def sources(self) -> list[Any]:
        """The model's data of which the inputs are made: the inputs themselves."""
        return self.inputs

    @property
    def size(self) -> int:
        """The length of f."""
        return self._size

    def block_size(self, number: int) -> int:
        """Return the number of new inputs, out of `number`, to handle at a time."""
        if self._moments is None or self._moments.whole:
            return min(number, max(FEWEST_POINTS, int(np.sqrt(LARGEST)) - self.size))
        return min(number, max(FEWEST_POINTS, LARGEST // self.size))

    def compile(self, Xnew: np.ndarray, theta: list[np.ndarray]) -> None:
        """Compile functions for inputs of this kind."""
        probe = np.concatenate([self.X[:PROBED], Xnew[:PROBED], self.X[:1]])
        try:
            compiler = _compiler([self._joint, *self._values])
            mean, covariance = centered(self._graphs, {self._joint: self.X})
            self._moments = compile_joint_moments(mean, covariance, compiler, probe, theta)
            self._parts(Xnew[:1], theta)
        except (AssertionError, IndexError, TypeError, ValueError, NotImplementedError) as error:
            message = f"the covariance of {self._f.name!r} cannot be evaluated at new inputs: {error}"
            raise ModelError(message) from error

    def given_theta(self, theta: list[np.ndarray], Xnew: np.ndarray, block_size: int) -> Conditional:
        """Return the process at one theta and the new inputs."""
        blocks = [slice(start, min(start + block_size, len(Xnew))) for start in range(0, len(Xnew), block_size)]
        return Conditional(self.size, blocks, lambda block: self._parts(Xnew[block], theta))

    def _parts(self, Xnew: np.ndarray, theta: list[np.ndarray]) -> Parts:
        assert self._moments is not None
        return self._moments(np.concatenate([self.X, Xnew]), theta)

    def _found_in_graphs(self) -> tuple[Moments, list[Any], np.ndarray]:
        """Return graphs of the moments at other inputs, the variables that hold the old inputs, and the old inputs."""
        new = NewInputs(self._joint, self.size, self.theta)
        graphs = self._at_other_inputs(new)
        return graphs, new.inputs, self._checked(new.inputs)

    def _given_by(self, processes: Sequence[KnownProcess]) -> tuple[Moments, list[Any], np.ndarray]:
        """Return moments, inputs and values from the process that the covariance belongs to."""
        for process in processes:
            if known := process.at(self._joint, list(self._own)):
                graphs = self._at_other_inputs(NewInputs(self._joint, self.size, self.theta, known))
                return graphs, process.variables, process.X
        raise ModelError(
            f"no process in gp=... has the covariance of {self._f.name!r}: pass the process whose prior made it"
        )

    def _at_other_inputs(self, new: NewInputs) -> Moments:
        mean, covariance = self._own
        try:
            graphs = new.build(mean, frozenset([0]), ()), new.build(covariance, frozenset([0, 1]), ())
        except NotPointwiseError as error:
            raise ModelError(
                f"the mean or the covariance of {self._f.name!r} is not a function of inputs alone: {error}; "
                f"{self._remedy}"
            ) from error
        # Cloning copies random variables too, and copies are drawn from the prior.
        values = dict(zip(self.theta, self._values, strict=True))
        mean, covariance = clone_replace(list(graphs), values, rebuild_strict=False)
        return mean, covariance

    def _checked(self, inputs: list[Any]) -> np.ndarray:
        if not inputs:
            raise ModelError(
                f"the inputs that the covariance of {self._f.name!r} was built from were not found in the model: "
                f"build it with pm.gp.Latent(...).prior(..., X=X), and {ASK}"
            )
        first, *others = map(_value, inputs)
        if any(not np.array_equal(first, other) for other in others):
            raise ModelError(
                f"the covariance of {self._f.name!r} is built from several different input matrices, as it is when "
                f"active_dims select columns of a plain array: {ASK}"
            )
        return first


def _compiler(inputs: list[TensorVariable]) -> Callable[[list[TensorVariable]], Callable[..., list[np.ndarray]]]:
    return lambda outputs: compile_pytensor(inputs, outputs, mode=QUICKLY, on_unused_input="ignore")


class Conditional:
    """The latent process at one theta.

    The n old inputs come first; `parts` takes a slice of the new inputs, and returns the moments at the old inputs
    followed by these.
    """

    def __init__(self, size: int, blocks: list[slice], parts: Callable[[slice], Parts]) -> None:
        self._old = slice(0, size)
        self._blocks = blocks
        self._parts = parts
        self._first = parts(blocks[0])
        prior = DensePrior(self._first.mean[:size], self._first.lower_triangle(self._old)).factorized()
        if prior is None:
            raise linalg.NotPositiveDefiniteError(INDEFINITE)
        self.prior = prior

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """Return L^-1 (f - m) for draws of f at the old inputs, (k, n) -> (n, k)."""
        return self.prior.whiten(f).T

    def pointwise(self, whitened: np.ndarray) -> Iterable[tuple[slice, np.ndarray, np.ndarray]]:
        """Return mean and variance at the new inputs, block by block: arrays of shapes (k, m) and (m,)."""
        return [(block, *self._moments(block, whitened)) for block in self._blocks]

    def _moments(self, block: slice, whitened: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts, new, projected = self._projected(block)
        variance = parts.diagonal(new) - np.einsum("ij,ij->j", projected, projected)
        return parts.mean[new] + whitened.T @ projected, np.maximum(variance, 0.0)

    def jointly(self, rng: np.random.Generator, whitened: np.ndarray) -> np.ndarray:
        """Draw the process at all new inputs together: (k, m)."""
        block = slice(0, self._blocks[-1].stop)
        parts, new, projected = self._projected(block)
        covariance = parts.lower_triangle(new)
        scale = float(np.einsum("ii->i", covariance).mean())
        # Elements above the diagonal are arbitrary.
        with np.errstate(all="ignore"):
            covariance -= projected.T @ projected
        normals = rng.standard_normal((whitened.shape[1], covariance.shape[0]))
        return parts.mean[new] + whitened.T @ projected + normals @ np.tril(factor(covariance, scale)).T

    def _projected(self, block: slice) -> tuple[Parts, slice, np.ndarray]:
        """Return L^-1 K between old and new inputs, of shape (n, m)."""
        parts = self._first if block == self._blocks[0] else self._parts(block)
        new = slice(self._old.stop, self._old.stop + block.stop - block.start)
        cross = parts.rectangle(new, self._old)
        return parts, new, self.prior.project(cross.T)


def factor(covariance: np.ndarray, scale: float) -> np.ndarray:
    """Return the lower Cholesky factor, with the smallest jitter relative to `scale` that suffices."""
    diagonal = np.einsum("ii->i", covariance)
    added = 0.0
    for relative in RELATIVE_JITTERS:
        diagonal += relative * scale - added
        added = relative * scale
        try:
            return linalg.cholesky(covariance)
        except linalg.NotPositiveDefiniteError:
            continue
    raise linalg.NotPositiveDefiniteError("the covariance between the new inputs, given f at the old ones, is singular")


def _value(variable: Any) -> np.ndarray:
    return np.asarray(variable.get_value() if isinstance(variable, SharedVariable) else variable.data, dtype=float)
