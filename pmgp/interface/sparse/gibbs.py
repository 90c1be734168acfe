"""A sampler that moves hyper-parameters and whitened values in turn, in coordinates that make them almost independent.

The target is that of the sparse MCMC article, whose own sampler moves all variables together. Here theta moves with w
fixed, v = m(theta) + L(theta)^-T w, where N(m, (L L')^-1) is the Gaussian at the mode of v given theta: where it fits,
theta given w has theta's marginal distribution. Then w moves with theta fixed, and with it A: along a trajectory, and
on an elliptical slice.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.adaptation.moments import Moments
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.inducing import (
    Known,
    ModeSearch,
    Sites,
    ThetaDensity,
    WhitenedConditional,
    angle_to_learn,
    known_at,
    slices,
    trajectory,
)
from pmgp.core.inducing.trajectories import TARGET
from pmgp.core.transitions.adaptive import check_target
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.mixture import IndependenceMixture, LearnedMixture
from pmgp.interface.model.context import current_model
from pmgp.interface.model.points import value_point
from pmgp.interface.sparse.optimized import OptimizedInducing
from pmgp.interface.sparse.parts import SparseParts, sparse_parts
from pmgp.interface.sparse.steps import NOT_FINITE, SparseStep
from pmgp.interface.steps.base import ACCEPTANCE, EVALUATIONS
from pmgp.interface.steps.progress import ThetaProgress

# The part of tuning after which modes are used for learning, and the number of iterations between fits to them.
SETTLED = 0.3
FIT_EVERY = 50


@dataclass_state
class SparseGibbsState(StepMethodState):
    """Everything that changes while a chain runs."""

    tune: bool
    iteration: int
    n_tune: int
    learned: LearnedMixture
    angle: StepSize
    draws: Moments
    predictor: ModePredictor | None
    start: np.ndarray
    sites: Sites | None
    # The last point of the chain, and the quantities that made its coordinates.
    variables: np.ndarray | None
    w: np.ndarray
    searched_from: np.ndarray
    names: tuple[str, ...] = field(metadata={"frozen": True})


class SparseGibbs(ThetaProgress, SparseStep):
    r"""A sampler of :class:`pmgp.gp.Sparse` models: Metropolis for hyper-parameters, trajectories for whitened values.

    The whitened values v are written as :math:`m(\theta) + L(\theta)^{-\top} w`, with the Gaussian at the mode of their
    density given :math:`\theta`. First :math:`\theta` moves with w fixed, with the mixture of a random walk and
    independent proposals that :class:`pmgp.PseudoMarginal` uses. Then w moves: first with Hamiltonian Monte Carlo, in
    which the Gaussian's own motion is exact and a few gradients make a nearly independent draw, then with an elliptical
    slice, which moves even where trajectories are rejected. Where that Gaussian fits, w and :math:`\theta` are almost
    independent, unlike v and :math:`\theta`. The target stays the same however badly it fits.

    Use this sampler for up to about five hyper-parameters; for many of them, use :class:`pmgp.steps.SparseHMC`, which
    follows their gradient. Nothing is compiled.

    Parameters
    ----------
    vars : list of variables, optional
        All free variables, which is the default.
    theta_moves : int
        Number of proposals for the hyper-parameters in an iteration.
    trajectories : int
        Number of trajectories of w in an iteration, which may be zero. Each takes up to eight steps, with a gradient of
        the likelihood and two products of an M x N matrix with a vector for each. Tuning adapts the angle of a step.
    slices : int
        Number of elliptical slices of w in an iteration; each costs a product of an M x N matrix with a vector.
    target_acceptance : float
        The acceptance rate for which the random walk is tuned.
    approximation : OptimizedInducing, optional
        An approximation of this model with its present inducing inputs. The Gaussian at each :math:`\theta` then comes
        from the sites of its q, and no mode is searched for. Use it for likelihoods that are not log-concave, such as
        :class:`pmgp.likelihoods.RobustMax`, for which the search is slow, and a small change of :math:`\theta` leads it
        elsewhere. Give the approximation's ``initvals`` too.
    model, rng, initial_point, compile_kwargs, blocked
        The arguments of every PyMC step method.

    Raises
    ------
    ModelError
        If the model does not have exactly one `Sparse` process, or uses its whitened values outside ``observe``. Add
        conditionals at new inputs after sampling.
    ValueError
        If the model has discrete free variables, or `vars` are not all of its variables; for settings out of range,
        and data that ``observe`` would refuse. When a chain starts, if the log-density there is not finite.

    Notes
    -----
    Sample statistics: ``tune``, ``accepted`` and ``acceptance_rate`` (of theta), ``theta_acceptance``,
    ``trajectory_acceptance``, ``n_evaluations`` (of the likelihood by moves of w).

    References
    ----------
    Hensman, J., Matthews, A. G. de G., Filippone, M. and Ghahramani, Z. (2015). MCMC for variationally sparse Gaussian
    processes. *NIPS* 28. (The target.)

    Murray, I. and Adams, R. P. (2010). Slice sampling covariance hyperparameters of latent Gaussian models. *NIPS* 23.
    (Hyper-parameters in coordinates of a Gaussian approximation.)

    Murray, I., Adams, R. P. and MacKay, D. J. C. (2010). Elliptical slice sampling. *AISTATS*.

    Shahbaba, B., Lan, S., Johnson, W. O. and Neal, R. M. (2014). Split Hamiltonian Monte Carlo. *Statistics and
    Computing* 24. (Trajectories whose Gaussian part is exact.)

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X = np.linspace(0.0, 1.0, 200)[:, None]
    >>> with pm.Model():
    ...     gp = pmgp.gp.Sparse(cov_func=4.0 * pm.gp.cov.Matern52(1, ls=pm.Gamma("lengthscale", 2, 4)))
    ...     f = gp.prior("f", X=X, Xu=X[::20])
    ...     y = gp.observe("y", f, dist=lambda f: pm.Bernoulli.dist(logit_p=f), observed=X[:, 0] > 0.5)
    ...     step = pmgp.steps.SparseGibbs()
    ...     idata = pm.sample(20, step=step, tune=20, chains=1, cores=1, random_seed=1, progressbar=False)
    >>> sorted(idata.posterior.data_vars)
    ['f_rotated_', 'lengthscale']
    """

    name = "sparse_gibbs"
    stats_dtypes_shapes: ClassVar = (
        ACCEPTANCE | {"theta_acceptance": (np.float64, []), "trajectory_acceptance": (np.float64, [])} | EVALUATIONS
    )
    _state_class = SparseGibbsState

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        theta_moves: int = 1,
        trajectories: int = 1,
        slices: int = 1,
        target_acceptance: float = 0.25,
        approximation: OptimizedInducing | None = None,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        check_target(target_acceptance)
        for name, number in {"theta_moves": theta_moves, "slices": slices}.items():
            if number < 1:
                raise ValueError(f"{name} must be 1 or more, not {number}")
        if trajectories < 0:
            raise ValueError(f"trajectories must be 0 or more, not {trajectories}")
        self.theta_moves, self.trajectories, self.slices = theta_moves, trajectories, slices
        self.transition = IndependenceMixture(target_acceptance)
        self.sites: Sites | None = None
        super().__init__(vars, model, rng, initial_point, blocked)
        if approximation is not None:
            self.follow(approximation, current_model(model))

    def follow(self, approximation: OptimizedInducing, model: pm.Model) -> None:
        """Use the sites of a Gaussian approximation, which must have been made for the step's model."""
        shape = self.function.shape
        if (approximation.whitened, approximation.mean.shape) != (self.function.latent_name, shape):
            raise ValueError(
                f"the approximation has values {approximation.whitened!r} of shape {approximation.mean.shape}, but the "
                f"model has {self.function.latent_name!r} of shape {shape}: use pmgp.gp.optimize_inducing on this model"
            )
        theta = self.function.theta_of(value_point(model, approximation.point))
        with self._limited(self._observations):
            self.sites = self.function.sites(theta, approximation.mean, approximation.factor)
        self._forget()

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Prepare for a chain, and check that an approximation has as many observations as the model has now."""
        super().setup_chain(rng, tune, draws)
        if self.sites is None:
            return
        _, conditional = self.function.at(np.zeros(self._theta_dimension))
        known, now = self.sites.linear.shape[-1], conditional.offset.shape[-1]
        if known != now:
            raise ValueError(
                f"the approximation was made for {known} observations, but the model now has {now}: make a new one "
                "with pmgp.gp.optimize_inducing, and give it to a new step method"
            )

    def _function_of(self, model: pm.Model, point: dict[str, np.ndarray]) -> SparseParts:
        return sparse_parts(model, point)

    @property
    def _theta_dimension(self) -> int:
        return sum(int(np.prod(self._shapes[name])) for name in self.function.theta_names)

    def _reset(self, n_tune: int, n_draws: int) -> None:
        shape = self.function.shape
        self.tune = n_tune > 0
        self.iteration, self.n_tune = 0, n_tune
        self.learned = self.transition.start(self._theta_dimension, n_tune)
        self.angle = angle_to_learn()
        self.draws = Moments(self._theta_dimension)
        self.predictor: ModePredictor | None = None
        self.start, self.searched_from, self.w = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.variables: np.ndarray | None = None
        self._forget()

    def _caches(self) -> dict[str, Any]:
        return {"_known": None}

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Move theta, then w."""
        with self._limited(self._observations):
            theta = self.function.theta_of(point)
            known = self._at(point, theta)
            current = Point(theta, known.log_density(self.w), known)
            if not np.isfinite(current.log_density):
                raise ValueError(NOT_FINITE)
            infos = []
            for _ in range(self.theta_moves if len(theta) else 0):
                density = ThetaDensity(self._conditional_at, self.w, self._search)
                current, info = self.transition.step(self.rng, current, density, self.learned)
                infos.append(info)
                if self.tune:
                    self.learned = self.transition.learn(self.learned, current, info)
            known = self._known = current.payload
            rates, evaluations = self._move_values(known)
            self.searched_from = known.start
            moved = self._moved(current.position, known.values(self.w))
            if self.tune:
                self._learn(current.position, known)
        self.variables = self._vector(moved)
        return point | moved, [self._statistics(infos, rates, evaluations)]

    def _move_values(self, known: Known) -> tuple[list[float], int]:
        """Move w with theta fixed; return the trajectories' acceptance rates, and the number of evaluations."""
        rates, evaluations = [], 0
        for _ in range(self.trajectories):
            moved = trajectory(self.rng, known.conditional, known.fit, self.w, self.angle.value)
            self.w, evaluations = moved.w, evaluations + moved.evaluations
            rates.append(moved.acceptance_rate)
            if self.tune:
                self.angle = self.angle.updated(moved.acceptance_rate, TARGET)
        self.w, made = slices(self.rng, known.conditional, known.fit, self.w, self.slices)
        return rates, evaluations + made

    def _conditional_at(self, theta: np.ndarray) -> tuple[float, WhitenedConditional]:
        return self.function.at(theta, slopes_alone=self.sites is not None)

    @property
    def _search(self) -> ModeSearch:
        return ModeSearch(self.predictor, self.start, self.sites)

    def _at(self, point: dict[str, np.ndarray], theta: np.ndarray) -> Known:
        """Return the quantities at the chain's point; compute w anew only if another step has moved the variables."""
        same = self.variables is not None and np.array_equal(self._vector(point), self.variables)
        if same and self._known is not None:
            return self._known
        start = self.searched_from if same else self._search.start(theta)
        known = known_at(self._conditional_at, theta, start, self._search)
        if known is None:
            raise ValueError(NOT_FINITE)
        if not same:
            self.w = known.fit.whitened(point[self.function.latent_name].reshape(self.function.shape))
        return known

    def _moved(self, theta: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
        sizes = [int(np.prod(self._shapes[name])) for name in self.function.theta_names]
        parts = np.split(theta, np.cumsum(sizes)[:-1]) if sizes else []
        values = dict(zip(self.function.theta_names, parts, strict=True)) | {self.function.latent_name: v}
        return self._shaped(values)

    def _learn(self, theta: np.ndarray, known: Known) -> None:
        """Learn from the modes found so far, to predict where the next ones are."""
        self.iteration += 1
        self.start = known.fit.mode
        if not len(theta) or self.sites is not None:
            return
        self.draws.add(theta)
        if self.iteration == int(SETTLED * self.n_tune) and self.draws.count > 1:
            scale = np.sqrt(self.draws.scatter.diagonal() / (self.draws.count - 1)) + 1e-3
            self.predictor = ModePredictor(len(theta), known.fit.mode.size, self.draws.mean, scale)
        if self.predictor is not None:
            self.predictor.add(theta, known.fit.mode.ravel())
            if self.iteration % FIT_EVERY == 0:
                self.predictor.solve()

    def _statistics(self, infos: list[TransitionInfo], rates: list[float], evaluations: int) -> dict[str, Any]:
        made = max(len(infos), 1)
        rate = sum(info.acceptance_rate for info in infos) / made
        return {
            "tune": self.tune,
            "accepted": sum(info.accepted for info in infos) / made,
            "acceptance_rate": rate,
            "theta_acceptance": rate,
            "trajectory_acceptance": float(np.mean(rates)) if rates else np.nan,
            "n_evaluations": evaluations,
        }

    def stop_tuning(self) -> None:
        """Freeze what was learned."""
        super().stop_tuning()
        self.learned = self.transition.freeze(self.learned)
        self.angle = self.angle.settled()
        if self.predictor is not None:
            self.predictor.solve()
        self.variables = None
        self._forget()
