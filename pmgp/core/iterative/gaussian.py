"""log N(y|m, K + diag(noise)) and its gradient from solutions of linear systems, for Gaussian noise.

See Cutajar et al. (2016), section 2.1; here probes are from N(0, P) with control variates, in place of Rademacher
probes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pmgp.core.iterative.bars import CovarianceBar
from pmgp.core.iterative.preconditioners import Kernel
from pmgp.core.iterative.probes import Probes
from pmgp.core.iterative.solvers import ConjugateGradients, Preconditioner, Product, Solution, log_determinant

# The largest residual of a probe's solution, relative to the probe.
PROBE_TOLERANCE = 1e-3


class EvidenceEstimate(NamedTuple):
    """An estimate of a log-evidence, and an unbiased estimate of its gradient.

    `standard_error`: the standard deviation over repetitions with other probes; `covariance`: gradient in K and in the
    noise; `mean` (n,): gradient in m; `weighted` (n,): C^-1 (y - m), which serves for predictions and as a start at a
    nearby theta; `iterations`: the largest number of iterations of conjugate gradients for any right-hand side.
    """

    log_evidence: float
    standard_error: float
    covariance: CovarianceBar
    mean: np.ndarray
    weighted: np.ndarray
    iterations: int


@dataclass(frozen=True)
class IterativeEvidence:
    """An estimator of log N(y|m, C) and its gradient, for C = K + diag(noise) that is never factorized.

    Parameters
    ----------
    tolerance : float
        The largest error of the posterior mean of f, in posterior standard deviations.
    probes : int
        Number of random right-hand sides for traces and the log-determinant.
    cap : int
        Largest number of iterations of conjugate gradients.

    Notes
    -----
    The gradient is unbiased up to the solver's tolerance.
    """

    tolerance: float = 1e-2
    probes: int = 8
    cap: int = 1000

    def __post_init__(self) -> None:
        if self.probes < 2:
            raise ValueError(f"probes must be at least 2 for a standard error, not {self.probes}")
        _ = self._solver

    def estimate(
        self,
        rng: np.random.Generator,
        kernel: Kernel,
        noise: np.ndarray,
        y: np.ndarray,
        points: np.ndarray,
        *,
        start: np.ndarray | None = None,
        checked_by: Product | None = None,
    ) -> EvidenceEstimate:
        """Return an estimate of the evidence of y - m, with its gradient.

        Parameters
        ----------
        noise : (n,) array
        y : (n,) array
            Observations less their mean m.
        points : (m,) array of int
            Rows of K from which the preconditioner is made.
        start : (n,) array, optional
            C^-1 y of a similar system.
        checked_by : callable, optional
            The product with K for recomputing residuals, if the kernel's own is less accurate.

        Raises
        ------
        NotConvergedError, IndefiniteMatrixError
            If `ConjugateGradients` fails; then there is no estimate.
        """
        probes = Probes(kernel, points)
        P = probes.preconditioner(noise)
        w = P.sample(rng, self.probes)
        given = product_with(kernel.product, noise), P
        checked = None if checked_by is None else product_with(checked_by, noise)
        own = self._solver.solve(
            given[0], y[:, None], P, units=np.sqrt(noise)[:, None], start=_column(start), checked_by=checked
        )
        solved = self.solved_probes(*given, w, checked)
        a = own.x[:, 0]
        # 2 a'y - a'C a, whose error is quadratic in that of a.
        quadratic = float(a @ y + a @ own.residual[:, 0])
        determinant = log_determinant(solved, P)
        value = -0.5 * (quadratic + determinant.value + len(y) * np.log(2.0 * np.pi))
        trace = probes.inverse(P, w, solved.x)
        bar = joined((0.5 * a[:, None], a[:, None]), trace, 0.5 * a * a)
        iterations = max(int(own.iterations[0]), int(solved.iterations.max()))
        return EvidenceEstimate(value, 0.5 * determinant.standard_error, bar, a, a, iterations)

    def solved_probes(
        self, product: Product, preconditioner: Preconditioner, w: np.ndarray, checked: Product | None
    ) -> Solution:
        """Return C^-1 w, to a tolerance that is relative to each probe."""
        solver = ConjugateGradients(PROBE_TOLERANCE, self.cap)
        return solver.solve(product, w, preconditioner, units=np.linalg.norm(w, axis=0), checked_by=checked)

    @property
    def _solver(self) -> ConjugateGradients:
        return ConjugateGradients(self.tolerance, self.cap)


def product_with(product: Product, noise: np.ndarray) -> Product:
    """Return the product with C = K + diag(noise), from the product with K."""
    return lambda x: product(x) + noise[:, None] * x


def _column(x: np.ndarray | None) -> np.ndarray | None:
    return None if x is None else x[:, None]


def joined(pair: tuple[np.ndarray, np.ndarray], trace: CovarianceBar, noise: np.ndarray) -> CovarianceBar:
    """Return the bar of pairs of columns and of a gradient in the noise, minus half of a trace."""
    left = np.hstack([pair[0], -0.5 * trace.left])
    right = np.hstack([pair[1], trace.right])
    return CovarianceBar(left, right, trace.points, -0.5 * trace.weights, noise - 0.5 * trace.noise)
