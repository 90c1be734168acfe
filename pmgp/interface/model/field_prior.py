"""p(f|theta) of a field on areas or on a mesh, with a sparse precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from scipy import sparse

from pmgp.core.markov import PrecisionPrior
from pmgp.interface.model.fields import field_of, value_of
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.markov import SeriesPrior
from pmgp.interface.model.theta_vector import ThetaVector


class FieldPrior(SeriesPrior):
    """The function from theta to p(f|theta) for a field f.

    Parameters that must be constant, such as neighbors, may not depend on hyper-parameters.
    """

    kind = "field"
    computed = "not needed: the field has a sparse precision"

    def __init__(self, model: pm.Model, latent: LatentVector, theta: ThetaVector) -> None:
        [rv] = latent.variables
        constants = field_of(rv).constants(rv)
        for reason, graph in constants.items():
            if theta.elements_of(model.replace_rvs_by_values([graph])):
                raise ModelError(f"the field {latent.name!r} cannot be f: {reason}")
        self._constants, self._structure = list(constants.values()), field_of(rv).structure(rv)
        self._read: list[Any] | None = None
        self.needs = field_of(rv).needs
        super().__init__(model, latent, theta)

    def __call__(self, theta: np.ndarray) -> PrecisionPrior:
        """Return p(f|theta), with NaN in its precision where parameters are impossible."""
        return self._given(*(np.asarray(one, dtype=float) for one in self._parameters_at(theta)))

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them."""
        constants = [value_of(one) for one in self._constants]
        if self._read is None or not all(map(_same, self._read, constants)):
            try:
                self._given = self._structure(*constants)
            except ValueError as error:
                raise ModelError(f"the field {self.name!r} is impossible: {error}") from error
            self._read = constants
        super().refresh_data()


def _same(one: Any, other: Any) -> bool:
    """Return whether two dense or sparse matrices are equal."""
    if sparse.issparse(one) or sparse.issparse(other):
        return one.shape == other.shape and abs(sparse.csc_array(one) - sparse.csc_array(other)).sum() == 0.0
    return one is other or np.array_equal(one, other)
