"""Posteriors of theta for importance sampling: a density with its gradient, and weighted draws.

Both kinds can be pickled, so that weights can be computed in other processes.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable

from pmgp.core.adaptation.units import units
from pmgp.core.approximations import Approximation, Differentiable
from pmgp.core.estimators import Estimator
from pmgp.core.importance import Density
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.evidence_gradient import screen_gradient
from pmgp.interface.importance.estimates import Estimates
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.missing import Imputation
from pmgp.interface.model.normal_evidence import with_prior
from pmgp.interface.model.observed_normal import observed_normal
from pmgp.interface.steps.matrices import NUMPY, Matrices, NumpyMatrices

# From so many observations on, maxima are looked for from those given some of them, along estimated gradients.
MANY = 1_000


class Weighed(NamedTuple):
    """One value of theta with an unbiased estimate of its posterior density.

    `log_joint` is log p(theta) p^(y|theta). f (n,) is a draw from p(f|theta, y) in the extended target; it is None for
    a model without f, and if `log_joint` is minus infinity.
    """

    log_joint: float
    f: np.ndarray | None


class Target(Protocol):
    """A posterior of theta, on the unconstrained scale.

    `size` is the number of rows of the covariance, `imputation` draws missing observations, if there are any, and
    theta is measured in `units`; at the model's initial point it is `initial`, both (dimension,).
    """

    size: int
    imputation: Imputation | None
    initial: np.ndarray
    units: np.ndarray

    def log_prior(self, theta: np.ndarray) -> float:
        """Return log p(theta), minus infinity where it is zero."""

    def density(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p(theta) p(y|theta), perhaps approximate, and its gradient; not finite for zero densities."""

    def climbed(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the density with a gradient that may be an estimate, good enough for climbs."""

    def value(self, theta: np.ndarray) -> float:
        """Return the log-density alone, perhaps approximate; minus infinity where it is zero."""

    def weighed(self, rng: np.random.Generator, theta: np.ndarray) -> Weighed:
        """Weigh theta with an unbiased estimate of p(y|theta)."""

    def unravel(self, theta: np.ndarray, f: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return the values of the model's value variables by name."""

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return theta from a point of the model."""


class LatentTarget:
    """The posterior of a model with latent values f, which are integrated out.

    `smooth` approximates p(y|theta) while the density is maximized.
    """

    def __init__(
        self,
        parts: LatentGaussianModel,
        smooth: Differentiable,
        estimator: Estimator | str,
        approximation: Approximation | str,
        matrices: Matrices = NUMPY,
    ) -> None:
        parts.checks.refuse_discrete()
        self._parts = parts
        self._estimates = Estimates(parts, estimator, approximation, matrices=matrices)
        self._estimates.model.compile_theta_gradient()
        self._evaluate = Evaluator(self._estimates.model, smooth)
        self.size = parts.initial_moments[0].size
        self.imputation = parts.imputation
        self.initial, self.units = parts.initial_theta, np.ones(parts.dimension)

    def log_prior(self, theta: np.ndarray) -> float:
        """Return log p(theta)."""
        return self._estimates.model.log_prior(theta)

    def density(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log of p(theta) and the approximate p(y|theta), with its gradient."""
        evaluation = self._evaluate(theta, None)
        if not np.isfinite(evaluation.log_screen):
            return -np.inf, np.zeros_like(theta)
        return evaluation.log_screen, screen_gradient(self._evaluate, evaluation)

    climbed = density

    def value(self, theta: np.ndarray) -> float:
        """Return the log of p(theta) and the approximate p(y|theta)."""
        value = self._evaluate(theta, None).log_screen
        return value if np.isfinite(value) else -np.inf

    def weighed(self, rng: np.random.Generator, theta: np.ndarray) -> Weighed:
        """Weigh theta with an estimate, and pick one of its particles by weight."""
        ready = self._estimates.ready(theta)
        if ready is None:
            return Weighed(-np.inf, None)
        estimate = self._estimates.fresh(rng, ready)
        if not np.isfinite(estimate.log_evidence):
            return Weighed(-np.inf, None)
        return Weighed(ready.log_prior + estimate.log_evidence, estimate.choose(rng))

    def unravel(self, theta: np.ndarray, f: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return the values of the model's value variables by name."""
        return self._parts.unravel(theta) | ({} if f is None else self._parts.unravel_latent(f, theta))

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return theta from a point of the model."""
        return self._parts.ravel(point)


class MarginalTarget:
    """The posterior of a model with multivariate normal observations, such as those of `pymc.gp.Marginal`.

    `theta` makes vectors of points and points of vectors. `by_numpy`: whether NumPy has the covariance.
    """

    def __init__(
        self,
        model: pm.Model,
        observed: TensorVariable,
        compile_kwargs: dict | None = None,
        matrices: Matrices = NUMPY,
    ) -> None:
        self.imputation: Imputation | None = None
        parts = observed_normal(model, observed, compile_kwargs)
        self.theta, self._theta_prior = parts.theta, parts.theta_prior
        self.initial, self.units = self.theta.initial, np.ones(self.theta.dimension)
        self._evidence = matrices.evidence(str(observed.name), parts)
        self.by_numpy, self.size = isinstance(matrices, NumpyMatrices), len(parts.y)
        self._climbed = self._evidence if self.size < MANY else self._evidence.probed()

    def log_prior(self, theta: np.ndarray) -> float:
        """Return log p(theta)."""
        return self._theta_prior(theta)

    def density(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p(theta) p(y|theta), with its gradient."""
        return with_prior(theta, self._theta_prior, self._evidence)

    def climbed(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the density; for many observations, probes estimate its gradient."""
        return with_prior(theta, self._theta_prior, self._climbed)

    def evidence(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p(y|theta) with its gradient; minus infinity if the covariance is indefinite."""
        return self._evidence.with_gradient(theta)

    def value(self, theta: np.ndarray) -> float:
        """Return log p(theta) p(y|theta), which takes one factorization."""
        log_prior = self._theta_prior(theta)
        return log_prior + self._evidence.value(theta) if np.isfinite(log_prior) else -np.inf

    def weighed(self, rng: np.random.Generator, theta: np.ndarray) -> Weighed:
        """Weigh theta with p(y|theta), which needs no estimate."""
        return Weighed(self.value(theta), None)

    def unravel(self, theta: np.ndarray, f: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return the values of the model's value variables by name."""
        return self.theta.unravel(theta)

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return theta from a point of the model."""
        return self.theta.ravel(point)


class TargetInUnits:
    """A posterior of theta divided by units, (dimension,).

    Where a hyper-parameter is measured in thousands or thousandths, proposals and differences of gradients need this.
    """

    def __init__(self, target: Target, units: np.ndarray) -> None:
        self._target, self.units, self._log_volume = target, units, float(np.log(units).sum())
        self.size, self.imputation, self.initial = target.size, target.imputation, target.initial / units

    def log_prior(self, theta: np.ndarray) -> float:
        """Return the log of the prior density."""
        return self._target.log_prior(self.units * theta) + self._log_volume

    def density(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density, with its gradient."""
        return self._in_units(self._target.density, theta)

    def climbed(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density with a gradient that may be an estimate."""
        return self._in_units(self._target.climbed, theta)

    def _in_units(self, density: Density, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = density(self.units * theta)
        return value + self._log_volume, self.units * gradient

    def value(self, theta: np.ndarray) -> float:
        """Return the log-density alone."""
        return self._target.value(self.units * theta) + self._log_volume

    def weighed(self, rng: np.random.Generator, theta: np.ndarray) -> Weighed:
        """Weigh theta with an unbiased estimate."""
        found = self._target.weighed(rng, self.units * theta)
        return found._replace(log_joint=found.log_joint + self._log_volume)

    def unravel(self, theta: np.ndarray, f: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return the values of the model's value variables by name."""
        return self._target.unravel(self.units * theta, f)

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return theta in its units from a point of the model."""
        return self._target.ravel(point) / self.units


def in_units(target: Target) -> Target:
    """Return a target in which no hyper-parameter is far wider or narrower than one."""
    found = units(target.log_prior, target.value, target.initial)
    return target if (found == 1.0).all() else TargetInUnits(target, found)
