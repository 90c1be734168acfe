"""Lattices and meshes in the plane: the areas of their nodes, and integrals of products of gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from pmgp.core.numerics.arrays import is_whole, refuse_masked

# Points that are this near to an edge, in cells, are on it.
NEAR = 1e-6


@dataclass(frozen=True, eq=False)
class Mesh:
    """A mesh in the plane, given as the two matrices of its finite elements.

    Parameters
    ----------
    mass : (m, m) sparse array or (m,) array
        C, the integrals of products of the nodes' basis functions. If it is a matrix, its rows are summed.
    stiffness : (m, m) sparse array
        G, the integrals of products of the gradients of the basis functions.

    Raises
    ------
    ValueError
        For matrices of different sizes, areas that are not positive, and a stiffness that is not finite, symmetric and
        positive semi-definite.

    Examples
    --------
    Three nodes in a row:

    >>> import numpy as np, pmgp
    >>> G = np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    >>> pmgp.gp.Mesh([0.5, 1.0, 0.5], G).size
    3
    """

    mass: Any
    stiffness: Any

    def __post_init__(self) -> None:
        given: Any = self.mass if sparse.issparse(self.mass) else np.asarray(self.mass, dtype=float)
        areas = np.asarray(given.sum(axis=1)).ravel() if given.ndim == 2 else given
        stiffness = sparse.csc_array(self.stiffness, dtype=np.float64)
        if stiffness.shape != (len(areas), len(areas)):
            raise ValueError(
                f"C and G must have a row and a column for each node, not the shapes {given.shape} and "
                f"{stiffness.shape}"
            )
        _refuse_areas(areas)
        _refuse_stiffness(stiffness)
        object.__setattr__(self, "mass", areas)
        object.__setattr__(self, "stiffness", stiffness)

    @property
    def size(self) -> int:
        """Number of nodes m."""
        return len(self.mass)

    def at(self, points: Any) -> Any:
        """Return the given projection: (k, m), sparse.

        Raises
        ------
        ValueError
            For anything but a sparse array with one column for each node, for weights that are not finite, and for
            points without weights, which are those outside the mesh.
        """
        if not hasattr(points, "tocsr") or points.shape[1] != self.size:
            raise ValueError(
                f"for a mesh, X must be a sparse (k, {self.size}) array with the weights of the nodes for each point, "
                "as returned by fmesher, for example"
            )
        weights = points.tocsr()
        bad = ~np.isfinite(weights.sum(axis=1)) | (abs(weights).sum(axis=1) == 0.0)
        if bad.any():
            raise ValueError(
                f"row {np.flatnonzero(bad)[0]} of X has weights that are zero or not finite, as {bad.sum()} of "
                f"{len(bad)} rows do: these points lie outside the mesh"
            )
        return weights


@dataclass(frozen=True, eq=False)
class Lattice:
    """A lattice of rectangular cells in the plane, with a border around it; the nodes are the cells' centers.

    A field on a lattice has twice its variance at an edge, and four times its variance at a corner. A border as wide as
    the distance over which the field is correlated keeps these effects away from the data.

    Parameters
    ----------
    shape : (int, int)
        Numbers of cells along the first and the second coordinate, without the border.
    spacing : float or (float, float)
        Sides of a cell.
    origin : (float, float)
        Corner with the smallest coordinates of the lattice without the border.
    border : int
        Number of cells that are added on each side.

    Raises
    ------
    ValueError
        For a shape that is not two whole numbers of 1 or more, a border that is not a whole number of 0 or more, and a
        spacing that is not positive and finite.

    Examples
    --------
    >>> import pmgp
    >>> lattice = pmgp.gp.Lattice((4, 3), spacing=0.5, border=2)
    >>> lattice.size, int(lattice.interior.sum())
    (56, 12)
    """

    shape: tuple[int, int]
    spacing: Any = 1.0
    origin: tuple[float, float] = (0.0, 0.0)
    border: int = 0

    def __post_init__(self) -> None:
        if np.shape(self.shape) != (2,) or not all(is_whole(number) for number in self.shape):
            raise ValueError(
                f"a lattice needs two whole numbers of cells, one row and one column at least, not {self.shape}"
            )
        if not is_whole(self.border, 0):
            raise ValueError(f"the border must be a number of cells, 0 or more, not {self.border}")
        object.__setattr__(self, "spacing", _sides(self.spacing))

    @classmethod
    def around(cls, points: Any, spacing: Any, border: float) -> Lattice:
        """Return a lattice that covers points, with a border of at least the given width.

        Parameters
        ----------
        points : (k, 2) array
        spacing : float or (float, float)
            Sides of a cell.
        border : float
            Width of the border, in the units of the points.

        Raises
        ------
        ValueError
            If there are no points, or if some are masked, not finite, or without two coordinates; for a border that is
            negative or not finite, and a spacing that is not positive and finite.

        Examples
        --------
        >>> import numpy as np, pmgp
        >>> points = np.random.default_rng(1).uniform(0, 10, (50, 2))
        >>> pmgp.gp.Lattice.around(points, spacing=0.5, border=3.0).border
        6
        """
        points, spacing = _points(points), _sides(spacing)
        if not len(points):
            raise ValueError("a lattice around points needs one point at least")
        if not 0.0 <= border < np.inf:
            raise ValueError(f"border must be 0 or more, and finite, not {border}")
        low, high = points.min(axis=0), points.max(axis=0)
        cells = np.maximum(np.ceil((high - low) / spacing), 1.0)
        origin = 0.5 * (low + high - cells * spacing)
        width = int(np.ceil(border / spacing.min()))
        return cls((int(cells[0]), int(cells[1])), spacing, (float(origin[0]), float(origin[1])), width)

    @property
    def extended(self) -> tuple[int, int]:
        """Number of cells along each coordinate, with the border."""
        return self.shape[0] + 2 * self.border, self.shape[1] + 2 * self.border

    @property
    def size(self) -> int:
        """Number of cells m, with the border."""
        return self.extended[0] * self.extended[1]

    @property
    def _first(self) -> np.ndarray:
        """Center of the first cell."""
        return np.asarray(self.origin) + (0.5 - self.border) * self.spacing

    @cached_property
    def centers(self) -> np.ndarray:
        """Center of each cell: (m, 2)."""
        index = np.indices(self.extended).reshape(2, -1).T
        return self._first + index * self.spacing

    @cached_property
    def interior(self) -> np.ndarray:
        """Mask of the cells that are not part of the border: (m,)."""
        inside = np.pad(np.ones(self.shape, dtype=bool), self.border)
        return inside.ravel()

    @property
    def area(self) -> float:
        """Area of a cell."""
        return float(np.prod(self.spacing))

    @property
    def mass(self) -> np.ndarray:
        """Diagonal of C, the area of each node: (m,)."""
        return np.full(self.size, self.area)

    @cached_property
    def stiffness(self) -> Any:
        """The matrix G of products of gradients: (m, m), sparse."""
        (rows, columns), (first, second) = self.extended, self.spacing
        down = sparse.kron(_path(rows), sparse.eye_array(columns))
        across = sparse.kron(sparse.eye_array(rows), _path(columns))
        return sparse.csc_array(second / first * down + first / second * across)

    def at(self, points: Any) -> Any:
        """Return the weights of the cells in bilinear interpolation at points: (k, 2) -> (k, m), sparse.

        Raises
        ------
        ValueError
            For points outside the rectangle that the centers span, and for points that are masked or not finite.
        """
        points = _points(points)
        place = (points - self._first) / self.spacing
        last = np.asarray(self.extended) - 1
        outside = ~((place >= -1e-9) & (place <= last + 1e-9)).all(axis=1)
        if outside.any():
            raise ValueError(
                f"{np.count_nonzero(outside)} of the {len(points)} points lie outside the outermost centers of cells, "
                f"the first at {points[outside][0]}; give the lattice a wider border"
            )
        low = np.clip(np.floor(place).astype(int), 0, np.maximum(last - 1, 0))
        part = np.clip(place - low, 0.0, 1.0)
        rows, columns, weights = [], [], []
        for i in (0, 1):
            for j in (0, 1):
                cell = np.minimum(low + np.array([i, j]), last)
                rows.append(np.arange(len(points)))
                columns.append(cell[:, 0] * self.extended[1] + cell[:, 1])
                weights.append(np.abs(1 - i - part[:, 0]) * np.abs(1 - j - part[:, 1]))
        entries = (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns)))
        found = sparse.csr_array(sparse.coo_array(entries, shape=(len(points), self.size)))
        found.eliminate_zeros()
        return found

    def counts(self, points: Any) -> np.ndarray:
        """Return the number of points in each cell: (k, 2) -> (m,).

        A point on the upper edge of the cells without the border is in the last of them.

        Raises
        ------
        ValueError
            For points that are masked, not finite, or outside the lattice.
        """
        points = _points(points)
        position = (points - self._first) / self.spacing + 0.5
        first, last = self.border, np.add(self.border, self.shape)
        # Rounding may have moved points that are on an edge.
        place = np.where(np.abs(position - last) <= NEAR, last - 1, np.floor(position))
        place = np.where(np.abs(position - first) <= NEAR, first, place)
        wrong = np.flatnonzero(~((place >= 0) & (place < self.extended)).all(axis=1))
        if wrong.size:
            raise ValueError(
                f"{wrong.size} of the {len(points)} points lie outside the lattice, the first at {points[wrong[0]]}: "
                "give it a wider border, or make it with Lattice.around(points, ...)"
            )
        place = place.astype(int)
        return np.bincount(place[:, 0] * self.extended[1] + place[:, 1], minlength=self.size)


def _sides(spacing: Any) -> np.ndarray:
    """Return the two sides of a cell."""
    sides = np.asarray(spacing, dtype=float)
    if sides.shape not in ((), (2,)) or not (np.isfinite(sides) & (sides > 0.0)).all():
        raise ValueError(f"spacing must be one or two positive numbers, not {spacing!r}")
    return np.broadcast_to(sides, 2)


def _points(points: Any) -> np.ndarray:
    """Return points as a (k, 2) array of finite numbers."""
    refuse_masked("points", points)
    points = np.asarray(points, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must have two coordinates, in the shape (k, 2), not {points.shape}")
    wrong = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if wrong.size:
        raise ValueError(f"{wrong.size} of the {len(points)} points are not finite, the first in row {wrong[0]}")
    return points


def _refuse_areas(areas: np.ndarray) -> None:
    """Refuse nodes without an area."""
    wrong = ~(np.isfinite(areas) & (areas > 0.0))
    if wrong.any():
        raise ValueError(
            f"{np.count_nonzero(wrong)} of the {len(areas)} row sums of C are not positive and finite, but they are "
            "the areas of the nodes"
        )


def _refuse_stiffness(stiffness: Any) -> None:
    """Refuse a matrix that cannot consist of integrals of products of gradients."""
    if not np.isfinite(stiffness.data).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(stiffness.data))} elements of G are not finite")
    if abs(stiffness - stiffness.T).max() > 1e-10 * abs(stiffness).max():
        raise ValueError("G is not symmetric")
    negative = np.count_nonzero(stiffness.diagonal() < 0.0)
    if negative or not _is_semidefinite(stiffness):
        found = f"{negative} of the {stiffness.shape[0]} elements of its diagonal are negative"
        raise ValueError(
            f"G is not positive semi-definite{': ' + found if negative else ''}; the integral of a squared gradient "
            "cannot be negative. Give G with positive elements on its diagonal, as fmesher's fm_fem returns it"
        )


def _is_semidefinite(matrix: Any) -> bool:
    """Return whether no eigenvalue is negative, apart from rounding errors of those that are zero.

    By Sylvester's law of inertia, eigenvalues have the signs of the pivots if rows and columns are ordered alike.
    """
    shift = 1e-8 * abs(matrix).max() + np.finfo(float).tiny
    try:
        factor = splu(
            sparse.csc_matrix(matrix + shift * sparse.eye_array(matrix.shape[0])),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # A pivot is zero.
        return False
    return bool((factor.perm_r == factor.perm_c).all() and (factor.U.diagonal() > 0.0).all())


def _path(number: int) -> Any:
    """Return the matrix of the sum of squared differences of neighbors along a line: (number, number), sparse."""
    beside = sparse.diags_array(np.ones((2, number - 1)), offsets=[1, -1], shape=(number, number))
    return sparse.diags_array(np.asarray(beside.sum(axis=0)).ravel()) - beside
