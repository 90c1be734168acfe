"""Images of latent variables under maps that depend on theta, such as chol @ z, which take the variables' place.

If z is normal, then so is its image u = M(theta) z, and predictors are sums of elements of u with coefficients that are
data.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.theta_vector import ThetaVector


class ThetaMap:
    """The image of a latent variable, u = M(theta) z, in blocks: M maps some elements of z to as many of u.

    `columns` and `rows`, (blocks, k), are the places of each block's elements in z, and in u. The shape is that of z,
    and `elements` are the elements of theta that M depends on.
    """

    def __init__(
        self,
        node: TensorVariable,
        value: TensorVariable,
        columns: np.ndarray,
        rows: np.ndarray,
        shape: tuple[int, ...],
        theta: ThetaVector,
    ) -> None:
        self.columns, self.rows, self.elements = columns, rows, theta.elements_of([node])
        probes = [np.isin(np.arange(columns.size), column).reshape(shape) for column in columns.T]
        images = [clone_replace([node], {value: pt.constant(probe.astype(value.dtype))})[0] for probe in probes]
        self._images_at = theta.compile_small([image.astype("float64") for image in images])

    def blocks(self, theta: np.ndarray) -> np.ndarray:
        """Return the blocks of M: (blocks, k, k)."""
        images = [np.asarray(image).ravel()[self.rows] for image in self._images_at(theta)]
        return np.stack(images, axis=-1)

    def image(self, theta: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return u from z: (m,)."""
        return self._moved(self.blocks(theta), z, self.columns, self.rows)

    def preimage(self, theta: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return z from u: (m,)."""
        return self._moved(inverses(self.blocks(theta)), u, self.rows, self.columns)

    def of_elements(self, chosen: np.ndarray) -> np.ndarray:
        """Return which elements of u depend only on the chosen elements of z: (m,) array of bool."""
        found = np.empty(chosen.size, dtype=bool)
        found[self.rows] = chosen[self.columns].all(axis=1, keepdims=True)
        return found

    def refresh_data(self) -> None:
        """Read the data again."""
        self._images_at.refresh_data()

    @staticmethod
    def _moved(blocks: np.ndarray, x: np.ndarray, places: np.ndarray, targets: np.ndarray) -> np.ndarray:
        out = np.empty(x.size)
        out[targets] = np.einsum("gij,gj->gi", blocks, np.ravel(x)[places])
        return out


def inverses(blocks: np.ndarray) -> np.ndarray:
    """Return the inverses of matrices, or NaN if one of them has none."""
    try:
        return np.linalg.inv(blocks)
    except np.linalg.LinAlgError:
        return np.full_like(blocks, np.nan)
