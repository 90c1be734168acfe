"""The transitions for f given theta as PyMC step methods; they combine with any step method for theta."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator

from pmgp.core import latent_updates
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.latent_updates import LatentUpdate
from pmgp.core.numerics import linalg
from pmgp.core.numerics.ledger import counted
from pmgp.core.transitions.base import NOT_COMPUTED, Point, TransitionInfo
from pmgp.interface.steps.progress import AcceptanceProgress, EvaluationsProgress
from pmgp.interface.steps.shared import share
from pmgp.interface.steps.starts import unusable_latent_start
from pmgp.interface.steps.threads import LimitedThreads
from pmgp.interface.steps.validation import check_acceptance, latent_of

__all__ = ["EllipticalSlice", "LatentHMC", "LatentMetropolis", "LatentSMMALA"]

COUNTS: dict[str, Any] = {"n_cholesky": (np.int64, []), "n_inverse": (np.int64, []), "n_matmul": (np.int64, [])}


@dataclass_state
class LatentState(StepMethodState):
    """Everything that changes while a chain runs."""

    tune: bool
    step_size: StepSize
    theta: np.ndarray | None
    chain: Point | None
    latent_name: str = field(metadata={"frozen": True})


class _LatentStep(LimitedThreads):
    """What the four step methods share: an operator of the core, moved by PyMC.

    The factor of the covariance is kept as long as theta stays where it is, and shared with pmgp's other step methods
    of the same model.
    """

    default_blocked = True
    _state_class = LatentState

    def __init__(
        self,
        operator: LatentUpdate,
        vars: list[Any] | None,
        latent: Any,
        target_acceptance: float,
        *,
        factorizing: bool,
        model: pm.Model | None,
        rng: Any,
        initial_point: dict[str, np.ndarray] | None,
        compile_kwargs: dict[str, Any] | None,
        blocked: bool,
    ) -> None:
        model = pm.modelcontext(model)
        self.operator = operator
        self.target_acceptance = target_acceptance
        latent = latent_of(vars, latent, model, type(self).__name__)
        self.shared_model = share(model, latent, initial_point, compile_kwargs)
        if factorizing:
            self.shared_model.parts.require_factorizing()
            self.shared_model.parts.compile_derivatives(second=True)
        self.vars = [self.shared_model.parts.latent_value]
        self.latent_name = self.vars[0].name
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        self._reset(0)

    def _reset(self, n_tune: int) -> None:
        self.tune = n_tune > 0
        self.step_size = StepSize.start(1.0)
        self.theta: np.ndarray | None = None
        self.chain: Point | None = None
        # A function of theta, and so a cache and not state.
        self._target: Any = None

    def _start_chain(self, tune: int, draws: int) -> None:
        self.shared_model.refresh_data()
        self._reset(tune)

    def _update(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        with counted() as ledger:
            chain = self._synchronized(point)
            value = self.step_size.value if self.tune else self.step_size.frozen
            self.chain, info = self.operator.step(self.rng, chain, self._target, value)
            if self.tune:
                self.step_size = self.step_size.updated(info.acceptance_rate, self.target_acceptance)
        counts = ledger.total
        stats = {"n_cholesky": counts.cholesky, "n_inverse": counts.inverse, "n_matmul": counts.matmul}
        return point | {self.latent_name: self.chain.payload}, [stats | self._statistics(info, value)]

    def _statistics(self, info: TransitionInfo, step_size: float) -> dict[str, Any]:
        return {
            "tune": self.tune,
            "accepted": float(info.accepted),
            "acceptance_rate": info.acceptance_rate,
            "step_size": step_size,
            "n_evaluations": info.evaluations,
        }

    def _synchronized(self, point: dict[str, np.ndarray]) -> Point:
        """The chain's point, made anew where another step method has moved theta or f."""
        f = point[self.latent_name]
        theta = self.shared_model.parts.ravel(point)
        same_theta = self.theta is not None and np.array_equal(theta, self.theta)
        if self._target is None or not same_theta:
            self._prepare(theta, point)
        if self.chain is None:
            self.step_size = StepSize.start(self.operator.initial_step_size(f.size), self.operator.largest_step_size)
        elif same_theta and np.array_equal(self.chain.payload, f):
            return self.operator.restore(self._target, self.chain)
        return self._begin(f, point)

    def _prepare(self, theta: np.ndarray, point: dict[str, np.ndarray]) -> None:
        shared = self.shared_model
        try:
            self._target = self.operator.prepare(shared.prior(theta), shared.parts.likelihood(theta))
        except (linalg.NotPositiveDefiniteError, FloatingPointError) as error:
            raise SamplingError(unusable_latent_start(shared.parts, point, str(error))) from error
        self.theta = theta

    def _begin(self, f: np.ndarray, point: dict[str, np.ndarray]) -> Point:
        try:
            chain = self.operator.init(self._target, f)
        except linalg.NotPositiveDefiniteError as error:
            raise SamplingError(unusable_latent_start(self.shared_model.parts, point, str(error))) from error
        if not np.isfinite(chain.log_density):
            reason = "the log-likelihood is not finite there"
            raise SamplingError(unusable_latent_start(self.shared_model.parts, point, reason))
        return chain

    @property
    def sampling_state(self) -> Any:
        """The chain's state, without the n x n matrices, which are computed again; setting it drops what is cached."""
        chain, self.chain = self.chain, None if self.chain is None else self.chain._replace(metric_factor=NOT_COMPUTED)
        try:
            return BlockedStep.sampling_state.fget(self)
        finally:
            self.chain = chain

    @sampling_state.setter
    def sampling_state(self, state: Any) -> None:
        BlockedStep.sampling_state.fset(self, state)
        self._target = None

    def _caches(self) -> dict[str, Any]:
        return {"_target": None}

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen automatically."""
        return Competence.INCOMPATIBLE


class EllipticalSlice(EvaluationsProgress, _LatentStep):
    """Elliptical slice sampling of the latent values of a Gaussian process, given its hyper-parameters.

    Nothing has to be tuned, and every draw moves.

    Parameters
    ----------
    vars : list of one variable, optional
        The latent vector f.
    moves : int
        Slice transitions in every iteration.
    reference : {"prior", "laplace"}
        The Gaussian that gives the ellipses: the prior, as published, or Laplace's approximation of p(f|theta, y),
        whose ellipses reach across the posterior, and the prior in turn; it is fitted again whenever theta has moved.
    latent : variable or str, optional
        The latent vector, in place of `vars`.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), or several and it is not said which.
    ValueError
        For settings out of range.

    Notes
    -----
    Sample statistics: ``n_evaluations`` (of the likelihood), ``n_cholesky``, ``n_inverse``, ``n_matmul`` (O(n^3)
    operations of the iteration).

    With the prior as reference any likelihood will do; with Laplace's approximation it must factorize over f.

    References
    ----------
    Murray, I., Adams, R. P. and MacKay, D. J. C. (2010). Elliptical slice sampling. AISTATS 9.

    Examples
    --------
    >>> with model:  # doctest: +SKIP
    ...     idata = pm.sample(step=[pmgp.EllipticalSlice(), pm.Slice([lengthscale, variance])])
    """

    name = "elliptical_slice"
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {"n_evaluations": (np.int64, []), **COUNTS}

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        moves: int = 1,
        reference: str = "prior",
        latent: Any = None,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        super().__init__(
            latent_updates.EllipticalSliceUpdate(moves, reference),
            vars,
            latent,
            1.0,
            factorizing=reference == "laplace",
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )

    def _statistics(self, info: TransitionInfo, step_size: float) -> dict[str, Any]:
        return {"n_evaluations": info.evaluations}


class _TunedStep(AcceptanceProgress, _LatentStep):
    """An operator whose step size adapts while the chain tunes."""

    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "tune": (bool, []),
        "accepted": (np.float64, []),
        "acceptance_rate": (np.float64, []),
        "step_size": (np.float64, []),
        "n_evaluations": (np.int64, []),
        **COUNTS,
    }


class LatentMetropolis(_TunedStep):
    """Metropolis sampling of the latent values of a Gaussian process, given its hyper-parameters.

    Parameters
    ----------
    vars : list of one variable, optional
        The latent vector f.
    variant : {"v2", "v1", "isotropic"}
        Proposals m + sqrt(1 - step^2) (f - m) + step z ("v2") or f + step z ("v1") with z a draw of the prior's
        deviations, or f + step e with e standard normal.
    target_acceptance : float
        Rate that the step size is tuned to, between 0 and 1.
    latent : variable or str, optional
        The latent vector, in place of `vars`.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), or several and it is not said which.
    ValueError
        For settings out of range.

    Notes
    -----
    Sample statistics: ``tune``, ``accepted``, ``acceptance_rate``, ``step_size``, ``n_evaluations`` (of the
    likelihood), ``n_cholesky``, ``n_inverse``, ``n_matmul`` (O(n^3) operations of the iteration).

    References
    ----------
    Neal, R. M. (1999). Regression and classification using Gaussian process priors. Bayesian Statistics 6.
    """

    name = "latent_metropolis"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        variant: str = "v2",
        target_acceptance: float = latent_updates.MetropolisUpdate.target_acceptance,
        latent: Any = None,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        check_acceptance(target_acceptance)
        super().__init__(
            latent_updates.MetropolisUpdate(variant),
            vars,
            latent,
            target_acceptance,
            factorizing=False,
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )


class LatentHMC(_TunedStep):
    """Hybrid Monte Carlo sampling of the latent values of a Gaussian process, given its hyper-parameters.

    Parameters
    ----------
    vars : list of one variable, optional
        The latent vector f.
    variant : {"v1", "v2", "isotropic"}
        The inverse of the mass matrix: (K^-1 + C)^-1 with C the Fisher information at the prior mean ("v1"), K ("v2"),
        or the identity. "v1" needs two factorizations and an inversion when theta has moved, "v2" one factorization.
    max_leapfrog : int
        The number of leapfrog steps is uniform from 1 to this one.
    target_acceptance : float
        Rate that the step size is tuned to, between 0 and 1.
    latent : variable or str, optional
        The latent vector, in place of `vars`.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), or several and it is not said which, or, for "v1", the likelihood does
        not factorize over f.
    ValueError
        For settings out of range.

    Notes
    -----
    Sample statistics: ``tune``, ``accepted``, ``acceptance_rate``, ``step_size``, ``n_evaluations`` (leapfrog steps),
    ``n_cholesky``, ``n_inverse``, ``n_matmul`` (O(n^3) operations of the iteration).

    References
    ----------
    Filippone, M., Zhong, M. and Girolami, M. (2013). A comparative evaluation of stochastic-based inference methods
    for Gaussian process models. Machine Learning 93, section 3.6.
    """

    name = "latent_hmc"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        variant: str = "v1",
        max_leapfrog: int = 10,
        target_acceptance: float = latent_updates.HamiltonianUpdate.target_acceptance,
        latent: Any = None,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        check_acceptance(target_acceptance)
        super().__init__(
            latent_updates.HamiltonianUpdate(variant, max_leapfrog),
            vars,
            latent,
            target_acceptance,
            factorizing=variant == "v1",
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )
        self.shared_model.parts.compile_derivatives(second=False)


class LatentSMMALA(_TunedStep):
    """Manifold Langevin sampling of the latent values of a Gaussian process, given its hyper-parameters.

    The proposals follow the metric K^-1 + R(f), with R the Fisher information of the likelihood, which is factorized
    at every proposal.

    Parameters
    ----------
    vars : list of one variable, optional
        The latent vector f.
    target_acceptance : float
        Rate that the step size is tuned to, between 0 and 1.
    latent : variable or str, optional
        The latent vector, in place of `vars`.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), or several and it is not said which, or the likelihood does not
        factorize over f.
    ValueError
        For settings out of range.

    Notes
    -----
    Sample statistics: ``tune``, ``accepted``, ``acceptance_rate``, ``step_size``, ``n_evaluations``, ``n_cholesky``,
    ``n_inverse``, ``n_matmul`` (O(n^3) operations of the iteration).

    References
    ----------
    Girolami, M. and Calderhead, B. (2011). Riemann manifold Langevin and Hamiltonian Monte Carlo methods. JRSS B 73.
    """

    name = "latent_smmala"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        target_acceptance: float = latent_updates.LangevinUpdate.target_acceptance,
        latent: Any = None,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        check_acceptance(target_acceptance)
        super().__init__(
            latent_updates.LangevinUpdate(),
            vars,
            latent,
            target_acceptance,
            factorizing=True,
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )
