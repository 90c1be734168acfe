"""The schemes that update theta with f beside it as PyMC step methods; combine them with one for f."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator

from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace
from pmgp.core.numerics import linalg
from pmgp.core.numerics.ledger import counted
from pmgp.core.theta_updates import schemes
from pmgp.core.theta_updates.densities import JointState, LatentPart
from pmgp.core.theta_updates.operators import Adaptation, ThetaOperator
from pmgp.interface.model.conjugacy import find_conjugate_variance
from pmgp.interface.model.derivatives import DifferentiableLatentModel
from pmgp.interface.steps.progress import ThetaProgress
from pmgp.interface.steps.shared import share
from pmgp.interface.steps.starts import unusable_latent_start
from pmgp.interface.steps.threads import LimitedThreads
from pmgp.interface.steps.validation import check_hyperparameters, resolve

__all__ = ["Ancillary", "Interweaving", "JointUpdate", "Sufficient", "Surrogate"]

APPROXIMATIONS: dict[str, type] = {"laplace": Laplace, "ep": ExpectationPropagation}


@dataclass_state
class ThetaState(StepMethodState):
    """Everything that changes while a chain runs."""

    tune: bool
    adaptations: tuple[Adaptation, ...]
    theta_names: list[str] = field(metadata={"frozen": True})


class _ThetaStep(ThetaProgress, LimitedThreads):
    """What the schemes share: a scheme of the core, moved by PyMC."""

    default_blocked = True
    _state_class = ThetaState
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "tune": (bool, []),
        "accepted": (np.float64, []),
        "acceptance_rate": (np.float64, []),
        "n_evaluations": (np.int64, []),
        "n_cholesky": (np.int64, []),
        "n_inverse": (np.int64, []),
        "n_matmul": (np.int64, []),
    }

    def __init__(
        self,
        vars: list[Any] | None,
        operator: ThetaOperator,
        latent: Any,
        *,
        factorizing: bool,
        model: pm.Model | None,
        rng: Any,
        initial_point: dict[str, np.ndarray] | None,
        compile_kwargs: dict[str, Any] | None,
        blocked: bool,
    ) -> None:
        model = pm.modelcontext(model)
        self.shared_model = share(model, latent, initial_point, compile_kwargs)
        parts = self.shared_model.parts
        if factorizing:
            parts.require_factorizing()
        self.vars = check_hyperparameters(vars, model, parts, type(self).__name__)
        kind = operator.kind
        if factorizing or kind != "metropolis":
            parts.compile_derivatives(second=factorizing)
        self.model = DifferentiableLatentModel(parts, gradient=kind != "metropolis", metric=kind == "smmala")
        self.scheme = self._make_scheme(operator, model)
        self.theta_names = parts.theta_names
        self.latent_name = parts.latent_value.name
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        self._reset(0)

    def _make_scheme(self, operator: ThetaOperator, model: pm.Model) -> schemes.Scheme:
        raise NotImplementedError

    def _reset(self, n_tune: int) -> None:
        self.tune = n_tune > 0
        self.adaptations = self.scheme.start(self.model.parts.dimension, n_tune)
        # What goes with theta is a function of it, and so a cache and not state.
        self._current: JointState | None = None

    def _start_chain(self, tune: int, draws: int) -> None:
        self.shared_model.refresh_data()
        self._reset(tune)

    def _update(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        with counted() as ledger:
            parts = self.model.parts
            outcome = self.scheme.step(self.rng, self._synchronized(point), self.model, self.adaptations, self.tune)
            self._current, self.adaptations = outcome.current, outcome.adaptations
            theta, together = outcome.current
            self.shared_model.remember(theta, together.prior)
        counts = ledger.total
        stats = {
            "tune": self.tune,
            "accepted": sum(info.accepted for info in outcome.infos) / len(outcome.infos),
            "acceptance_rate": sum(info.acceptance_rate for info in outcome.infos) / len(outcome.infos),
            "n_evaluations": sum(info.evaluations for info in outcome.infos),
            "n_cholesky": counts.cholesky,
            "n_inverse": counts.inverse,
            "n_matmul": counts.matmul,
        }
        return point | parts.unravel(theta) | {parts.latent_value.name: together.f}, [stats]

    def _synchronized(self, point: dict[str, np.ndarray]) -> JointState:
        """Where the chain stands, computed anew only where another step method has moved theta."""
        theta, f = self.model.parts.ravel(point), point[self.model.parts.latent_value.name]
        if self._current is not None and np.array_equal(theta, self._current.theta):
            return self._current._replace(together=self._current.together._replace(f=f))
        prior = self.shared_model.prior(theta)
        if self._current is None:
            self._check_start(theta, LatentPart(prior, f), point)
        return JointState(theta, LatentPart(prior, f))

    def _check_start(self, theta: np.ndarray, together: LatentPart, point: dict[str, np.ndarray]) -> None:
        reason = ""
        try:
            together.prior.factorize()
        except linalg.NotPositiveDefiniteError as error:
            reason = str(error)
        if not np.isfinite(self.model.log_prior(theta)):
            reason = "the prior density of the hyper-parameters is not finite there"
        if not np.isfinite(self.model.likelihood(theta).log_likelihood(together.f)):
            reason = "the log-likelihood is not finite there"
        if reason:
            raise SamplingError(unusable_latent_start(self.model.parts, point, reason))

    @property
    def sampling_state(self) -> Any:
        """The chain's state; setting it drops what is cached."""
        return BlockedStep.sampling_state.fget(self)

    @sampling_state.setter
    def sampling_state(self, state: Any) -> None:
        BlockedStep.sampling_state.fset(self, state)
        self._current = None

    def _caches(self) -> dict[str, Any]:
        return {"_current": None}

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen automatically."""
        return Competence.INCOMPATIBLE


class Ancillary(_ThetaStep):
    """Update the hyper-parameters given the whitened latent values (ancillary augmentation, AA).

    With nu = L^-1 (f - m) fixed, theta is moved under p(theta|nu, y), and f = m + L nu moves with it. Strong where the
    data say little about f; combine it with a step method for f.

    Parameters
    ----------
    vars : list of variables, optional
        Must be all free variables but f, the default.
    operator : {"metropolis", "hmc", "smmala"}
        How theta moves: a random walk with the covariance of the tuning draws, hybrid Monte Carlo scaled by it, or
        Langevin proposals with a metric.
    target_acceptance : float, optional
        Rate that the step size is tuned to; 0.25, 0.65 and 0.57 for the three.
    max_leapfrog : int
        Of hybrid Monte Carlo.
    latent : variable or str, optional
        Which multivariate normal variable is f, if the model has several.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), no hyper-parameters, or not all of them are given.
    ValueError
        For settings out of range.

    Notes
    -----
    Sample statistics: ``tune``, ``accepted``, ``acceptance_rate``, ``n_evaluations`` (of the density or its gradient),
    ``n_cholesky``, ``n_inverse``, ``n_matmul`` (O(n^3) operations of the iteration).

    References
    ----------
    Filippone, M., Zhong, M. and Girolami, M. (2013). A comparative evaluation of stochastic-based inference methods
    for Gaussian process models. Machine Learning 93, section 2.1.

    Examples
    --------
    >>> with model:  # doctest: +SKIP
    ...     idata = pm.sample(step=[pmgp.Ancillary(), pmgp.LatentHMC()])
    """

    name = "ancillary"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        operator: str = "metropolis",
        target_acceptance: float | None = None,
        max_leapfrog: int = 10,
        latent: Any = None,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        super().__init__(
            vars,
            ThetaOperator(operator, target_acceptance, max_leapfrog),
            latent,
            factorizing=operator == "smmala",
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )

    def _make_scheme(self, operator: ThetaOperator, model: pm.Model) -> schemes.Scheme:
        return schemes.AncillaryScheme(operator)


class Sufficient(_ThetaStep):
    """Update the hyper-parameters given the latent values (sufficient augmentation, SA).

    Theta is moved under p(theta|f, y), f staying where it is. Slow where theta and f are strongly coupled, which is the
    rule; combine it with a step method for f.

    Parameters
    ----------
    vars : list of variables, optional
        Must be all free variables but f, the default.
    operator : {"metropolis", "hmc", "smmala"}
        How theta moves: a random walk with the covariance of the tuning draws, hybrid Monte Carlo scaled by it, or
        Langevin proposals with a metric.
    conjugate_variance : bool
        Draw a variance with an inverse-gamma prior, to which K is proportional, from its full conditional besides.
        Needs ``gp.prior(..., jitter=0)``; see :func:`pmgp.interface.model.conjugacy.find_conjugate_variance`.
    target_acceptance : float, optional
        Rate that the step size is tuned to; 0.25, 0.65 and 0.57 for the three.
    max_leapfrog : int
        Of hybrid Monte Carlo.
    latent : variable or str, optional
        Which multivariate normal variable is f, if the model has several.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), no hyper-parameters, or not all of them are given.
    ValueError
        For settings out of range.

    Notes
    -----
    Sample statistics: as :class:`Ancillary`.

    References
    ----------
    Filippone, M., Zhong, M. and Girolami, M. (2013). A comparative evaluation of stochastic-based inference methods
    for Gaussian process models. Machine Learning 93, section 2.1.
    """

    name = "sufficient"
    _scheme: ClassVar[type[schemes.SufficientScheme]] = schemes.SufficientScheme

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        operator: str = "metropolis",
        conjugate_variance: bool = True,
        target_acceptance: float | None = None,
        max_leapfrog: int = 10,
        latent: Any = None,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        self.conjugate_variance = conjugate_variance
        super().__init__(
            vars,
            ThetaOperator(operator, target_acceptance, max_leapfrog),
            latent,
            factorizing=operator == "smmala",
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )

    def _make_scheme(self, operator: ThetaOperator, model: pm.Model) -> schemes.Scheme:
        variance = find_conjugate_variance(model, self.shared_model.parts) if self.conjugate_variance else None
        return self._scheme(operator, variance)


class Interweaving(Sufficient):
    """Update the hyper-parameters given f, then given the whitened f (ASIS, interweaving of SA and AA).

    The whitened values are computed from f and the theta that the first update left (Yu and Meng 2011). Combine it with
    a step method for f.

    Parameters
    ----------
    vars : list of variables, optional
        Must be all free variables but f, the default.
    operator : {"metropolis", "hmc", "smmala"}
        How theta moves, in both updates, each with a step size of its own.
    conjugate_variance : bool
        As of :class:`Sufficient`, in the first update.
    target_acceptance : float, optional
        Rate that the step sizes are tuned to; 0.25, 0.65 and 0.57 for the three.
    max_leapfrog : int
        Of hybrid Monte Carlo.
    latent : variable or str, optional
        Which multivariate normal variable is f, if the model has several.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), no hyper-parameters, or not all of them are given.
    ValueError
        For settings out of range.

    Notes
    -----
    Sample statistics: as :class:`Ancillary`; acceptance is the mean of the two updates.

    References
    ----------
    Yu, Y. and Meng, X.-L. (2011). To center or not to center: that is not the question. JCGS 20.
    """

    name = "interweaving"
    _scheme: ClassVar[type[schemes.SufficientScheme]] = schemes.InterweavingScheme


class Surrogate(_ThetaStep):
    """Update the hyper-parameters given surrogate data (SURR).

    Noisy copies g of f are drawn, and theta is moved with g and the whitened rest of f fixed; f moves with theta as far
    as g and the prior let it. The noise matches what each observation says about its latent value. Combine it with a
    step method for f.

    Parameters
    ----------
    vars : list of variables, optional
        Must be all free variables but f, the default.
    target_acceptance : float
        Rate that the random walk is tuned to, between 0 and 1.
    latent : variable or str, optional
        Which multivariate normal variable is f, if the model has several.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), no hyper-parameters, or not all of them are given, or the likelihood
        does not factorize over f.
    ValueError
        For settings out of range.

    Notes
    -----
    Sample statistics: as :class:`Ancillary`.

    References
    ----------
    Murray, I. and Adams, R. P. (2010). Slice sampling covariance hyperparameters of latent Gaussian models. NIPS 23.
    """

    name = "surrogate"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        target_acceptance: float | None = None,
        latent: Any = None,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        super().__init__(
            vars,
            ThetaOperator("metropolis", target_acceptance),
            latent,
            factorizing=True,
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )

    def _make_scheme(self, operator: ThetaOperator, model: pm.Model) -> schemes.Scheme:
        return schemes.SurrogateScheme(operator)


class JointUpdate(_ThetaStep):
    """Propose the hyper-parameters and the latent values together (KHR).

    Theta' comes from a random walk, f' from an approximation of p(f|y, theta'), and both are accepted or rejected
    together. It can stand alone, and gains from a step method for f beside it.

    Parameters
    ----------
    vars : list of variables, optional
        Must be all free variables but f, the default.
    approximation : Laplace, ExpectationPropagation, "laplace" or "ep"
        The Gaussian that f' comes from.
    target_acceptance : float
        Rate that the random walk is tuned to, between 0 and 1.
    latent : variable or str, optional
        Which multivariate normal variable is f, if the model has several.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), no hyper-parameters, or not all of them are given, or the likelihood
        does not factorize over f.
    ValueError
        For settings out of range.

    Notes
    -----
    Sample statistics: as :class:`Ancillary`.

    References
    ----------
    Knorr-Held, L. and Rue, H. (2002). On block updating in Markov random field models for disease mapping.
    Scandinavian Journal of Statistics 29.
    """

    name = "joint_update"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        approximation: Approximation | str = "laplace",
        target_acceptance: float | None = None,
        latent: Any = None,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        self.approximation = resolve(approximation, APPROXIMATIONS, "approximation")
        super().__init__(
            vars,
            ThetaOperator("metropolis", target_acceptance),
            latent,
            factorizing=True,
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )

    def _make_scheme(self, operator: ThetaOperator, model: pm.Model) -> schemes.Scheme:
        return schemes.JointScheme(operator, self.approximation)
