"""The Gaussian process prior at the n inputs, as a dense multivariate normal."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from pmgp.core.gaussians.held import HeldCovariance
from pmgp.core.gaussians.observed import ObservedPrior, observed
from pmgp.core.gaussians.sites import Conditioning, moved_by_kernel
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics import linalg
from pmgp.core.numerics.compiled.loading import vectors

# Jitter relative to the mean prior variance, tried in turn when a factorization fails. The sequence is fixed, so that
# the resulting covariance is a function of theta alone.
RELATIVE_JITTERS = (1e-8, 1e-6, 1e-4)
NO_SITES = np.empty((2, 0))
INDEFINITE = f"the prior covariance stays indefinite with a jitter of {RELATIVE_JITTERS[-1]:g} times its mean variance"


class DensePrior(HeldCovariance):
    """N(f|m, K), whose Cholesky factor is computed when it is first needed, and then kept.

    Parameters
    ----------
    mean : (n,) array
    covariance : (n, n) array
        Fortran order; only the lower triangle is read. It is not copied, and never changed.
    jitter : float
        Amount already added to its diagonal so that it can be factorized, in units of the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from pmgp.core.gaussians import DensePrior
    >>> prior = DensePrior(np.zeros(2), np.array([[4.0, 1.0], [1.0, 2.0]], order="F"))
    >>> draws = prior.sample(np.random.default_rng(1), 20_000)
    >>> bool(abs(draws.var(axis=0) - [4.0, 2.0]).max() < 0.2)
    True
    """

    def __init__(self, mean: np.ndarray, covariance: np.ndarray, jitter: float = 0.0) -> None:
        self.mean = mean
        self.covariance = covariance
        self.jitter = jitter

    @property
    def parts(self) -> tuple[DensePrior, ...]:
        """Priors of the latent vectors: this one alone."""
        return (self,)

    @property
    def variance(self) -> np.ndarray:
        """Prior variances: (n,)."""
        return self.covariance.diagonal()

    @cached_property
    def sites_and_mean(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Empty arrays for the sites b and w, and the mean, as kernels take them."""
        linear, precision, mean = vectors(*NO_SITES, self.mean)
        return linear, precision, mean

    @property
    def is_finite(self) -> bool:
        """Whether mean and covariance are finite; elements above the diagonal may be anything."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(np.tril(self.covariance)).all())

    @cached_property
    def factor(self) -> np.ndarray:
        """Lower Cholesky factor L of K.

        Raises
        ------
        NotPositiveDefiniteError
            If K is indefinite to working precision.
        """
        try:
            return linalg.cholesky(self.covariance)
        except linalg.NotPositiveDefiniteError as error:
            raise linalg.NotPositiveDefiniteError(
                "the prior covariance is not positive definite to working precision; `factorized` returns the prior "
                "with the jitter that it needs"
            ) from error

    @cached_property
    def inverse(self) -> np.ndarray:
        """Lower triangle of K^-1."""
        return linalg.inverse(self.factor)

    def inverted(self) -> DensePrior:
        """Return the prior after computing its inverse, instead of when that is first needed."""
        assert self.inverse.shape == self.covariance.shape
        return self

    def factorized(self) -> DensePrior | None:
        """Return the prior with its factor, with a jitter if it needs one; None if K stays indefinite."""
        return self if self._definite else self._raised

    @cached_property
    def _definite(self) -> bool:
        try:
            return self.factor is not None
        except linalg.NotPositiveDefiniteError:
            return False

    @cached_property
    def _raised(self) -> DensePrior | None:
        """The prior with the smallest jitter that suffices."""
        scale = float(self.variance.mean())
        raised = (self._with_jitter(relative * scale) for relative in RELATIVE_JITTERS)
        return next((prior for prior in raised if prior._definite), None)

    def _with_jitter(self, jitter: float) -> DensePrior:
        covariance = self.covariance.copy(order="F")
        np.einsum("ii->i", covariance)[:] += jitter - self.jitter
        return DensePrior(self.mean, covariance, jitter)

    def scaled(self, ratio: float) -> DensePrior:
        """Return N(m, ratio K); its factor and inverse follow from this prior's if these are known."""
        # Elements above the diagonals are arbitrary.
        with np.errstate(all="ignore"):
            prior = DensePrior(self.mean, ratio * self.covariance, ratio * self.jitter)
            if "factor" in self.__dict__:
                prior.factor = np.sqrt(ratio) * self.factor
            if "inverse" in self.__dict__:
                prior.inverse = self.inverse / ratio
        return prior

    def conditioning(self) -> Conditioning:
        """Return the prior in the form that a search for sites conditions."""
        return Conditioning(self)

    def observed(self, precision: np.ndarray) -> ObservedPrior | None:
        """Condition f on noisy observations, using two factorizations and one inversion."""
        return observed(self, precision)

    def moved(
        self, rng: np.random.Generator, f: np.ndarray, value: float, likelihood: Likelihood, auxiliary: np.ndarray
    ) -> tuple[np.ndarray, float, int] | None:
        """Move f on an ellipse with a kernel."""
        # A derived class may have another log-ratio.
        if type(self).log_ratio is not DensePrior.log_ratio:
            return None
        return moved_by_kernel(self.sites_and_mean, rng, f, value, likelihood, auxiliary)

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Return L e for each row e of standard normals: (size, n) -> (size, n)."""
        return linalg.triangular_product(self.factor, normals.T).T

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """Return L^-1 (f - m) for f of shape (n,), or for several f as rows: (k, n)."""
        deviation = f - self.mean
        if deviation.ndim == 1:
            return linalg.triangular_solve(self.factor, deviation)
        return linalg.triangular_solve(self.factor, np.asfortranarray(deviation.T)).T

    def deviation(self, nu: np.ndarray) -> np.ndarray:
        """Return L nu for nu of shape (n,)."""
        return linalg.triangular_product(self.factor, nu)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """Return L' g, the gradient in nu of a function whose gradient in f = m + L nu is g: (n,) -> (n,)."""
        return linalg.triangular_product(self.factor, gradient, transpose=True)

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return K^-1 x for x of shape (n,) or (n, k)."""
        return linalg.cholesky_solve(self.factor, x)

    def project(self, cross: np.ndarray) -> np.ndarray:
        """Return L^-1 C for the covariances C of shape (n, k) with other variables."""
        return linalg.triangular_solve(self.factor, np.asfortranarray(cross))

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return K x for x of shape (n,) or (n, k)."""
        return linalg.symmetric_product(self.covariance, x)

    def ordered_factor(self, diagonal: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Return the lower Cholesky factor of K + diag(diagonal), with rows and columns in the given order: (n, n)."""
        matrix = linalg.symmetrized(self.covariance)
        np.einsum("ii->i", matrix)[:] += diagonal
        return linalg.cholesky(np.asfortranarray(matrix[np.ix_(order, order)]), overwrite=True)

    def log_density(self, f: np.ndarray) -> float:
        """Return log N(f|m, K) for f of shape (n,)."""
        nu = self.whiten(f)
        return -0.5 * float(nu @ nu + self.size * np.log(2.0 * np.pi) + linalg.log_determinant(self.factor))

    def log_density_gradient(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients of log N(f|m, K) in K and m: (a a' - K^-1) / 2, both triangles, and a = K^-1 (f - m)."""
        weighted = self.solve(f - self.mean)
        return 0.5 * (np.outer(weighted, weighted) - linalg.symmetrized(self.inverse)), weighted

    def unwhitening_gradient(self, nu: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient in K, both triangles, of a function whose gradient in f = m + L nu is g."""
        return linalg.cholesky_pullback(self.factor, gradient, nu)

    def unwhitening_changes(self, nu: np.ndarray, changes: np.ndarray) -> np.ndarray:
        """Return the change of L nu for each of p symmetric changes of K: (p, n, n) -> (p, n)."""
        return linalg.cholesky_pushforward(self.factor, changes, nu)

    def fisher_information(self, means: np.ndarray, covariances: Iterable[np.ndarray]) -> np.ndarray:
        """Return the Fisher information of N(m, K) about parameters, from the derivatives of m and K in each of them.

        It is tr(K^-1 dK_i K^-1 dK_j) / 2 + dm_i' K^-1 dm_j: a product of n x n matrices for each parameter.

        Parameters
        ----------
        means : (p, n) array
        covariances : p arrays of shape (n, n)
        """
        # A weight of one class does not change the covariance of another.
        changing = {number: change for number, change in enumerate(covariances) if change.any()}
        traces = np.zeros((len(means), len(means)))
        if changing:
            products = [linalg.matrix_product(self.inverse, change) for change in changing.values()]
            traces[np.ix_(list(changing), list(changing))] = linalg.product_traces(np.array(products))
        return 0.5 * traces + means @ self.solve(means.T)

    def precision_product(self, x: np.ndarray) -> np.ndarray:
        """Return K^-1 x using the inverse, for many x of shape (n,)."""
        return linalg.symmetric_product(self.inverse, x)

    def precision_factor(self, information: np.ndarray) -> np.ndarray | None:
        """Return the lower Cholesky factor of K^-1 + diag(information); None if that is not positive definite."""
        metric = self.inverse.copy(order="F")
        np.einsum("ii->i", metric)[:] += information
        try:
            return linalg.cholesky(metric, overwrite=True)
        except linalg.NotPositiveDefiniteError:
            return None
