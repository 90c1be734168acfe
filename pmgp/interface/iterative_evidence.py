"""Estimates of log p(y|theta) and its gradient from products with the covariance alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm

from pmgp.core.importance import Density
from pmgp.core.iterative.gaussian import EvidenceEstimate, IterativeEvidence
from pmgp.core.iterative.laplace import IterativeLaplace
from pmgp.core.iterative.preconditioners.random_pivots import random_pivots, random_points
from pmgp.core.iterative.settings import suitable_rank
from pmgp.core.iterative.ulisse import Ulisse
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.backends import NumpyTiles, backend_of
from pmgp.interface.covariance.blocked import BlockedCovariance
from pmgp.interface.covariance.tiled import Backend, TiledMoments
from pmgp.interface.graphs.numerical import NumericalFunction
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.iterative_laplace import LaplaceDensity
from pmgp.interface.model.context import current_model
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.normal_evidence import NormalEvidence, with_prior
from pmgp.interface.model.observed_normal import finite_observations, gaussian_observations, observed_normal
from pmgp.interface.model.points import value_point
from pmgp.interface.model.tiled_prior import refuse_constant_inputs


class IterativeLogLikelihood(NamedTuple):
    """An estimate of log p(y|theta), with an unbiased estimate of its gradient.

    Attributes
    ----------
    value : float
    standard_error : float
        Standard error of `value` over repetitions with other probes.
    gradient : dict
        Gradient by name of the value variable, on the unconstrained scale, without the prior's part.
    iterations : int
        Largest number of conjugate gradient iterations for any right-hand side.
    computed : str
        How products with the covariance were computed, in words.
    """

    value: float
    standard_error: float
    gradient: dict[str, np.ndarray]
    iterations: int
    computed: str

    def __repr__(self) -> str:
        """Return the figures without the gradient."""
        return (
            f"IterativeLogLikelihood({self.value:.2f} with standard error {self.standard_error:.2g}, "
            f"after {self.iterations} iterations)"
        )


class IterativeDensity:
    """A model's log N(y|m, K + diag(noise)) as a function of theta, in O(n) memory beside elements of K.

    The model has multivariate normal observations, and no latent values. The default rank of the preconditioner is a
    tenth of the number of points, and at most 500. The backend computes products, NumPy by default.
    """

    def __init__(
        self,
        model: pm.Model,
        rank: int | None = None,
        method: IterativeEvidence | None = None,
        backend: Backend | None = None,
        compile_kwargs: dict[str, Any] | None = None,
    ) -> None:
        observed = gaussian_observations(model)
        if observed is None:
            raise ModelError(
                "the model has no multivariate normal observations, such as those of pm.gp.Marginal, or has latent "
                "values"
            )
        refuse_constant_inputs(model)
        parts = observed_normal(model, observed, compile_kwargs)
        backend = NumpyTiles() if backend is None else backend
        try:
            self._covariance = backend.covariance(model, parts.theta, parts.mean, parts.covariance)
        except UnsupportedGraphError as error:
            raise ModelError(f"the covariance of {observed.name!r} cannot be computed in tiles: {error}") from error
        self.theta, self._theta_prior = parts.theta, parts.theta_prior
        self._name, self._given_rank = str(observed.name), rank
        self._observations = NumericalFunction([], [model.rvs_to_values[observed]])
        self._read_observations()
        self._method = IterativeEvidence() if method is None else method

    @property
    def size(self) -> int:
        """The number of observations n."""
        return len(self._y)

    @property
    def computed(self) -> str:
        """How the last products were computed, in words."""
        return f"in tiles, {self._covariance.computed}"

    def estimate(
        self, rng: np.random.Generator, theta: np.ndarray, points: np.ndarray | None = None
    ) -> EvidenceEstimate:
        """Estimate the log-density of y, with points for the preconditioner that are given, or drawn at theta.

        There is no value if the solver fails.
        """
        moments = self._noisy(theta)
        kernel, exact = self._covariance.quick_kernel(moments), moments.kernel.product
        if points is None:
            points = random_points(kernel, self.rank, rng)
        y = self._y - moments.mean
        return self._method.estimate(rng, kernel, moments.noise, y, points, checked_by=exact)

    def points(self, rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        """Return points for the preconditioner that are drawn at theta: (m,)."""
        return random_points(self._noisy(theta).kernel, self.rank, rng)

    def refresh_data(self) -> None:
        """Read the inputs and the observations again, as `pymc.set_data` may have changed them."""
        self._covariance.refresh_data()
        self._observations.refresh_data()
        self._read_observations()

    def _read_observations(self) -> None:
        [y] = self._observations()
        self._y = finite_observations(self._name, y)
        if self._y.size < 2:
            raise ModelError(
                "one observation is too few for iterative solvers: give solver='cholesky' to pmgp.find_map; log "
                f"p(y|theta) is model.compile_logp(model[{self._name!r}])(point)"
            )
        self.rank = suitable_rank(self._given_rank, len(y))

    def stochastic_gradient(self, rng: np.random.Generator, theta: np.ndarray, method: Ulisse) -> np.ndarray:
        """Return an unbiased estimate of the gradient of log p(theta) p(y|theta), of shape (dimension,)."""
        moments = self._noisy(theta)
        preconditioner = random_pivots(moments.kernel, moments.noise, self.rank, rng)
        found = method.gradient(rng, moments.kernel, moments.noise, self._y - moments.mean, preconditioner)
        by_data = self._covariance.pullback_of_bar(theta, found.covariance, found.mean)
        return self._theta_prior.gradient(theta) + by_data

    def log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p(theta) on the unconstrained scale, and its gradient."""
        return self._theta_prior(theta), self._theta_prior.gradient(theta)

    def of_rows(self, rows: np.ndarray, probed: bool = False) -> Density:
        """Return log p(theta) plus the log-density of some observations, and its gradient, from factorizations.

        The numbers of the observations differ. If the gradient is `probed`, it is an estimate, in less time. Raises
        ModelError if tiles are computed from a covariance function.
        """
        if not isinstance(self._covariance, BlockedCovariance):
            raise ModelError(
                "tiles from JaxTiles(cov_func=...) have no density of some observations: leave cov_func out"
            )
        exact = NormalEvidence.of_rows(self._y, self._covariance, rows)
        evidence = exact.probed() if probed else exact

        def density(theta: np.ndarray) -> tuple[float, np.ndarray]:
            return with_prior(theta, self._theta_prior, evidence)

        return density

    def _noisy(self, theta: np.ndarray) -> TiledMoments:
        """Return the mean and the parts of the covariance; refuse a covariance without noise."""
        moments = self._covariance.moments(theta)
        if not np.all(moments.noise > 0.0):
            raise ModelError(
                "the graph of the covariance does not end with an addition to the diagonal, but solvers need noise "
                "there: give pm.gp.Marginal a noise, or a jitter"
            )
        return moments

    def gradient(self, theta: np.ndarray, found: EvidenceEstimate) -> np.ndarray:
        """Return the gradient in theta that belongs to an estimate at theta, of shape (dimension,)."""
        return self._covariance.pullback_of_bar(theta, found.covariance, found.mean)


def iterative_log_likelihood(
    model: pm.Model | None = None,
    point: dict[str, Any] | None = None,
    *,
    probes: int = 8,
    tolerance: float = 1e-2,
    rank: int | None = None,
    cap: int = 1000,
    backend: str | Backend = "numpy",
    random_seed: Any = None,
    compile_kwargs: dict[str, Any] | None = None,
) -> IterativeLogLikelihood:
    """Estimate log p(y|theta) and its gradient without a factorization.

    With multivariate normal observations the value is that of the model. With latent values f it is Laplace's
    approximation, for any likelihood that factorizes over f and has no hyper-parameters. Preconditioned conjugate
    gradients solve the linear systems, with products of the covariance computed in tiles. Estimates of traces are
    unbiased, and Lanczos quadrature gives the log-determinant. The time is that of a few dozen to a few hundred
    products, each O(n^2), for each step of Newton's method if there are latent values. The memory is O(n rank), and in
    addition 4 n^2 bytes for the elements of K if these are kept.

    Parameters
    ----------
    model : pymc.Model, optional
        Model with multivariate normal observations, such as those of `pymc.gp.Marginal`, or with one latent vector. The
        model on the context stack by default.
    point : dict, optional
        Values of the hyper-parameters by name, as in :func:`pmgp.marginal.log_likelihood`.
    probes : int
        Number of random right-hand sides, at least 2. Errors fall with its square root.
    tolerance : float
        Largest error of the posterior mean of f, in posterior standard deviations. With latent values, also the root
        mean square change of f at which Newton's method ends.
    rank : int, optional
        Rank of the preconditioner, a partial Cholesky factorization with random pivots. The default is a tenth of the
        number of points, and at most 500.
    cap : int
        Largest number of conjugate gradient iterations.
    backend : {"numpy", "jax"} or Backend
        The library that computes the products: NumPy or JAX, with the default settings of `pmgp.marginal.NumpyTiles` or
        `pmgp.marginal.JaxTiles`, or with other settings.
    random_seed : int or numpy.random.Generator, optional
    compile_kwargs : dict, optional
        Passed to PyTensor, as in `pymc.sample`.

    Returns
    -------
    IterativeLogLikelihood

    Raises
    ------
    ModelError
        If the model has several latent vectors, hyper-parameters of a likelihood of f, or neither noise nor latent
        values, if its covariance cannot be computed in tiles, or if multivariate normal observations are missing or
        differ in number from the rows of X.
    NotConvergedError
        If the iterations reach the cap; there is then no value. The message gives the residual and advice.
    ValueError
        If a setting is out of range, or `point` has values that its variables cannot take.

    References
    ----------
    Cutajar, K., Osborne, M. A., Cunningham, J. P. and Filippone, M. (2016). Preconditioning kernel matrices. ICML.
    Wenger, J. et al. (2021). Preconditioning for scalable Gaussian process hyperparameter optimization.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pmgp
    >>> X = np.linspace(0.0, 5.0, 100)[:, None]
    >>> with pm.Model() as model:
    ...     lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0)
    ...     gp = pm.gp.Marginal(cov_func=pm.gp.cov.Matern52(1, ls=lengthscale))
    ...     y = gp.marginal_likelihood("y", X, np.sin(X[:, 0]), sigma=0.1)
    >>> found = pmgp.marginal.iterative_log_likelihood(model, random_seed=1)
    >>> found
    IterativeLogLikelihood(11... with standard error 0..., after ... iterations)
    """
    model = current_model(model)
    gaussian, tiles = IterativeEvidence(tolerance, probes, cap), backend_of(backend)
    density: IterativeDensity | LaplaceDensity
    if gaussian_observations(model) is None:
        density = LaplaceDensity(model, rank, IterativeLaplace(tolerance**2, probes, cap), tiles, compile_kwargs)
    else:
        density = IterativeDensity(model, rank, gaussian, tiles, compile_kwargs)
    theta = density.theta.ravel(value_point(model, point))
    with threads_limited(suitable_threads(density.size)):
        found = density.estimate(np.random.default_rng(random_seed), theta)
        gradient = density.gradient(theta, found)
    by_name = density.theta.unravel(gradient)
    computed = density.computed
    return IterativeLogLikelihood(found.log_evidence, found.standard_error, by_name, found.iterations, computed)
