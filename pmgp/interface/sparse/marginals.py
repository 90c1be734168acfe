"""The process at inputs X given u = R v at the inducing inputs: N(mu, gamma), as in equation 8 of the article."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pytensor.tensor as pt
from pymc.gp.cov import BaseCovariance, WhiteNoise
from pymc.gp.util import stabilize
from pytensor.tensor import _as_tensor_variable
from pytensor.tensor.linalg import cholesky, solve_triangular
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.covariance.distances import are_far, centered
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.sparse.inputs import current_value

# The smallest gamma, as a part of the prior variance: at inducing inputs it is zero, and the quadrature divides by its
# square root.
SMALLEST = 1e-12
# Inputs closer than this part of the largest count as equal: rounding loses their squared distance.
SAME = 3e-8


class Marginals(NamedTuple):
    """Independent normal distributions of latent values.

    Attributes
    ----------
    mean, variance : tensor of shape (n,), or (k, n) with k outputs
    """

    mean: TensorVariable
    variance: TensorVariable


@_as_tensor_variable.register(Marginals)
def _refused(marginals: Marginals, *arguments: Any, **kwargs: Any) -> NoReturn:
    """Refuse to stack means and variances, which a distribution outside of `observe` would take for values of f."""
    raise ModelError(
        "a process on inducing inputs is a mean and a variance for each latent value, not a variable. Add observations "
        "of it with gp.observe(name, f, dist=lambda f: pm.Poisson.dist(pm.math.exp(f)), observed=y)"
    )


class InducingInputs:
    """A process with known values at inducing inputs; its outputs share a covariance function or have one each.

    v (m,), or (k, m) with k outputs, are whitened values at Z (m, d). `factors` are the R of each covariance function;
    `jitter` is added to the diagonal of K_uu.
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
        self.factors = [cholesky(stabilize(_inducing_covariance(cov_func, Z), jitter)) for cov_func in cov_funcs]

    @property
    def size(self) -> int:
        """The number of inducing inputs."""
        return int(self.Z.shape[0].eval())

    def moved(self, Z: TensorVariable, v: TensorVariable) -> InducingInputs:
        """Return the same process with other inducing inputs, and other values there."""
        return InducingInputs(self.mean_func, self.cov_funcs, Z, v, self.n_outputs, self.jitter)

    def spread(self, X: Any, factors: TensorVariable) -> TensorVariable:
        """Return the variances of the means if v is normal with covariance C C' for each output, C of shape (m, m)."""
        projections = self.projections(X) * (self.n_outputs if len(self.cov_funcs) == 1 else 1)
        spreads = [pt.square(factors[k].T @ A).sum(axis=0) for k, A in enumerate(projections)]
        return spreads[0] if self.n_outputs == 1 else pt.stack(spreads)

    def marginals(self, X: Any) -> Marginals:
        """Return the mean A'v and the variance diag(K_ff) - colsum(A o A) at each of the inputs, A = R^-1 K_uf."""
        projections = self.projections(X)
        variances = []
        for cov_func, A in zip(self.cov_funcs, projections, strict=True):
            prior = cov_func(X, diag=True)
            variances.append(pt.maximum(prior - pt.square(A).sum(axis=0), SMALLEST * prior))
        return Marginals(self._mean(X, projections), self._for_outputs(variances))

    def joint(self, X: Any) -> tuple[TensorVariable, TensorVariable]:
        """Return the mean, and the covariance K** - A*'A* of the values at all inputs together."""
        projections = self.projections(X)
        covariances = [cov_func(X) - A.T @ A for cov_func, A in zip(self.cov_funcs, projections, strict=True)]
        return self._mean(X, projections), self._for_outputs(covariances)

    def _mean(self, X: Any, projections: list[TensorVariable]) -> TensorVariable:
        if len(projections) == 1:
            return self.mean_func(X) + pt.dot(self.v, projections[0])
        return self.mean_func(X) + pt.stack([pt.dot(self.v[output], A) for output, A in enumerate(projections)])

    def projections(self, X: Any) -> list[TensorVariable]:
        """Return A = R^-1 K_uf for each covariance function."""
        return [
            solve_triangular(factor, _cross_covariance(cov_func, self.Z, X), lower=True)
            for factor, cov_func in zip(self.factors, self.cov_funcs, strict=True)
        ]

    def _for_outputs(self, parts: list[TensorVariable]) -> TensorVariable:
        """Stack the parts of several outputs, or return the part itself for one output."""
        if self.n_outputs == 1:
            return parts[0]
        return pt.stack(parts * self.n_outputs if len(parts) == 1 else parts)


# PyMC computes a squared distance from sums that rounding may make negative, and clips it at zero. With one column of
# inputs JAX puts the clip and its derivative into different loops, rounds twice, and disagrees with itself about the
# side of the clip on which a distance of zero is, so that gradients may be wrong by any amount. Distances of zero are
# therefore avoided.


def _inducing_covariance(cov_func: Any, Z: Any) -> TensorVariable:
    """Return K_uu with the prior variances on its diagonal."""
    points, [covariance] = Z.shape[0], centered([cov_func(Z)])
    return pt.switch(pt.eye(points, dtype=bool), cov_func(Z, diag=True)[:, None], covariance)


def _cross_covariance(cov_func: Any, Z: Any, X: Any) -> TensorVariable:
    """Return K_uf, with the prior variance where an inducing input equals an input in a single column of numbers."""
    [covariance] = centered([cov_func(Z, X)])
    same = None if _has_noise(cov_func) else _coincidence(Z, X)
    return covariance if same is None else pt.switch(same, cov_func(X, diag=True)[None, :], covariance)


def _has_noise(cov_func: Any) -> bool:
    """Return whether a covariance function contains white noise, which different rows do not share."""
    return isinstance(cov_func, WhiteNoise) or any(_has_noise(one) for one in _inner(cov_func))


def _inner(cov_func: Any) -> Iterator[Any]:
    """Yield the covariance functions of which one is made, whatever its class calls them."""
    for value in vars(cov_func).values():
        parts = value if isinstance(value, list | tuple) else [value]
        yield from (part for part in parts if isinstance(part, BaseCovariance))


def _coincidence(Z: Any, X: Any) -> Any:
    """Return which inducing inputs equal which inputs, (m, n); None if none do, with several columns, or if Z moves."""
    inducing, inputs = current_value(Z), current_value(X)
    if inducing is None or inducing.shape[1] != 1:
        return None
    # Where distances are those of centered inputs, less is lost.
    center = inducing.mean() if are_far(inducing) else 0.0
    if inputs is not None and isinstance(Z, pt.TensorConstant) and isinstance(X, pt.TensorConstant):
        same = _close(inducing - center, inputs - center, np)
        return pt.constant(same) if same.any() else None
    return _close(Z - center, X - center, pt)


def _close(Z: Any, X: Any, library: Any) -> Any:
    rows, columns = Z[:, 0][:, None], X[:, 0][None, :]
    return library.abs(rows - columns) <= SAME * library.maximum(library.abs(rows), library.abs(columns))
