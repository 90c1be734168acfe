"""The transitions for f given theta as PyMC step methods; they combine with any step method for theta."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Unpack

import numpy as np
import pymc as pm
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pmgp.core import latent_updates
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.gaussians.dense import INDEFINITE
from pmgp.core.latent_updates import LatentUpdate
from pmgp.core.numerics.linalg import NotPositiveDefiniteError
from pmgp.core.registry import resolve
from pmgp.core.transitions.adaptive import check_target
from pmgp.core.transitions.base import NOT_COMPUTED, Point
from pmgp.interface.steps.base import ACCEPTANCE, COUNTS, EVALUATIONS, Arguments, GaussianProcessStep
from pmgp.interface.steps.progress import AcceptanceProgress, EvaluationsProgress
from pmgp.interface.steps.public import public_step
from pmgp.interface.steps.starts import refusing_start
from pmgp.interface.steps.validation import latent_of


@dataclass_state
class LatentState(StepMethodState):
    """Everything that changes while a chain runs."""

    tune: bool
    step_size: StepSize
    theta: np.ndarray | None
    chain: Point | None
    latent_name: str = field(metadata={"frozen": True})


@public_step
class LatentStep(AcceptanceProgress, GaussianProcessStep):
    """Sample the latent values of a Gaussian process, given its hyper-parameters, with any latent update.

    The update must leave p(f|theta, y) invariant and have the methods of
    :class:`~pmgp.core.latent_updates.LatentUpdate`; the package's own step methods for f are derived from this class.
    The factor of the covariance is kept while theta does not change, and shared with pmgp's other step methods of the
    same model.

    Parameters
    ----------
    $vars_of_f
    update : LatentUpdate
        The transition.
    factorizing : bool
        Refuse a likelihood that does not factorize over f. Set it if the update uses the likelihood's curvature, Fisher
        information or tilted moments.
    gradient : bool
        Compile the first derivative of the likelihood when the step is made, rather than when it is first needed.
    target_acceptance : float, optional
        Acceptance rate to which the step size is tuned, between 0 and 1; by default the update's own.
    $rest_of_f_and_references
    See those of the update.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> from pmgp.core.latent_updates import EllipticalSliceUpdate
    >>> with model:
    ...     step = [pmgp.steps.Ancillary(), pmgp.steps.LatentStep(update=EllipticalSliceUpdate())]
    ...     idata = pm.sample(20, step=step, tune=20, chains=1, cores=1, random_seed=1, progressbar=False)
    """

    name = "latent_step"
    _state_class = LatentState
    stats_dtypes_shapes: ClassVar = ACCEPTANCE | {"step_size": (np.float64, [])} | EVALUATIONS | COUNTS
    _target: Any
    _point: Point | None

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        update: LatentUpdate,
        factorizing: bool = False,
        gradient: bool = False,
        target_acceptance: float | None = None,
        **others: Unpack[Arguments],
    ) -> None:
        if target_acceptance is not None:
            check_target(target_acceptance)
        self.operator = resolve(update, {}, LatentUpdate, "update")
        self.target_acceptance = update.target_acceptance if target_acceptance is None else target_acceptance
        super().__init__(vars, factorizing=factorizing, gradient=gradient, **others)
        self._reset(0, 0)

    def _chosen_latent(self, vars: list[Any] | None, latent: Any, model: pm.Model) -> Any:
        return latent_of(vars, latent, type(self).__name__)

    def _reset(self, n_tune: int, n_draws: int) -> None:
        super()._reset(n_tune, n_draws)
        self.step_size = StepSize.start(1.0)
        self.theta: np.ndarray | None = None
        self.chain: Point | None = None

    def _caches(self) -> dict[str, Any]:
        # `_point` is the point of the chain with the n x n factor of its metric.
        return {"_target": None, "_point": None}

    def _update(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        with refusing_start(self.latent_model, point):
            theta = self.latent_model.ravel(point)
            before = self._synchronized(self.latent_model.ravel_latent(point), theta)
        value = self.step_size.value if self.tune else self.step_size.frozen
        self._point, info = self.operator.step(self.rng, before, self._target, value)
        self.chain = self._point._replace(metric_factor=NOT_COMPUTED)
        if self.tune:
            self.step_size = self.step_size.updated(info.acceptance_rate, self.target_acceptance)
        moved = self.latent_model.unravel_latent(self.chain.payload, theta)
        return moved, self._statistics(info) | {"step_size": value}

    def _synchronized(self, f: np.ndarray, theta: np.ndarray) -> Point:
        """Return the chain's point, computed again if another step method has moved theta or f."""
        same_theta = self.theta is not None and np.array_equal(theta, self.theta)
        if self._target is None or not same_theta:
            self._target = self.operator.prepare(self.shared_model.prior(theta), self.latent_model.likelihood(theta))
            if self._target is None:
                raise NotPositiveDefiniteError(INDEFINITE)
            self.theta = theta
        if self.chain is None:
            self.step_size = StepSize.start(self.operator.initial_step_size(f.size), self.operator.largest_step_size)
        elif same_theta and np.array_equal(self.latent_model.latent_vector.rounded(self.chain.payload), f):
            return self.operator.restore(self._target, self._point or self.chain)
        begun = self.operator.init(self._target, f)
        if not np.isfinite(begun.log_density):
            raise FloatingPointError("the log-likelihood is not finite there")
        return begun


@public_step
class EllipticalSlice(EvaluationsProgress, LatentStep):
    """Elliptical slice sampling of the latent values of a Gaussian process, given its hyper-parameters.

    Nothing is tuned, and every iteration moves f.

    Parameters
    ----------
    $vars_of_f
    moves : int
        Slice transitions in every iteration.
    reference : {"prior", "laplace"}
        The Gaussian that gives the ellipses: the prior, as published ("prior"), or Laplace's approximation of
        p(f|theta, y), whose ellipses span the posterior, alternating with the prior ("laplace"). The approximation is
        fitted again whenever theta has moved.
    $rest_but_notes_of_f

    Notes
    -----
    Sample statistics: ``n_evaluations`` (of the likelihood), ``n_cholesky``, ``n_inverse``, ``n_matmul`` (O(n^3)
    operations of the iteration).

    With reference="prior" any likelihood will do; with "laplace" it must factorize over f.

    References
    ----------
    Murray, I., Adams, R. P. and MacKay, D. J. C. (2010). Elliptical slice sampling. AISTATS 9.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> with model:
    ...     step = [pmgp.EllipticalSlice(), pmgp.steps.Ancillary()]
    ...     idata = pm.sample(20, step=step, tune=20, chains=1, cores=1, random_seed=1, progressbar=False)
    """

    name = "elliptical_slice"
    _moves_series: ClassVar[bool] = True
    stats_dtypes_shapes: ClassVar = EVALUATIONS | COUNTS

    def __init__(
        self, vars: list[Any] | None = None, *, moves: int = 1, reference: str = "prior", **others: Unpack[Arguments]
    ) -> None:
        update = latent_updates.EllipticalSliceUpdate(moves, reference)
        super().__init__(vars, update=update, factorizing=reference == "laplace", **others)

    def _update(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        moved, stats = super()._update(point)
        return moved, {"n_evaluations": stats["n_evaluations"]}


@public_step
class LatentMetropolis(LatentStep):
    """Metropolis sampling of the latent values of a Gaussian process, given its hyper-parameters.

    Parameters
    ----------
    $vars_of_f
    proposal : {"autoregressive", "random_walk", "isotropic"}
        "autoregressive" proposes m + sqrt(1 - step^2) (f - m) + step z and "random_walk" f + step z, with z from
        N(0, K); "isotropic" proposes f + step e with e standard normal.
    $target_of_step
    $rest_of_f_and_references
    Neal, R. M. (1999). Regression and classification using Gaussian process priors. Bayesian Statistics 6.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     methods = [pmgp.steps.Ancillary(), pmgp.steps.LatentMetropolis(proposal="autoregressive")]
    """

    name = "latent_metropolis"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        proposal: str = "autoregressive",
        target_acceptance: float = latent_updates.MetropolisUpdate.target_acceptance,
        **others: Unpack[Arguments],
    ) -> None:
        update = latent_updates.MetropolisUpdate(proposal)
        super().__init__(vars, update=update, target_acceptance=target_acceptance, **others)


@public_step
class LatentHMC(LatentStep):
    """Hybrid Monte Carlo sampling of the latent values of a Gaussian process, given its hyper-parameters.

    Parameters
    ----------
    $vars_of_f
    mass : {"posterior", "prior", "identity"}
        The mass matrix: K^-1 + C with C the Fisher information at the prior mean ("posterior"), K^-1 ("prior"), or the
        identity. "posterior" needs two factorizations and an inversion when theta has moved, and a likelihood that
        factorizes over f; "prior" needs one factorization.
    max_leapfrog : int
        The number of leapfrog steps is uniform from 1 to this value; ``n_evaluations`` counts them.
    $target_of_step
    $rest_of_f_and_references
    $comparative_evaluation section 3.6.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     methods = [pmgp.steps.Ancillary(), pmgp.steps.LatentHMC(mass="prior")]
    """

    name = "latent_hmc"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        mass: str = "posterior",
        max_leapfrog: int = 10,
        target_acceptance: float = latent_updates.HamiltonianUpdate.target_acceptance,
        **others: Unpack[Arguments],
    ) -> None:
        super().__init__(
            vars,
            update=latent_updates.HamiltonianUpdate(mass, max_leapfrog),
            factorizing=mass == "posterior",
            gradient=True,
            target_acceptance=target_acceptance,
            **others,
        )


@public_step
class LatentSMMALA(LatentStep):
    """Manifold Langevin sampling of the latent values of a Gaussian process, given its hyper-parameters.

    The proposals follow the metric K^-1 + R(f), with R the Fisher information of the likelihood, which must factorize
    over f. The metric is factorized at every proposal.

    Parameters
    ----------
    $vars_of_f
    $target_of_step
    $rest_of_f_and_references
    Girolami, M. and Calderhead, B. (2011). Riemann manifold Langevin and Hamiltonian Monte Carlo methods. JRSS B 73.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     methods = [pmgp.steps.Ancillary(), pmgp.steps.LatentSMMALA()]
    """

    name = "latent_smmala"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        target_acceptance: float = latent_updates.LangevinUpdate.target_acceptance,
        **others: Unpack[Arguments],
    ) -> None:
        super().__init__(
            vars,
            update=latent_updates.LangevinUpdate(),
            factorizing=True,
            gradient=True,
            target_acceptance=target_acceptance,
            **others,
        )
