"""Several linear predictors of each observation, such as those of its mean and its scale, or of its categories.

Predictors that occur in the same terms stand one below another, in C rows: observation i depends on column i. A table
with more axes than the terms, as one of logits, has a row for each of its columns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy import sparse

from pmgp.core.likelihoods.shared_sites import SharedSites
from pmgp.core.numerics.block_matrices import along_last, flat, stacked
from pmgp.interface.model.distinct_rows import distinct
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.linear_predictor import LinearPredictor

# The most values of a site: each has its own derivatives, and expectations over so many have large errors.
MOST = 32


class UnmatchedError(Exception):
    """It is not known which predictors belong to the same observation, or there are too many."""


class Part(NamedTuple):
    """One predictor of each of some observations.

    `node`: number of the array of predictors; `elements`: their places among all predictors.
    """

    node: int
    elements: np.ndarray


class CoupledPredictors:
    """The predictors of a likelihood whose terms depend on C = `number` of them each.

    `groups` has the parts that stand below one another, and `constant` those that do not depend on the pieces. `rows`
    are the C matrices of the sites, with a row for each distinct column of predictors; `design` has them one below
    another; `shared` has the site of each column.
    """

    several = True

    def __init__(self, predictor: LinearPredictor, groups: list[list[Part]], constant: list[Part]) -> None:
        self._predictor, self._groups, self._constant = predictor, groups, constant
        self.number = max(len(group) for group in groups)
        self._starts = np.cumsum([0, *(group[0].elements.size for group in groups)])
        self.vector = pt.vector("predictors", shape=(self.number * self._length,), dtype="float64")

    @property
    def _length(self) -> int:
        return int(self._starts[-1])

    def write(self, graphs: list[TensorVariable]) -> list[TensorVariable]:
        """Return graphs of the latent values as graphs of `vector`."""
        arrays: dict[int, list[tuple[int, TensorVariable]]] = {}
        for part in self._constant:
            arrays.setdefault(part.node, []).append((part.elements[0], pt.zeros(part.elements.size)))
        blocks, alone = self.vector.reshape((self.number, -1)), len(self._groups) == 1
        for group, (start, end) in zip(self._groups, pairwise(self._starts), strict=True):
            for row, part in enumerate(group):
                # Whole rows, where they are, so that the terms of some observations can be computed alone.
                values = blocks[row] if alone else blocks[row, start:end]
                arrays.setdefault(part.node, []).append((part.elements[0], values))
        written = []
        for node in sorted(arrays):
            columns = [values for _, values in sorted(arrays[node], key=lambda one: one[0])]
            written.append(columns[0] if len(columns) == 1 else pt.stack(columns, axis=1))
        return self._predictor.write(graphs, written)

    def refresh(self, rows: Any) -> None:
        """Read the matrix of all predictors, one array after another: (N, m), sparse.

        Raises ModelError if predictors that were constant have become functions of the pieces.
        """
        if any(rows[part.elements].nnz for part in self._constant):
            raise ModelError(
                "with these data a linear predictor depends on latent variables of which it was independent before: "
                "make the step method again after pm.set_data"
            )
        blocks = [[sparse.csr_array((0, rows.shape[1]))] for _ in range(self.number)]
        for group in self._groups:
            nothing = sparse.csr_array((group[0].elements.size, rows.shape[1]))
            for row, block in enumerate(blocks):
                block.append(rows[group[row].elements] if row < len(group) else nothing)
        joined = [sparse.vstack(block, format="csr") for block in blocks]
        columns = sparse.csr_array(sparse.hstack(joined, format="csr"))
        columns.sort_indices()
        first, found = distinct(columns, np.arange(self._length))
        self.rows = tuple(sparse.csr_array(block[first]) for block in joined)
        self.design = sparse.csr_array(sparse.vstack(self.rows, format="csr"))
        self.shared = SharedSites(found, len(first))

    @property
    def alike(self) -> list[np.ndarray]:
        """The places, among all predictors, of those in each row."""
        rows = [[group[row].elements for group in self._groups if row < len(group)] for row in range(self.number)]
        return [np.concatenate(row) for row in rows]

    def of(self, x: np.ndarray) -> np.ndarray:
        """Return the predictors of all observations, given the pieces: (..., m) -> (..., C N)."""
        return self.of_sites(along_last(self.design, x))

    def variances(self, variance: np.ndarray) -> np.ndarray:
        """Return about the variances of the predictors, from those of the pieces as if these were independent."""
        return self.of_sites(abs(self.design).power(2) @ variance)

    def of_sites(self, g: np.ndarray) -> np.ndarray:
        """Return the predictors of all observations, given those of the sites: (..., C n) -> (..., C N)."""
        return flat(self.shared.predictors(stacked(g, self.shared.sites)))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the graph behind, as only what was compiled from it is needed."""
        return self.__dict__ | {"vector": None}


def coupled_predictors(
    predictor: LinearPredictor, terms: list[TensorVariable], always: bool = False
) -> CoupledPredictors | None:
    """Return the predictors if some terms depend on several, or `always`, and None if not.

    Raises UnmatchedError if those of the same terms are in arrays of different lengths, or more than `MOST`.
    """
    parts = _parts(predictor, terms)
    together = predictor.together(terms)
    if not always and all(sum(len(parts[node]) for node in nodes) == 1 for nodes in together):
        return None
    rows = predictor.design()
    groups = [[part for node in nodes for part in parts[node] if rows[part.elements].nnz] for nodes in together]
    groups = [group for group in groups if group]
    if not groups or (not always and all(len(group) == 1 for group in groups)):
        return None
    if any(len(group) > MOST or len({part.elements.size for part in group}) > 1 for group in groups):
        raise UnmatchedError
    constant = [part for each in parts for part in each if not rows[part.elements].nnz]
    return CoupledPredictors(predictor, groups, constant)


def _parts(predictor: LinearPredictor, terms: list[TensorVariable]) -> list[list[Part]]:
    """Return the parts of each array of predictors: the columns of a table with more axes than its terms, or all."""
    ends, found = np.cumsum([0, *(int(np.prod(shape)) for shape in predictor.shapes)]), []
    for node, (shape, start, end) in enumerate(zip(predictor.shapes, ends[:-1], ends[1:], strict=True)):
        table = len(shape) > max((term.type.ndim for term in terms if node in predictor.arrays_in(term)), default=0)
        elements = np.arange(start, end)
        columns = elements.reshape(-1, shape[-1]).T if table and elements.size else elements[None, :]
        found.append([Part(node, column) for column in columns])
    return found
