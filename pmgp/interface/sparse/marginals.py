"""The process at inputs X given u = R v at the inducing inputs: N(mu, gamma), as the article's equation 8 has it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytensor.tensor as pt
from pymc.gp.util import stabilize
from pytensor.tensor.linalg import cholesky, solve_triangular
from pytensor.tensor.variable import TensorVariable

__all__ = ["InducingInputs", "Marginals"]

# The smallest gamma, as a part of the prior variance: at inducing inputs it is zero, and the quadrature divides by its
# square root.
SMALLEST = 1e-12


class Marginals(NamedTuple):
    """Independent normal distributions of latent values.

    Attributes
    ----------
    mean, variance : tensor of shape (n,), or (k, n) with k outputs
    """

    mean: TensorVariable
    variance: TensorVariable


class InducingInputs:
    """A process that is known at inducing inputs, one covariance function shared by its outputs or one for each.

    Parameters
    ----------
    mean_func : pymc.gp.mean.Mean
    cov_funcs : list of pymc.gp.cov.Covariance
        One, or as many as there are outputs.
    Z : (m, d) tensor
    v : tensor of shape (m,), or (k, m) with k outputs
        Whitened values there.
    n_outputs : int
        k.
    jitter : float
        Added to the diagonal of K_uu.
    """

    def __init__(
        self, mean_func: Any, cov_funcs: list[Any], Z: Any, v: TensorVariable, n_outputs: int, jitter: float
    ) -> None:
        self.mean_func = mean_func
        self.cov_funcs = cov_funcs
        self.Z = Z
        self.v = v
        self.n_outputs = n_outputs
        self.jitter = jitter
        self._factors = [cholesky(stabilize(cov_func(Z), jitter)) for cov_func in cov_funcs]

    @property
    def size(self) -> int:
        """Number of inducing inputs."""
        return int(self.Z.shape[0].eval())

    def moved(self, Z: TensorVariable, v: TensorVariable) -> InducingInputs:
        """The same process with other inducing inputs, and other values there."""
        return InducingInputs(self.mean_func, self.cov_funcs, Z, v, self.n_outputs, self.jitter)

    def averaged(self, X: Any, factors: TensorVariable) -> Marginals:
        """Marginals with v normal about its value, of covariance C C' for each output, C of shape (m, m)."""
        mean, variance = self.marginals(X)
        projections = self.projections(X) * (self.n_outputs if len(self.cov_funcs) == 1 else 1)
        spreads = [pt.square(factors[k].T @ A).sum(axis=0) for k, A in enumerate(projections)]
        return Marginals(mean, variance + (spreads[0] if self.n_outputs == 1 else pt.stack(spreads)))

    def marginals(self, X: Any) -> Marginals:
        """Mean A'v and variance diag(K_ff) - colsum(A o A) at each of the inputs, A = R^-1 K_uf."""
        projections = self.projections(X)
        variances = []
        for cov_func, A in zip(self.cov_funcs, projections, strict=True):
            prior = cov_func(X, diag=True)
            variances.append(pt.maximum(prior - pt.square(A).sum(axis=0), SMALLEST * prior))
        return Marginals(self._mean(X, projections), self._for_outputs(variances))

    def joint(self, X: Any) -> tuple[TensorVariable, TensorVariable]:
        """Mean, and covariance K** - A*'A* of the values at all inputs together."""
        projections = self.projections(X)
        covariances = [cov_func(X) - A.T @ A for cov_func, A in zip(self.cov_funcs, projections, strict=True)]
        return self._mean(X, projections), self._for_outputs(covariances)

    def _mean(self, X: Any, projections: list[TensorVariable]) -> TensorVariable:
        if len(projections) == 1:
            return self.mean_func(X) + pt.dot(self.v, projections[0])
        return self.mean_func(X) + pt.stack([pt.dot(self.v[output], A) for output, A in enumerate(projections)])

    def projections(self, X: Any) -> list[TensorVariable]:
        """A = R^-1 K_uf of each covariance function."""
        return [
            solve_triangular(factor, cov_func(self.Z, X), lower=True)
            for factor, cov_func in zip(self._factors, self.cov_funcs, strict=True)
        ]

    def _for_outputs(self, parts: list[TensorVariable]) -> TensorVariable:
        """What each output has, in a stack; as it is where there is one output."""
        if self.n_outputs == 1:
            return parts[0]
        return pt.stack(parts * self.n_outputs if len(parts) == 1 else parts)
