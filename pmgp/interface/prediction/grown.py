"""Latent pieces that have grown with the model's data: the elements that the posterior has drawn, and new ones.

Later values of a series, and effects of new groups, are independent of the observations given theta and the sampled
elements, so their distribution is the prior conditioned on these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.tensor.variable import TensorVariable
from scipy import linalg, sparse

from pmgp.core.gaussians import DensePrior
from pmgp.core.numerics.linalg import symmetrized
from pmgp.interface.model.dense_sums import DensePart
from pmgp.interface.model.effects import is_correlated, is_normal
from pmgp.interface.model.fields import is_field
from pmgp.interface.model.labels import places_of_labels
from pmgp.interface.model.latent_variable import ModelError, is_dense
from pmgp.interface.model.time_series import is_process, kind_of

# The largest relative difference of steps that count as equal.
UNEVEN = 0.2


def places_in_posterior(model: pm.Model, rv: TensorVariable, shape: tuple[int, ...], drawn: xr.DataArray) -> np.ndarray:
    """Return the place of each element of a variable among its elements in the posterior, or -1 for a new one.

    Elements are the same if their coordinates agree or, for a variable without coordinates, if their numbers agree. A
    series must begin with the sampled elements, and a field must have the same ones.
    """
    dims = model.named_vars_to_dims.get(rv.name) or (None,) * len(shape)
    axes = [one for one in drawn.dims if one not in ("chain", "draw")]
    if len(axes) != len(shape):
        raise ModelError(f"{rv.name!r} has {len(shape)} axes in the model, and {len(axes)} in the posterior")
    found = [_along(model, dim, n, drawn, str(axis)) for dim, n, axis in zip(dims, shape, axes, strict=True)]
    old = np.arange(int(np.prod([drawn.sizes[axis] for axis in axes]))).reshape([drawn.sizes[axis] for axis in axes])
    grid = np.ix_(*found) if found else ()
    new = np.zeros(shape, dtype=bool)
    for place in grid:
        new |= place < 0
    places = np.where(new, -1, old[grid]).ravel()
    if not (is_normal(rv) or is_correlated(rv)):
        _require_growth(rv, places, old.size)
        if not is_dense(rv):
            _refuse_gaps(model, rv, dims[-1], old.size)
    return places


def _along(model: pm.Model, dim: str | None, length: int, drawn: xr.DataArray, axis: str) -> np.ndarray:
    """Return the places along an axis."""
    places = places_of_labels(model, dim, drawn, axis)
    if places is None or len(places) != length:
        return np.where(np.arange(length) < drawn.sizes[axis], np.arange(length), -1)
    return places


def _require_growth(rv: TensorVariable, places: np.ndarray, before: int) -> None:
    if np.array_equal(places[:before], np.arange(before)) and (len(places) == before or _goes_on(rv)):
        return
    if is_dense(rv):
        raise ModelError(
            f"the {before} values of {rv.name!r} in the posterior are not the first ones in the model now: keep the "
            "rows of its inputs, in their order, and add new ones after them"
        )
    raise ModelError(
        f"the {before} values of the {kind_of(rv)} {rv.name!r} in the posterior do not match those in the model now: "
        "pm.AR and pm.GaussianRandomWalk can be continued after their last value if all earlier values stay in their "
        "order. Areas and cells without observations belong in the model that is sampled"
    )


def _refuse_gaps(model: pm.Model, rv: TensorVariable, dim: str | None, before: int) -> None:
    """Refuse labels that number or date times, and go on in other steps than before."""
    labels = np.asarray([] if dim is None or model.coords.get(dim) is None else model.coords[dim])
    if labels.dtype.kind not in "ifM" or not 1 < before < len(labels) or labels[0] == labels[1]:
        return
    steps = np.diff(labels) / (labels[1] - labels[0])
    # Months and quarters differ in length, and floats by rounding.
    other = np.abs(steps - 1.0) > UNEVEN
    if not other[: before - 1].any() and other.any():
        place = int(np.argmax(other))
        raise ModelError(
            f"the labels of {dim!r} go from {labels[place]} to {labels[place + 1]}, in another step than before, but "
            f"each element of {rv.name!r} is one step after the last one: add the labels in between, which need no "
            "observations"
        )


def _goes_on(rv: TensorVariable) -> bool:
    return not (is_field(rv) or is_process(rv))


@dataclass(frozen=True, eq=False)
class GrownPiece:
    """A piece with some known elements, and the function from theta to the prior of all."""

    piece: Any
    known: np.ndarray

    def given(self, theta: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of the new elements, and the lower Cholesky factor of their precision.

        Only the known elements of x (m,) are read.
        """
        block, pattern = self.piece(theta), self.piece.pattern
        upper = sparse.csc_array((block.upper, pattern.indices, pattern.indptr), shape=pattern.shape)
        precision = sparse.csr_array(upper + sparse.triu(upper, k=1).T)
        rows = precision[np.flatnonzero(~self.known)]
        own, cross = rows[:, np.flatnonzero(~self.known)].toarray(), rows[:, np.flatnonzero(self.known)]
        factor = linalg.cholesky(own, lower=True)
        pull = cross @ (x - block.mean)[self.known]
        return block.mean[~self.known] - linalg.cho_solve((factor, True), pull), factor


@dataclass(frozen=True, eq=False)
class GrownProcess:
    """A process with some known values, and the function from theta to the priors of its vectors."""

    part: DensePart
    known: np.ndarray

    def given(self, theta: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of the new values, and the lower Cholesky factor of their precision.

        Only the known values of x (m,) are read.
        """
        parts = self.part(theta, 1.0)
        mean = np.concatenate([one.mean for one in parts])
        covariance = linalg.block_diag(*[symmetrized(one.covariance) for one in parts])
        old, new = np.flatnonzero(self.known), np.flatnonzero(~self.known)
        # In the opposite order of new values, the transposed inverse of their factor is a lower triangle.
        order = np.concatenate([old, new[::-1]])
        prior = DensePrior(mean[order], np.asfortranarray(covariance[np.ix_(order, order)])).factorized()
        if prior is None:
            raise ModelError("the covariance of a process at its old and new inputs is not positive definite")
        factor = np.tril(prior.factor)
        head, own = factor[: len(old), : len(old)], factor[len(old) :, len(old) :]
        moved = factor[len(old) :, : len(old)] @ linalg.solve_triangular(head, (x - mean)[old], lower=True)
        return mean[new] + moved[::-1], linalg.inv(own[::-1, ::-1]).T
