"""Laplace's approximation for any factorizing likelihood, with all systems solved iteratively.

See Cutajar et al. (2016), section 2.2 and the supplement, which solve systems with B = I + W^1/2 K W^1/2. With working
observations z = f + grad / W and noise 1 / W, a step of Newton's method is the Gaussian case: C = K + W^-1,
a = C^-1 (z - m), f = m + K a. Since B^-1 = W^-1/2 C^-1 W^-1/2, conjugate gradients are the same, and residuals in units
of the noise's standard deviations are those of B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmgp.core.approximations.gradients import load_of_motion
from pmgp.core.approximations.laplace import Iterate, damped
from pmgp.core.gaussians.base import SMALLEST_PRECISION, SMALLEST_VARIANCE
from pmgp.core.iterative.gaussian import EvidenceEstimate, IterativeEvidence, joined, product_with
from pmgp.core.iterative.preconditioners import Kernel
from pmgp.core.iterative.probes import Probes
from pmgp.core.iterative.solvers import ConjugateGradients, NotConvergedError, Solution, log_determinant
from pmgp.core.likelihoods.base import SiteLikelihood, slope_of_precision, sound_precision
from pmgp.core.numerics.arrays import check_tolerance, check_whole


@dataclass(frozen=True)
class IterativeLaplace:
    """An estimator of Laplace's log p(y|theta) and its gradient for a K that is never factorized.

    Parameters
    ----------
    tolerance : float
        Newton's method ends when the mean squared change of f falls below this value; squares are multiplied by the
        precisions of the sites plus those of the prior.
    probes : int
        Number of random right-hand sides for traces and the log-determinant.
    cap : int
        Largest number of iterations of conjugate gradients.
    max_iterations : int
        Largest number of iterations of Newton's method; if they do not suffice, there is no estimate.

    Notes
    -----
    The gradient is unbiased up to the solvers' tolerances. One more linear system gives the change of the mode with all
    elements of theta.
    """

    tolerance: float = 1e-8
    probes: int = 8
    cap: int = 1000
    max_iterations: int = 50

    def __post_init__(self) -> None:
        check_tolerance(self.tolerance)
        check_whole(max_iterations=self.max_iterations)
        _ = self._traces

    def estimate(
        self, rng: np.random.Generator, kernel: Kernel, mean: np.ndarray, likelihood: SiteLikelihood, points: np.ndarray
    ) -> EvidenceEstimate:
        """Return an estimate of the evidence, with its gradient.

        Parameters
        ----------
        mean : (n,) array
            m.
        points : (m,) array of int
            Rows of K from which the preconditioner is made.

        Raises
        ------
        NotConvergedError, IndefiniteMatrixError
            If a system or Newton's method does not converge; then there is no estimate.
        """
        probes = Probes(kernel, points)
        mode = self.mode(kernel, mean, likelihood, probes)
        precision = _precision(likelihood, mode.f, kernel.diagonal())
        noise = 1.0 / precision
        P, product = probes.preconditioner(noise), product_with(kernel.product, noise)
        w = P.sample(rng, self.probes)
        solved = self._traces.solved_probes(product, P, w, None)
        determinant = log_determinant(solved, P)
        variances = noise - noise**2 * probes.inverse_diagonal(P, w, solved.x)
        # The gradient of -log|B|/2 in the mode, and in a shift of the mode that K partly undoes.
        near = 1.0 / (precision + 1.0 / kernel.diagonal())
        by_mode = -0.5 * variances * slope_of_precision(likelihood, mode.f, near)

        def moved(v: np.ndarray) -> Solution:
            return self._solver.solve(product, (noise * v)[:, None], P, units=np.sqrt(noise)[:, None])

        def posterior_product(v: np.ndarray) -> np.ndarray:
            return kernel.product(moved(v).x)[:, 0]

        load = load_of_motion(posterior_product, by_mode, precision, likelihood.curvature(mode.f))
        shifted = moved(load)
        a, by_shift = mode.a, shifted.x[:, 0]
        pairs = np.column_stack([0.5 * a, by_shift]), np.column_stack([a, a])
        bar = joined(pairs, probes.inverse(P, w, solved.x), np.zeros_like(a))._replace(noise=np.zeros_like(a))
        value = mode.objective - 0.5 * (determinant.value + float(np.log(precision).sum()))
        iterations = int(max(solved.iterations.max(), shifted.iterations.max()))
        return EvidenceEstimate(value, 0.5 * determinant.standard_error, bar, a + by_shift, a, iterations)

    def mode(self, kernel: Kernel, mean: np.ndarray, likelihood: SiteLikelihood, probes: Probes) -> Iterate:
        """Return the mode of p(f|y, theta), found with Newton's method from m."""
        variance = kernel.diagonal()
        current = Iterate(mean, np.zeros_like(mean), float(likelihood.log_likelihood(mean)))
        for _ in range(self.max_iterations):
            precision = _precision(likelihood, current.f, variance)
            reached = self._step(kernel, mean, likelihood, probes, current, precision)
            change = float(np.mean((precision + 1.0 / variance) * np.square(reached.f - current.f)))
            current = damped(likelihood, mean, current, reached)
            if change < self.tolerance:
                return current
        raise NotConvergedError(
            f"Newton's method has not found the mode of f: after {self.max_iterations} iterations the mean squared "
            f"change is {change:.3g}, and the tolerance is {self.tolerance:.3g}. There is no value. Use a larger "
            "max_iterations or a larger tolerance"
        )

    def _step(
        self,
        kernel: Kernel,
        mean: np.ndarray,
        likelihood: SiteLikelihood,
        probes: Probes,
        current: Iterate,
        precision: np.ndarray,
    ) -> Iterate:
        noise, target = 1.0 / precision, current.f - mean + likelihood.gradient(current.f) / precision
        solution = self._solver.solve(
            product_with(kernel.product, noise),
            target[:, None],
            probes.preconditioner(noise),
            units=np.sqrt(noise)[:, None],
            start=current.a[:, None],
        )
        a = solution.x[:, 0]
        # K a, without another product.
        deviation = target - noise * a - solution.residual[:, 0]
        return Iterate.at(likelihood, mean, mean + deviation, a)

    @property
    def _solver(self) -> ConjugateGradients:
        # A step's error in f, in posterior deviations, must be far below the change at which Newton's method ends.
        return ConjugateGradients(0.1 * np.sqrt(self.tolerance), self.cap)

    @property
    def _traces(self) -> IterativeEvidence:
        return IterativeEvidence(probes=self.probes, cap=self.cap)


def _precision(likelihood: SiteLikelihood, f: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the curvature, replaced with the Fisher information where it is not positive."""
    precision = sound_precision(likelihood, f, likelihood.curvature(f))
    return np.maximum(precision, SMALLEST_PRECISION / np.maximum(variance, SMALLEST_VARIANCE))
