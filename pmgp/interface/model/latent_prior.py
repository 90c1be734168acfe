"""p(f|theta): K in blocks where its graph allows it, otherwise from PyTensor's own function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import equal_computations
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import BlockPrior, DensePrior, DesignPrior
from pmgp.core.likelihoods.checks import marked_rows
from pmgp.interface.covariance.blocked import BlockedCovariance
from pmgp.interface.covariance.distances import centered
from pmgp.interface.graphs.compilation import CompiledWhenCalled
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.graphs.rewriting import rewrite
from pmgp.interface.model.checks import refuse_infinite_inputs
from pmgp.interface.model.comparison import same_values
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.theta_vector import ThetaVector


class MatrixPrior:
    """A function from theta to a p(f|theta) that has a covariance matrix, or several."""

    # Whether f has a sparse precision, so that its values can be drawn one after another.
    markov: ClassVar[bool] = False

    def __call__(self, theta: np.ndarray) -> DensePrior | BlockPrior | DesignPrior:
        """Return p(f|theta)."""
        raise NotImplementedError

    def fault(self, name: str, theta: np.ndarray) -> str | None:
        """Return why a chain cannot start with p(f|theta), or None if it can; `name` is that of f."""
        prior = self(theta)
        if not prior.is_finite:
            rows = np.concatenate([~np.isfinite(np.tril(part.covariance)).all(axis=1) for part in prior.parts])
            return f"the prior covariance of {name!r} is not finite in {marked_rows(rows)}, though its inputs are"
        if prior.factorized() is not None:
            return None
        eigenvalues = np.concatenate([np.linalg.eigvalsh(np.tril(part.covariance)) for part in prior.parts])
        lowest, highest = eigenvalues.min(), eigenvalues.max()
        return (
            f"the prior covariance of {name!r} is not positive definite: its eigenvalues range from {lowest:.3g} "
            f"to {highest:.3g}; check the covariance function, or give other initvals"
        )

    def require_matrix(self) -> None:
        """Do nothing: there is a covariance matrix."""


class LatentPrior(MatrixPrior):
    """The function from theta to p(f|theta).

    `blocked` computes m and K in blocks of rows, which is faster to compute and to compile; it is None if their graph
    does not allow it.
    """

    initial_moments: tuple[np.ndarray, np.ndarray]

    def __init__(self, name: str, mean: TensorVariable, covariance: TensorVariable, theta: ThetaVector) -> None:
        self.name = name
        self.mean, self.covariance = mean, covariance
        self._theta = theta
        self.blocked = self._compile_blocked()
        self.moments = CompiledWhenCalled(partial(theta.compile, [], [mean, covariance]))
        self._pullback = CompiledWhenCalled(self._make_pullback)

    def __call__(self, theta: np.ndarray) -> DensePrior:
        """Return p(f|theta)."""
        if self.blocked is not None:
            return DensePrior(*self.blocked(theta))
        mean, covariance = self.moments(theta)
        # The covariance is symmetric: the transpose of PyTensor's row-major array is the same matrix in LAPACK's order.
        return DensePrior(np.asarray(mean, dtype=float), covariance.T)

    def refresh_data(self) -> None:
        """Read the inputs again, as `pymc.set_data` may have changed them."""
        if self.blocked is not None:
            self.blocked.refresh_data()
        prior = self(self._theta.initial)
        self.initial_moments = prior.mean, prior.variance.copy()
        refuse_infinite_inputs(self.name, [self.mean, self.covariance], prior)

    def pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient of <covariance_bar, K(theta)> + mean_bar' m(theta) in theta, compiled at the first call.

        `covariance_bar` is symmetric; only its lower triangle is read.
        """
        if self.blocked is not None and self.blocked.has_pullback:
            return self.blocked.pullback(theta, covariance_bar, mean_bar)
        # K is symmetric too, so the elements below the diagonal can count twice in place of those above.
        folded = 2.0 * np.tril(covariance_bar, -1) + np.diag(np.diag(covariance_bar))
        return self._pullback(folded, np.ascontiguousarray(mean_bar), theta)[1]

    def compile_pullback(self) -> None:
        """Compile :meth:`pullback` now."""
        size = len(self.initial_moments[0])
        self.pullback(self._theta.initial, np.zeros((size, size)), np.zeros(size))

    @property
    def computed(self) -> str:
        """A description of how the covariance is computed."""
        return "from its graph, by PyTensor" if self.blocked is None else "in blocks of rows, by NumPy"

    def _make_pullback(self) -> Callable[..., Any]:
        covariance_bar, mean_bar = pt.matrix("covariance_bar"), pt.vector("mean_bar")
        inner = (covariance_bar * self.covariance).sum() + (mean_bar * self.mean).sum()
        return self._theta.compile_gradient([covariance_bar, mean_bar], inner)

    def _compile_blocked(self) -> BlockedCovariance | None:
        if not self._theta.values:
            return None
        graphs, variable = self._theta.write([self.mean, self.covariance])
        try:
            blocked = BlockedCovariance(graphs[0], graphs[1], variable, self._theta.compile_function)
        except UnsupportedGraphError:
            return None
        theta = self._theta.initial
        # Branches that a rewrite would remove may divide by zero.
        with np.errstate(all="ignore"):
            mean, covariance = self._theta.compile_function.as_written([variable], graphs)(theta)
        own_mean, own_covariance = blocked(theta)
        same = same_values(np.tril(covariance), np.tril(own_covariance)) and same_values(mean, own_mean)
        return blocked if same else None


class BlockLatentPrior(MatrixPrior):
    """The function from theta to p(f|theta) for several latent vectors.

    A part that occurs several times is computed once. In graphs, all means come one after another, and covariances are
    stacked along a first axis.
    """

    def __init__(self, parts: list[LatentPrior]) -> None:
        self.parts = parts
        self.mean = pt.concatenate([part.mean for part in parts])
        self.covariance = pt.stack([part.covariance for part in parts])

    def __call__(self, theta: np.ndarray) -> BlockPrior:
        """Return p(f|theta)."""
        priors = {name: part(theta) for name, part in self._distinct.items()}
        return BlockPrior([priors[id(part)] for part in self.parts])

    @property
    def _distinct(self) -> dict[int, LatentPrior]:
        """The distinct priors, by their identity."""
        return {id(part): part for part in self.parts}

    @property
    def initial_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of f at the initial theta: (C n,) arrays."""
        means, variances = zip(*(part.initial_moments for part in self.parts), strict=True)
        return np.concatenate(means), np.concatenate(variances)

    def refresh_data(self) -> None:
        """Read the inputs again."""
        for part in self._distinct.values():
            part.refresh_data()

    def pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient of sum_c <covariance_bar_c, K_c(theta)> + mean_bar' m(theta) in theta."""
        by_mean = np.split(mean_bar, len(self.parts))
        total = np.zeros_like(theta)
        for part in self._distinct.values():
            # The gradient is linear in both bars, so those that belong to one part are added first.
            own = [number for number, other in enumerate(self.parts) if other is part]
            # The elements above the diagonals are arbitrary.
            with np.errstate(all="ignore"):
                covariance = np.sum(covariance_bar[own], axis=0)
            mean = np.sum([by_mean[number] for number in own], axis=0)
            total += part.pullback(theta, covariance, mean)
        return total

    def compile_pullback(self) -> None:
        """Compile :meth:`pullback` now."""
        for part in self._distinct.values():
            part.compile_pullback()

    @property
    def computed(self) -> str:
        """A description of how the covariances are computed; the slower way, if they differ."""
        return next((part.computed for part in self.parts if part.blocked is None), self.parts[0].computed)


def latent_prior(model: pm.Model, latent: LatentVector, theta: ThetaVector) -> LatentPrior | BlockLatentPrior:
    """Return the function from theta to p(f|theta), for one latent vector or several."""
    parts: list[LatentPrior] = []
    for rv, value in zip(latent.variables, latent.values, strict=True):
        mean, covariance = centered(model.replace_rvs_by_values(list(rv.owner.op.dist_params(rv.owner))))
        for row in latent.rows(value):
            own = [_row(mean, row, 1), _row(covariance, row, 2)]
            known = (part for part in parts if equal_computations(own, [part.mean, part.covariance]))
            parts.append(next(known, None) or LatentPrior(value.name, own[0], own[1], theta))
    return BlockLatentPrior(parts) if latent.several else parts[0]


def _row(parameter: TensorVariable, row: int | None, dimensions: int) -> TensorVariable:
    """Return a row of a parameter that has one for each row of its variable, so that equal rows have equal graphs."""
    if row is None or parameter.ndim == dimensions:
        return parameter
    if parameter.type.shape[0] == 1:
        return parameter[0]
    return rewrite([parameter[row]], ("canonicalize", "specialize"), clone=True)[0]
