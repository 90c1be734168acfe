"""The pseudo-marginal scheme as a PyMC step method."""

from __future__ import annotations

import warnings
from dataclasses import field
from typing import Any, ClassVar, Unpack

import numpy as np
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pmgp.core.adaptation.mode_prediction import Predictor
from pmgp.core.adaptation.units import units
from pmgp.core.approximations import Approximation, Laplace
from pmgp.core.estimators import ApproximateEvidence, Estimator
from pmgp.core.marginal.calibration import LARGE_SPREAD
from pmgp.core.marginal.choice import choose_estimator
from pmgp.core.marginal.evaluation import Evaluator, Fitted, Ready
from pmgp.core.marginal.given_elements import GivenElements
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.core.marginal.screen import ScreenDensity
from pmgp.core.marginal.tuning import Tuning
from pmgp.core.transitions.base import AdaptiveTransition, Point
from pmgp.interface.graphs.compilation import announced, logger
from pmgp.interface.model.identification import unidentified
from pmgp.interface.model.maxima import several_maxima
from pmgp.interface.steps.base import GaussianProcessStep, PyMCArguments
from pmgp.interface.steps.chosen import chosen_approximation, chosen_estimators
from pmgp.interface.steps.kernels import compile_kernels
from pmgp.interface.steps.matrices import Matrices, matrices_of
from pmgp.interface.steps.progress import EvidenceProgress
from pmgp.interface.steps.public import public_step
from pmgp.interface.steps.screen_statistics import STATISTICS, sampling_statistics, tuning_statistics
from pmgp.interface.steps.starts import fault_of_theta, moved_start, unusable_start
from pmgp.interface.steps.transitions import ThetaTarget, chosen_proposal
from pmgp.interface.steps.validation import (
    check_settings,
    indefinite_proposals,
    large_spread,
    moved_values,
    unconverged_proposals,
)

START_ATTEMPTS = 20


@dataclass_state
class PseudoMarginalState(StepMethodState):
    """Everything that changes while a chain runs."""

    tune: bool
    n_tune: int
    n_draws: int
    indefinite: int
    unconverged: int
    theta: np.ndarray
    latent: np.ndarray
    given: np.ndarray
    units: np.ndarray
    tuning: Tuning | None
    frozen: Frozen | None
    chain: State | None
    theta_names: list[str] = field(metadata={"frozen": True})


@public_step
class PseudoMarginal(EvidenceProgress, GaussianProcessStep):
    """Pseudo-marginal Metropolis-Hastings for the hyper-parameters of a Gaussian process, with exact draws of f.

    The step updates the latent multivariate normal f, or a time series (`pymc.AR`, `pymc.GaussianRandomWalk`), and all
    other continuous variables as one vector theta on the unconstrained scale. Discrete variables, such as a switch or
    the labels of a mixture, and those left out of `vars` are for other step methods, if only the likelihood depends on
    them. While the chain tunes, it samples under the approximation's own marginal likelihood and learns its proposals;
    then it switches to an unbiased estimate of p(y|theta) and is exact.

    Parameters
    ----------
    vars : list of variables, optional
        The hyper-parameters to move, all continuous ones by default; f is always moved with them.
    approximation : Laplace, ExpectationPropagation, "auto", "laplace" or "ep"
        The Gaussian q(f) from which importance samples are drawn and whose evidence screens proposals. ``"auto"`` is
        expectation propagation, or Laplace's method where the terms of the likelihood cannot be evaluated one by one.
    estimator : Estimator, "auto", "importance", "annealed", "orthant", "rao-blackwell", "sequential" or "none"
        The unbiased estimator of p(y|theta): an :class:`ImportanceSampling`, :class:`AnnealedImportanceSampling`,
        :class:`OrthantSampling` (with a probit link only), :class:`RaoBlackwellSampling` (with several processes, one
        of which is the mean of normal observations) or :class:`SequentialSampling`, or its name. ``"auto"`` is
        ``"rao-blackwell"`` where that is possible. Otherwise it is importance sampling, unless an alternative has a
        lower cost at the end of tuning: orthants for labels or ordered categories with a probit link, sequential
        estimates for several latent vectors, such as one for each class. The cost is the counted work of an iteration,
        with as many draws as the spread of the estimates requires, divided by the rate at which such estimates are
        replaced. The choice is then fixed. For a time series ``"auto"`` and ``"sequential"`` are :class:`PathSampling`,
        whose work is proportional to n. With ``"none"`` the chain samples the approximation's own marginal likelihood
        and draws f from q: this is **not exact**, has the error of Laplace's method or of expectation propagation, and
        is meant for comparison.
    proposal : "auto", "emulated", "mixture", "metropolis", "hmc" or AdaptiveTransition
        The transition of theta on the screen, which is p(theta) times the evidence of q. ``"mixture"`` is a random walk
        with the covariance of the tuning draws, mixed with independent proposals that are fitted to them; with
        ``"emulated"`` these follow an emulator of the screen, fitted to its evaluations during tuning; ``"metropolis"``
        is the random walk alone; ``"hmc"`` makes trajectories of Hamiltonian Monte Carlo, of four leapfrog steps on
        average, for which the model needs gradients. ``"auto"`` is ``"emulated"`` for up to six hyper-parameters, or
        without gradients; for more, with one latent vector or one for each class, ``"mixture"`` alternates with
        trajectories. Tuning measures squared jumps and operations to find their shares.
    latent : variable or str, or a sequence of them, optional
        The variables that are f. By default these are all multivariate normal ones; in a model without any, they are
        time series and group effects: normal variables with several elements, a standard deviation that depends on a
        hyper-parameter, and no free variable that depends on them. Effects and series in linear predictors, such as
        ``b0 + Z @ beta + u[group] + s[time]``, are integrated out together; an observation may have several. Other
        normal variables may be named, too, such as ``latent=["beta", "u", "s"]``, and processes and effects together,
        such as ``latent=["f", "u"]``.
    target_acceptance : float, optional
        Acceptance rate on the screen to which the moves of theta are tuned, between 0 and 1; by default 0.25 for the
        random walk, and 0.8 for trajectories. Where the two alternate, it is the rate of the trajectories.
    delayed_acceptance : bool
        Screen proposals with the approximation before the estimate is made. The chain is exact either way. False needs
        ``transitions=1`` and a proposal other than ``"hmc"``.
    transitions : int
        Moves of theta on the screen before each estimate. More than one is worthwhile where an estimate costs much more
        than an approximation.
    latent_moves : int
        Elliptical slice moves of f in every iteration.
    refresh_every : int, optional
        Number of iterations between refreshments of the importance samples; 0 for none. The default is 1 for importance
        samples from q, and 10 for other estimators. A larger number is cheaper, but after a large weight theta and f
        stay longer where they are. If another step method moves some variables, it must be 1, which is then the
        default.
    backend : "numpy", "jax" or JaxMatrices
        The library that computes and factorizes covariances. With "jax" this happens on a device that
        :class:`pmgp.steps.JaxMatrices` chooses, and the draws are the same up to rounding. It is for GPUs: on CPUs it
        takes longer than NumPy.
    $arguments

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``) and no Gaussian time series, its likelihood does not factorize over f,
        the prior of f depends on variables that are left to other step methods, or the proposal needs a gradient that
        an operation in the model does not have.
    ValueError
        For unknown approximations, estimators or proposals, an estimator that does not suit the likelihood, and
        settings out of range.

    Notes
    -----
    Sample statistics: ``accepted``, ``acceptance_rate``, ``log_marginal_likelihood`` (the stored estimate of
    log p(y|theta)), ``importance_draws`` and ``importance_ess`` (number of importance samples, particles or other draws
    of an estimate, and their effective number), ``n_cholesky``, ``n_inverse``, ``n_matmul`` (O(n^3) operations of the
    iteration), ``n_newton`` (Newton steps, or sweeps of expectation propagation, of all fits of the iteration),
    ``indefinite`` (a covariance could not be factorized), ``converged`` (all approximations converged; expectation
    propagation that does not is replaced with Laplace's approximation), ``orthants`` and ``sequential`` (whether
    :class:`OrthantSampling` or :class:`SequentialSampling` makes the estimates, which is known after tuning), ``exact``
    (false for ``estimator="none"``, and while tuning). The moves on the screen have ``screen_acceptance_rate``,
    ``n_steps`` (evaluations of the screen, such as leapfrog steps), and for trajectories ``step_size``,
    ``energy_error`` and ``diverging`` (the screen could not be evaluated somewhere, or the steps were much too long;
    the trajectory was rejected).

    References
    ----------
    Filippone, M. and Girolami, M. (2014). Pseudo-marginal Bayesian inference for Gaussian processes. IEEE TPAMI 36.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pm.Model():
    ...     lengthscale = pm.Gamma("lengthscale", 2, 4)
    ...     gp = pm.gp.Latent(cov_func=4.0 * pm.gp.cov.Matern52(1, ls=lengthscale))
    ...     f = gp.prior("f", X=X, reparameterize=False)
    ...     y = pm.Poisson("y", pm.math.exp(f), observed=np.arange(20))
    ...     step = pmgp.PseudoMarginal()
    ...     idata = pm.sample(50, tune=50, chains=2, cores=1, step=step, random_seed=1, progressbar=False)
    >>> bool(idata.sample_stats["exact"].all())
    True
    """

    name = "pseudo_marginal"
    default_tune_steps = 1000
    stats_dtypes_shapes: ClassVar = STATISTICS
    _state_class = PseudoMarginalState
    _given_theta: ClassVar[bool] = False
    _moves_series: ClassVar[bool] = True
    # The point of the screen at theta is a function of theta and of the frozen predictor: a cache, not state.
    _current: Point | None

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        approximation: Approximation | str = "auto",
        estimator: Estimator | str = "auto",
        proposal: AdaptiveTransition | str = "auto",
        latent: Any = None,
        target_acceptance: float | None = None,
        delayed_acceptance: bool = True,
        transitions: int = 1,
        latent_moves: int = 1,
        refresh_every: int | None = None,
        backend: Matrices | str = "numpy",
        **others: Unpack[PyMCArguments],
    ) -> None:
        check_settings(latent_moves, refresh_every, transitions, delayed_acceptance)
        self._matrices = matrices_of(backend)
        super().__init__(vars, latent=latent, **others)
        if (found := self.latent_model.latent_vector.in_words()) is not None:
            logger.info(found)
        of_model = unidentified(pm.modelcontext(others.get("model")), self.latent_model)
        for unclear in (of_model, several_maxima(self.latent_model)):
            if unclear is not None:
                warnings.warn(unclear, stacklevel=2)
        self.approximation = chosen_approximation(approximation, self.latent_model)
        self._evaluate = Evaluator(self._moving, self.approximation, persistent=not self._moves_all)
        self.units = self._suitable_units()
        if isinstance(self.approximation, Laplace):
            self.latent_model.compile_derivatives(second=True)
        dimension = len(self._moving.moved)
        on_screen = ThetaTarget(self.latent_model, self._computed, dimension, self.approximation, delayed_acceptance)
        transition = chosen_proposal(proposal, target_acceptance, on_screen)
        chosen, self._others = chosen_estimators(estimator, self.latent_model, self._matrices)
        self.exact = not isinstance(chosen, ApproximateEvidence)
        self.scheme = PseudoMarginalChain(
            chosen,
            transition,
            delayed_acceptance,
            transitions,
            latent_moves=latent_moves if self.exact else 0,
            refresh_every=self._refreshed_every(refresh_every),
        )
        if not self.latent_model.latent_vector.predictors.several:
            with announced():
                likelihood = self.latent_model.likelihood(self.latent_model.initial_theta)
                compile_kernels(self.approximation, likelihood, chosen)
        self._reset(0, 0)

    def _own_variables(self, vars: list[Any] | None, model: pm.Model) -> list[Any]:
        parts = self.latent_model
        moved = moved_values(vars, model, parts)
        self._moved_names = [value.name for value in moved]
        self._computed = self._matrices.model(parts)
        self._moving = GivenElements(self._computed, parts.theta.places(moved), parts.initial_theta)
        # No hyper-parameter is left to another step method.
        self._moves_all = len(self._moving.moved) == parts.dimension
        return [*moved, *super()._own_variables(vars, model)]

    @property
    def units(self) -> np.ndarray:
        """Units of the elements that move: `theta`, and all that tuning learns, is measured in them."""
        return self._moving.units

    @units.setter
    def units(self, found: np.ndarray) -> None:
        self._moving.units = found
        usual = self._moves_all and (found == 1.0).all()
        self._evaluate.model = self._computed if usual else self._moving

    def _suitable_units(self) -> np.ndarray:
        """Return units in which the posterior is not far wider or narrower than one at the initial point."""
        initial = self._moving.part(self.latent_model.initial_theta)
        return units(self._moving.log_prior, lambda theta: self._evaluate(theta, None).log_screen, initial)

    def _refreshed_every(self, asked: int | None) -> int | None:
        """Return the iterations between refreshments: 1 beside other step methods, which move given the particle f."""
        if self._moves_all:
            return asked
        if asked not in (None, 1):
            raise ValueError(f"refresh_every must be 1 beside another step method, not {asked}; leave it out")
        return 1

    @property
    def given(self) -> np.ndarray:
        """A complete theta; its elements that this step does not move have their values in the chain's point."""
        return self._moving.theta

    @given.setter
    def given(self, theta: np.ndarray) -> None:
        self._moving.theta = theta

    def _whole(self) -> np.ndarray:
        """Return theta with the elements that other step methods move."""
        return self._moving.whole(self.theta)

    def _reset(self, n_tune: int, n_draws: int) -> None:
        super()._reset(n_tune, n_draws)
        self.n_tune, self.n_draws = n_tune, n_draws
        self.indefinite = self.unconverged = 0
        self.theta = np.empty(0)
        self.latent = np.empty(0)
        self.given = self.latent_model.initial_theta
        self.tuning: Tuning | None = None
        self.frozen: Frozen | None = None
        self.chain: State | None = None

    def _update(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        if self.tuning is None and self.chain is None:
            self._start(point)
        elif not self.latent_model.theta.agrees(point, self._whole()):
            self._follow(self.latent_model.ravel(point))
        stats, model = self._move(), self.latent_model
        values, latent = model.unravel(theta := self._whole()), model.unravel_latent(self.latent, theta)
        return {name: values[name] for name in self._moved_names} | latent, stats

    def _follow(self, theta: np.ndarray) -> None:
        """Continue from a theta in which other step methods have moved their variables.

        They leave p(others|f, theta, y) invariant. Given theta and f, the estimate and all particles except f are drawn
        again, as in a refreshment, so that the chain's state is again a draw from its extended target.
        """
        before = self.latent_model.theta.rounded(self._whole())
        if not np.array_equal(self._moving.part(theta), self._moving.part(before)):
            raise SamplingError(
                "another step method moved the hyper-parameters that PseudoMarginal moves, which would invalidate the "
                f"stored estimate of p(y|theta): leave {', '.join(self._moved_names)} to PseudoMarginal alone"
            )
        self.given, self._current = theta, None
        if self.chain is not None and self.frozen is not None:
            ready = self._current = self._ready(self.frozen.predictor)
            state = self.chain._replace(particle=self.latent)
            self.chain = self.scheme.refresh(self.rng, state, ready.payload, self.frozen)

    def _move(self) -> dict[str, Any]:
        if self.chain is not None and self.frozen is not None:
            return self._sampling_step(self.chain, self.frozen)
        assert self.tuning is not None
        return self._tuning_step(self.tuning)

    def _finish_tuning(self) -> None:
        """Freeze the learned proposal, choose the estimator and its number of draws, and start the exact chain."""
        if self.tuning is None:
            return
        # The size is that of the state's f: a chain that is restored here has not seen a point yet.
        point = self.latent_model.unravel_latent(self.latent, self._whole())
        with self._limited(self.latent_model.latent_vector.sites(point)):
            self._freeze(self.tuning)

    def _start(self, point: dict[str, np.ndarray]) -> None:
        self.given = self.latent_model.ravel(point)
        current = self._usable(self._moving.part(self.given))
        if current is not None and self.tune:
            current = self._disperse(current)
        elif self.tune and fault_of_theta(self.latent_model, self.given) is None:
            current = self._elsewhere(self._moving.part(self.given))
        if current is None:
            raise SamplingError(unusable_start(self.latent_model, self.given))
        self._hold(current)
        size = len(self._evaluate.start_from(current.payload))
        self.tuning = Tuning(self.scheme.transition, len(self._moving.moved), size, max(self.n_tune, 1))
        if not self.tune:
            self._freeze(self.tuning)

    def _elsewhere(self, theta: np.ndarray) -> Point | None:
        """Return the screen at a theta near the given one, which cannot be used, or farther and farther from it."""
        for distance in range(1, START_ATTEMPTS + 1):
            found = self._usable(theta + self.rng.uniform(-distance, distance, theta.shape))
            if found is not None:
                used = self._moving.whole(found.position)
                warnings.warn(moved_start(self.latent_model, self.given, used), UserWarning, stacklevel=2)
                return found
        return None

    def _disperse(self, current: Point) -> Point:
        """Return the screen at a theta drawn within one unit of the given one: R-hat supposes dispersed starts."""
        theta = current.position
        for _ in range(START_ATTEMPTS):
            shifted = self._usable(theta + self.rng.uniform(-1.0, 1.0, theta.shape))
            if shifted is not None:
                return shifted
        return current

    def _usable(self, theta: np.ndarray) -> Point | None:
        """Return the point of the screen at theta, or None if no chain can start there."""
        point = self._screened(theta, None)
        if not isinstance(point.payload, Fitted) or not np.isfinite(point.log_density):
            return None
        fitted = point.payload.with_prior_factor()
        return None if fitted is None else point._replace(payload=fitted)

    def _screened(self, theta: np.ndarray, predictor: Predictor | None) -> Point:
        """Return the point of the screen at theta, with a gradient if the transition needs it."""
        return ScreenDensity(self._evaluate, predictor).at(theta, gradient=self.scheme.transition.derivatives > 0)

    def _freeze(self, tuning: Tuning) -> None:
        predictor = tuning.starts
        choice = choose_estimator(self.rng, self.scheme, self._others, tuning.kept, self._evaluate, predictor)
        learned = self.scheme.transition.freeze(tuning.learned)
        self.frozen = Frozen(learned, predictor, choice.draws, choice.estimator)
        if choice.draws is not None and choice.spread > LARGE_SPREAD:
            name = type(self.scheme.estimator_of(self.frozen)).__name__
            warnings.warn(large_spread(choice.draws, choice.spread, name), UserWarning, stacklevel=2)
        # With the frozen predictor q differs from the last one.
        self._current = None
        ready = self._ready(predictor)
        self._hold(ready)
        try:
            self.chain = self.scheme.init(self.rng, ready.payload, self.frozen)
        except FloatingPointError as error:
            raise SamplingError(str(error)) from error
        self.tuning = None

    def _hold(self, current: Point) -> None:
        self._current, self.theta, self.latent = current, current.position, current.payload.approximation.mean
        if not self._moves_all:
            # Other step methods move given f, so f must be a draw from q and not its mean.
            self.latent = current.payload.approximation.sample(self.rng, 1)[0]

    def _point(self, predictor: Predictor | None) -> Point:
        """Return the point at theta, computed again if a restored state came without it."""
        if self._current is None:
            point = self._screened(self.theta, predictor)
            if not isinstance(point.payload, Fitted):
                raise SamplingError(unusable_start(self.latent_model, self._whole()))
            self._current = point
        return self._current

    def _ready(self, predictor: Predictor | None) -> Point:
        point = self._point(predictor)
        ready = self._evaluate.prepare(point.payload)
        if not isinstance(ready, Ready):
            raise SamplingError(unusable_start(self.latent_model, self._whole()))
        return point if ready is point.payload else point._replace(payload=ready)

    def _tuning_step(self, tuning: Tuning) -> dict[str, Any]:
        current, info = tuning.step(self.rng, self._point(tuning.starts), self._evaluate)
        self._hold(current)
        if tuning.starts_changed:
            self._current = None
        return tuning_statistics(current, info)

    def _sampling_step(self, chain: State, frozen: Frozen) -> dict[str, Any]:
        current = self._ready(frozen.predictor)
        self.chain, self._current, info = self.scheme.step(self.rng, chain, current, self._evaluate, frozen)
        self.theta, self.latent = self.chain.theta, info.latent
        self.indefinite += info.indefinite
        self.unconverged += not info.converged
        if self.chain.iteration == self.n_draws:
            self._report_failures()
        return sampling_statistics(self.chain, info, frozen, self.scheme.estimator_of(frozen), self.exact)

    def _report_failures(self) -> None:
        if self.indefinite:
            warnings.warn(indefinite_proposals(self.indefinite, self.n_draws), UserWarning, stacklevel=2)
        if self.unconverged:
            warnings.warn(unconverged_proposals(self.unconverged, self.n_draws), UserWarning, stacklevel=2)
