"""f of a model whose linear predictors are sums of latent pieces: the pieces x, and their sums A x.

Each piece in x includes the hyper-parameters that multiply it, as in sigma * s[area] or chol @ z. So the prior of x has
the scale or the map, and A consists of data alone. f holds x first, and then each distinct sum in A x that is not an
element of x. So a draw of f contains the pieces, and observations with equal rows of A share an element.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable
from scipy import sparse

from pmgp.interface.model.coupled_predictors import CoupledPredictors, UnmatchedError, coupled_predictors
from pmgp.interface.model.distinct_rows import distinct_rows
from pmgp.interface.model.effects import is_standard
from pmgp.interface.model.images import image_of
from pmgp.interface.model.latent_variable import ModelError, is_dense
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.linear_nodes import predictors
from pmgp.interface.model.linear_predictor import Leaf, LinearPredictor
from pmgp.interface.model.theta_maps import ThetaMap
from pmgp.interface.model.theta_vector import ThetaVector


class PredictorValues:
    """A x, with an element for each predictor, as the vector that a likelihood's graph takes."""

    number = 1
    several = False

    def __init__(self, latent: LatentPieces) -> None:
        self.vector, self.write, self._latent = latent.vector, latent.write, latent

    def of(self, f: np.ndarray) -> np.ndarray:
        """Return A x given f: (..., n) -> (..., N)."""
        return self._latent.shared.predictors(f)

    def variances(self, variance: np.ndarray) -> np.ndarray:
        """Return the variances of A x, from those of f: (N,)."""
        return self._latent.shared.predictors(variance)


class LatentPieces:
    """The latent variables of a model whose likelihood is a function of linear predictors of them.

    It takes the place of a `LatentVector`. With x the m elements of all pieces, f is D x, where the `design` D is the
    identity with the sums below it; `shared` has the element of f that each predictor is. If observations have several
    predictors, f is x, and `coupled` has the predictors; `unmatched` says whether those of an observation could not be
    found. x has the images of the variables in `maps`. `dense` says whether one of them has a covariance matrix; then f
    is x too, however many predictors observations have.
    """

    number = 1
    several = False

    def __init__(
        self,
        model: pm.Model,
        variables: list[TensorVariable],
        point: dict[str, np.ndarray],
        terms: list[TensorVariable],
        theta: ThetaVector,
    ) -> None:
        self.variables = variables
        self.values = [model.rvs_to_values[variable] for variable in variables]
        self.shapes = {value.name: np.shape(point[value.name]) for value in self.values}
        self._sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        self._theta = theta
        self.maps: dict[str, ThetaMap] = {}
        self.predictors: PredictorValues | CoupledPredictors
        self.unmatched = False
        self.dense = any(map(is_dense, variables))
        self.leaves = [self._leaf(model, rv, point, terms) for rv in variables]
        self.predictor, self.coupled = self._found(terms)
        self.vector, self.write = self.predictor.vector, self.predictor.write
        self.predictors = PredictorValues(self) if self.coupled is None else self.coupled
        self._rows: Any = None
        self.refresh_data()

    def _found(self, terms: list[TensorVariable]) -> tuple[LinearPredictor, CoupledPredictors | None]:
        """Return the predictors, and their places if observations have several."""
        nodes, tried = [leaf.node for leaf in self.leaves], []
        for apart in (False, True):
            found = predictors(terms, nodes, self._theta.values, apart)
            tried.append(LinearPredictor(found, self.leaves, self._theta))
            try:
                return tried[-1], coupled_predictors(tried[-1], terms, always=self.dense)
            except UnmatchedError:
                continue
        self.unmatched = True
        return tried[0], None

    def _leaf(
        self, model: pm.Model, rv: TensorVariable, point: dict[str, np.ndarray], terms: list[TensorVariable]
    ) -> Leaf:
        """Return a variable, or its image if hyper-parameters map it."""
        value = model.rvs_to_values[rv]
        others = [one for one in (*self._theta.values, *self.values) if one is not value]
        found = image_of(terms, value, others, point) if is_standard(model, rv) else None
        if found is None:
            return Leaf(value.name, value, point[value.name])
        node, columns, rows, shape = found
        self.maps[value.name] = ThetaMap(node, value, columns, rows, self.shapes[value.name], self._theta)
        return Leaf(value.name, node, np.zeros(shape))

    def single(self, model: pm.Model, rv: TensorVariable) -> LatentVector:
        """Return a latent vector of one of the variables."""
        name = model.rvs_to_values[rv].name
        return LatentVector(model, [rv], {name: np.zeros(self.shapes[name])})

    def refresh_data(self) -> None:
        """Compute A again, as `pymc.set_data` may have changed it."""
        for each in self.maps.values():
            each.refresh_data()
        rows = self.predictor.design()
        if self._rows is None or not _equal(rows, self._rows):
            self._rows = rows
            if self.coupled is None:
                self.design, self.shared = distinct_rows(rows)
            else:
                self.coupled.refresh(rows)
                self.design, self.shared = sparse.eye_array(rows.shape[1], format="csr"), self.coupled.shared

    @property
    def rows(self) -> Any:
        """A, a sparse array with a row for each predictor."""
        return self._rows

    @property
    def name(self) -> str:
        """The names of the variables, for errors."""
        return ", ".join(self.names)

    @property
    def names(self) -> list[str]:
        """The names of the value variables, which are those of the variables."""
        return list(self.shapes)

    @property
    def alike(self) -> list[Any]:
        """The places of predictors that a level shifts alike: all of them, or those in each of several rows."""
        return [slice(None)] if self.coupled is None else self.coupled.alike

    @property
    def alone(self) -> list[np.ndarray]:
        """The places in f on which the predictors depend, for each of several predictors of an observation."""
        if self.coupled is None:
            return [np.arange(self.design.shape[0])]
        return [np.unique(rows.indices) for rows in self.coupled.rows]

    def in_words(self) -> str:
        """Return a sentence about the variables that are integrated out."""
        return f"Integrated out, in linear predictors: {self.name}. Choose others with latent=[...]"

    @property
    def lengths(self) -> dict[str, int]:
        """The number of elements of each variable, by name."""
        return dict(zip(self.names, self._sizes, strict=True))

    def counted_at(self, size: int) -> np.ndarray:
        """Return the index in f, of some size, at which each predictor's terms are counted: (N,)."""
        return self.shared.counted_at

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return f from a point of the model: (n,)."""
        values = [point[name] for name in self.names]
        if not (self.maps or self.predictor.scaled):
            return self.design @ np.concatenate([np.ravel(value) for value in values])
        theta = self._theta.ravel(point)
        return self.design @ (self.predictor.column_scales(theta) * np.concatenate(self.images(theta, values)))

    def images(self, theta: np.ndarray, values: list[np.ndarray]) -> list[np.ndarray]:
        """Return the pieces as vectors, with the images of those that are mapped."""
        return [
            self.maps[name].image(theta, value) if name in self.maps else np.ravel(value)
            for name, value in zip(self.names, values, strict=True)
        ]

    def rounded(self, f: np.ndarray) -> np.ndarray:
        """Return f itself: its variables do not hold it."""
        return f

    def unravel(self, f: np.ndarray, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values of the variables by name and of their types, from f and theta."""
        x = f[: sum(self._sizes)]
        x = x / self.predictor.column_scales(theta) if self.predictor.scaled else x
        parts = zip(self.names, np.split(x, np.cumsum(self._sizes)[:-1]), strict=True)
        found = {name: self.maps[name].preimage(theta, part) if name in self.maps else part for name, part in parts}
        return {v.name: found[v.name].reshape(self.shapes[v.name]).astype(v.dtype) for v in self.values}

    def sites(self, point: dict[str, np.ndarray]) -> int:
        """Return the number of elements of f."""
        return int(self.design.shape[0])

    def require_factorizing(self, separate: bool) -> None:
        """Refuse a likelihood some of whose terms depend on several predictors."""
        if separate:
            return
        raise ModelError(
            f"the likelihood does not factorize over linear predictors of {self.name}: some of its terms depend on "
            f"several values of them. {self.predictor.in_words()} Each observation must depend on one value of each "
            "predictor, which is a sum of latent values times data. If an observation has several predictors, such as "
            "a mean and the log of a scale, each must be an array with an element for each observation, as in "
            "exp(b + u[group]). Hyper-parameters may multiply an effect once and before an index, as in tau * u, "
            "(sigma[kind] * u)[group] and (chol @ u)[0, group], or they belong in its prior, "
            "pm.Normal('u', 0, tau, shape=G). PyMC's NUTS samples the model as it is"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Replace the variables, which cannot be pickled, with their value variables, which have the same names."""
        return self.__dict__ | {"variables": self.values, "leaves": []}


def _equal(one: Any, other: Any) -> bool:
    return one.shape == other.shape and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("indptr", "indices", "data")
    )
