"""Settings of solvers that take the place of a factorization."""

from __future__ import annotations

from dataclasses import dataclass

from pmgp.core.numerics.arrays import check_whole

# Preconditioners of higher rank cost more than the iterations that they save.
LARGEST_RANK = 500
SOLVERS = ("auto", "cholesky", "iterative")


@dataclass(frozen=True)
class Iterative:
    """Linear systems solved with preconditioned conjugate gradients, without a factorization.

    Parameters
    ----------
    tolerance : float
        Largest error of a posterior mean, in posterior standard deviations, and largest relative error of a posterior
        standard deviation.
    rank : int, optional
        Rank of the preconditioner, a partial Cholesky factorization with random pivots. The default is a tenth of the
        number of points, and at most 500.
    cap : int
        Largest number of iterations; if they do not suffice, there is an error and no result.
    probes : int
        Number of random right-hand sides for a gradient, at least 2. Errors fall with the square root of this number.
    memory : float
        Bytes that all arrays together may take, known before the work begins. If there is room for the elements of K,
        4 n^2 bytes, they are not computed again for each product. More bytes also let predictions solve for more new
        inputs at a time.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pmgp
    >>> X = np.linspace(0.0, 5.0, 100)[:, None]
    >>> with pm.Model() as model:
    ...     gp = pm.gp.Marginal(cov_func=pm.gp.cov.Matern52(1, ls=pm.LogNormal("lengthscale", 0.0, 1.0)))
    ...     y = gp.marginal_likelihood("y", X, np.sin(X[:, 0]), sigma=0.1)
    >>> idata = pmgp.importance(model, random_seed=1, progressbar=False)
    >>> solver = pmgp.marginal.Iterative(tolerance=1e-3)
    >>> found = pmgp.predict(idata, [[2.5]], model=model, draws=5, solver=solver, progressbar=False)
    >>> bool(abs(found["mean"][0] - np.sin(2.5)) < 0.05)
    True
    """

    tolerance: float = 1e-2
    rank: int | None = None
    cap: int = 1000
    probes: int = 8
    memory: float = 2e9

    def __post_init__(self) -> None:
        if not 0.0 < self.tolerance < 1.0:
            raise ValueError(f"tolerance must be positive and less than 1, not {self.tolerance}")
        check_whole(cap=self.cap)
        check_whole(2, probes=self.probes)
        if not self.memory > 0.0:
            raise ValueError(f"memory={self.memory!r}: give a positive number of bytes")


def solver_of(given: Iterative | str, size: int, largest: int) -> Iterative | None:
    """Return settings of iterative solvers for n points, or None for a factorization.

    - `given`: settings, or a name of `SOLVERS`; with "auto" a factorization serves up to `largest` points

    Raises ValueError for another name.
    """
    if isinstance(given, Iterative):
        return given
    if given not in SOLVERS:
        raise ValueError(f"solver={given!r}: choose one of {', '.join(SOLVERS)}, or give a pmgp.marginal.Iterative")
    return Iterative() if given == "iterative" or (given == "auto" and size > largest) else None


def suitable_rank(rank: int | None, size: int) -> int:
    """Return the rank of a preconditioner for n points: a tenth of them, and at most 500, if none is given."""
    if rank is None:
        return min(LARGEST_RANK, max(size // 10, 1))
    if not 1 <= rank <= size:
        raise ValueError(f"rank must be at least 1 and at most the number of points, {size}, not {rank}")
    return rank
