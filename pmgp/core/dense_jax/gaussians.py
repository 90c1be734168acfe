"""A prior, its conditioning on sites and q, with their matrices on a device of JAX.

They follow the contract in `core.gaussians.base`: the algorithms that look for sites, estimate and move are the same as
for NumPy's dense kind, with the same random numbers. Vectors of n values, and draws, are NumPy arrays, so likelihoods
need not use JAX.
"""

from __future__ import annotations

from functools import cached_property
from math import isfinite
from typing import Any, NoReturn

import numpy as np

from pmgp.core.dense_jax import programs
from pmgp.core.gaussians.base import INFORMATIVE, ConditionedPrior
from pmgp.core.gaussians.dense import RELATIVE_JITTERS
from pmgp.core.gaussians.held import HeldCovariance
from pmgp.core.gaussians.sites import SiteApproximation
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.ledger import record, record_several

INSTEAD = 'backend="numpy"'


class JaxPrior(HeldCovariance):
    """N(f|m, K), with both triangles of K on a device.

    Parameters
    ----------
    mean : (n,) array
    covariance : (n, n) jax.Array
    jitter : float
        Amount already added to its diagonal so that it can be factorized, in units of the variance.
    """

    def __init__(self, mean: np.ndarray, covariance: Any, jitter: float = 0.0) -> None:
        self.mean, self.covariance, self.jitter = mean, covariance, jitter

    @cached_property
    def variance(self) -> np.ndarray:
        """Prior variances: (n,)."""
        return np.array(programs.diagonal(self.covariance)[0])

    @property
    def is_finite(self) -> bool:
        """Whether mean and covariance are finite."""
        return bool(np.isfinite(self.mean).all() and programs.diagonal(self.covariance)[1])

    @cached_property
    def _factorized(self) -> tuple[Any, bool]:
        record("cholesky")
        factor, definite = programs.factorize(self.covariance)
        return factor, bool(definite)

    @property
    def factor(self) -> Any:
        """Lower Cholesky factor of K, on the device; NaN where K is indefinite."""
        return self._factorized[0]

    def factorized(self) -> JaxPrior | None:
        """Return the prior with its factor, with a jitter if it needs one; None if K stays indefinite."""
        scale = float(self.variance.mean())
        raised = (self._with_jitter(relative * scale) for relative in RELATIVE_JITTERS)
        return self if self._factorized[1] else next((prior for prior in raised if prior._factorized[1]), None)

    def _with_jitter(self, jitter: float) -> JaxPrior:
        return JaxPrior(self.mean, programs.raised(self.covariance, jitter - self.jitter), jitter)

    def conditioning(self) -> JaxConditioning:
        """Return the prior in the form that a search for sites conditions."""
        return JaxConditioning(self)

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Return L e for each row e of standard normals: (size, n) -> (size, n)."""
        return np.array(programs.prior_deviations(self.factor, normals))

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return K x for x of shape (n,) or (n, k)."""
        return np.array(programs.product(self.covariance, x))

    def shrunk(self, precision: Any) -> NoReturn:
        """Refuse: metric tensors of f are computed only in NumPy."""
        self._lacks("metric tensor of f", INSTEAD)


class JaxConditioning(ConditionedPrior):
    """A prior that is conditioned on one set of sites after another; `ConditionedPrior` describes its attributes.

    Parameters
    ----------
    prior : JaxPrior
    """

    prior: JaxPrior
    factor: Any

    def __init__(self, prior: JaxPrior) -> None:
        self.prior = prior

    def on(self, linear: np.ndarray, precision: np.ndarray) -> bool:
        """Condition on sites, (n,) arrays; return False if B is indefinite, as with NaN in K."""
        record_several(cholesky=1, matvec=1)
        factor, mean, log_determinant = programs.condition(self.prior.covariance, self.prior.mean, linear, precision)
        if not isfinite(found := float(log_determinant)):
            return False
        self._keep(linear, precision, np.array(mean), found, factor)
        return True

    def _keep(self, linear: Any, precision: Any, mean: np.ndarray, log_determinant: float, factor: Any) -> None:
        self.linear, self.precision, self.mean = linear, precision, mean
        self.log_determinant, self.factor = log_determinant, factor

    @property
    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of B^-1: (n,)."""
        record("inverse")
        return np.array(programs.inverse_diagonal(self.factor))

    def approximation(self, log_evidence: float, iterations: int, converged: bool = True) -> JaxApproximation:
        """Return q for the current sites."""
        memory = self.linear, self.precision, self.mean, self.factor
        known = {"log_determinant": self.log_determinant}
        found = JaxApproximation.written(self.prior, memory, log_evidence, iterations, converged, known)
        assert isinstance(found, JaxApproximation)
        return found


class JaxApproximation(SiteApproximation):
    """q(f), the prior times Gaussian sites, with the factor of B on a device; `Posterior` describes its attributes."""

    prior: JaxPrior

    @cached_property
    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of B^-1: (n,)."""
        record("inverse")
        return np.array(programs.inverse_diagonal(self.factor))

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw f - mean from q: (size, n)."""
        return self.deviations_from(rng.standard_normal((2, size, self.size)))

    def deviations_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws of f - mean from q: (2, size, n) -> (size, n)."""
        prior, informative = self.prior, bool((self.precision * self.prior.variance).min() >= INFORMATIVE)
        if not informative:
            record("matvec", normals.shape[1])
        known = prior.factor, prior.covariance, self.factor, self.precision
        return np.array(programs.deviations(*known, normals, informative))

    def estimated(self, rng: np.random.Generator, likelihood: Likelihood, size: int, paired: bool) -> None:
        """Return None: draws and weights are made one after another."""

    def renewed(
        self, rng: np.random.Generator, particle: np.ndarray, likelihood: Likelihood, draws: int, paired: bool
    ) -> None:
        """Return None: the move and the draws are made one after another."""

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return products of q's covariance with vectors: (n,) or (n, k)."""
        known = self.prior.covariance, self.factor, self.precision
        return np.array(programs.shrunk_product(*known, x.reshape(len(x), -1))).reshape(x.shape)

    def conditioned(self) -> JaxConditioning:
        """Return the prior conditioned on q's sites."""
        found = JaxConditioning(self.prior)
        found._keep(self.linear, self.precision, self.mean, self.log_determinant, self.factor)
        return found

    def covariance_bar(self, alpha: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return both triangles of the bar for K, on the device, and the diagonal of B^-1."""
        record("inverse")
        bar, diagonal = programs.covariance_bar(self.factor, self.precision, alpha)
        return bar, np.array(diagonal)

    def shifted_bar(self, bar: Any, shift: np.ndarray, alpha: np.ndarray) -> Any:
        """Return a bar plus (shift alpha' + alpha shift') / 2."""
        return programs.shifted_bar(bar, shift, alpha)

    def project(self, cross: np.ndarray) -> NoReturn:
        """Refuse: predictions are computed only in NumPy."""
        self._lacks("projections of other variables", INSTEAD)

    def regressions(self, variance: np.ndarray) -> NoReturn:
        """Refuse: regressions on single values are computed only in NumPy."""
        self._lacks("regressions on its values", INSTEAD)

    def site_groups(self, number: int) -> NoReturn:
        """Refuse: values are drawn together."""
        self._lacks("values in groups, which SequentialSampling needs", f'estimator="importance", or {INSTEAD}')
