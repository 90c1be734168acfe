"""Parallel tempering for models on inducing inputs whose likelihood falls by steps, as that of robust-max does.

The target is that of the sparse MCMC article. Its own samplers stay in the cell between cliffs in which they start:
each observation that changes sides costs log(epsilon). Replicas at powers of the likelihood below one go over these
cliffs, and exchanges bring what they find to the posterior. Within a replica theta moves with u held, with v = R^-1 u
held, and with noisy copies of the latent values, and v by slices along coordinates. No Gaussian is fitted, and no
gradient is followed.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from case_studies.sparse.coordinates import coordinate_slices
from case_studies.sparse.replicas import HELD, Replica, TemperedParts, exchanged, exchanges, moved, respaced
from pmgp.core.transitions.adaptive import check_target
from pmgp.interface.sparse.steps import SparseStep
from pmgp.interface.steps.base import ACCEPTANCE, EVALUATIONS
from pmgp.interface.steps.progress import ThetaProgress

__all__ = ["SparseTempering"]

# Step of an element of theta, on the unconstrained scale; and how fast steps learn.
FIRST_SCALE, LARGEST_SCALE = 0.1, 3.0
GAIN, DECAY = 2.0, 0.6
# Parts of tuning after which powers are spaced by the rejection rates since the one before.
RESPACED = (0.1, 0.2, 0.4, 0.7)


@dataclass_state
class SparseTemperingState(StepMethodState):
    """Everything that changes while a chain runs."""

    tune: bool
    iteration: int
    n_tune: int
    powers: np.ndarray
    # Variance of the latent values where the chain began: what noisy copies are measured by.
    unit: float
    # Log-scales of steps: (powers, what is held, elements of theta).
    log_scales: np.ndarray
    rejected: np.ndarray
    offered: np.ndarray
    # The replicas' states, the posterior's first; which of them have been at the smallest power since the largest.
    thetas: np.ndarray | None
    values: np.ndarray | None
    back: np.ndarray
    round_trips: int
    names: tuple[str, ...] = field(metadata={"frozen": True})


class SparseTempering(ThetaProgress, SparseStep):
    r"""Parallel tempering for models of :class:`pmgp.gp.Sparse` with :class:`~pmgp.likelihoods.RobustMax`.

    The expected logarithm of robust-max falls by :math:`\log \epsilon` where the label of an observation is no longer
    that of the largest latent value, and by nothing between: the posterior is one of many cells, which other step
    methods do not leave. Here replicas of :math:`\theta` and :math:`\mathbf v` are at the powers
    :math:`1 = \beta_1 > \dots > \beta_T` of the likelihood, and neighbors exchange their states; the chain is the first
    replica. In each, every hyper-parameter moves by random walks: with the values :math:`\mathbf u` at the inducing
    inputs held, on which the cliffs depend, with :math:`\mathbf v = R^{-1} \mathbf u` held, on which the prior does,
    and twice with noisy copies of the latent values held, as surrogate data. Then every coordinate of :math:`\mathbf v`
    moves by a slice. For robust-max a sweep of slices is one compiled call, in which an evaluation costs a comparison
    for most observations.

    Parameters
    ----------
    vars : list of variables, optional
        Must be all free variables, the default.
    temperatures : int
        Number T of replicas, by which an iteration takes longer. Powers are spaced geometrically at first, and while
        the chain tunes so that all exchanges are rejected equally often.
    hottest : float
        The smallest power of the likelihood. With one temperature it is not used.
    theta_moves : int
        How often each hyper-parameter moves in each of these four ways in an iteration.
    sweeps : int
        Number of sweeps of slices in an iteration.
    target_acceptance : float
        What the random walks are tuned to.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has not one process of `Sparse`, or uses its whitened values in other ways than by ``observe``.
    ValueError
        If the model has discrete free variables, or `vars` are not all of its variables; for settings out of range.

    Notes
    -----
    It takes every likelihood of `Sparse`; for those without cliffs :class:`pmgp.steps.SparseGibbs` is far faster.

    Sample statistics: ``tune``, ``accepted`` and ``acceptance_rate`` (of theta, at power one), ``theta_acceptance``,
    ``exchange_acceptance`` (on average over neighbors), ``round_trips`` (of replicas from power one to the smallest and
    back, since tuning ended), ``n_evaluations`` (of the likelihood by slices, at all powers).

    References
    ----------
    Hensman, J., Matthews, A. G. de G., Filippone, M. and Ghahramani, Z. (2015). MCMC for variationally sparse Gaussian
    processes. *NIPS* 28: the target.

    Geyer, C. J. (1991). Markov chain Monte Carlo maximum likelihood. *Computing Science and Statistics* 23.

    Syed, S., Bouchard-Côté, A., Deligiannidis, G. and Doucet, A. (2022). Non-reversible parallel tempering: a scalable
    highly parallel MCMC scheme. *Journal of the Royal Statistical Society B* 84: even and odd exchanges in turn, and
    how the powers are spaced.

    Murray, I. and Adams, R. P. (2010). Slice sampling covariance hyperparameters of latent Gaussian models. *NIPS* 23:
    surrogate data.

    Yu, Y. and Meng, X.-L. (2011). To center or not to center: that is not the question. *Journal of Computational and
    Graphical Statistics* 20: moves of hyper-parameters with one and with the other held.

    Murray, I., Adams, R. P. and MacKay, D. J. C. (2010). Elliptical slice sampling. *AISTATS*.
    """

    name = "sparse_tempering"
    stats_dtypes_shapes: ClassVar = (
        ACCEPTANCE
        | {"theta_acceptance": (np.float64, []), "exchange_acceptance": (np.float64, []), "round_trips": (np.int64, [])}
        | EVALUATIONS
    )
    _state_class = SparseTemperingState

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        temperatures: int = 16,
        hottest: float = 0.02,
        theta_moves: int = 1,
        sweeps: int = 1,
        target_acceptance: float = 0.3,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        check_target(target_acceptance)
        for name, number in {"temperatures": temperatures, "theta_moves": theta_moves, "sweeps": sweeps}.items():
            if number < 1:
                raise ValueError(f"{name} must be 1 or more, not {number}")
        if not 0.0 < hottest < 1.0:
            raise ValueError(f"hottest must be between 0 and 1, both excluded, not {hottest}")
        self.temperatures, self.hottest = temperatures, hottest
        self.theta_moves, self.sweeps = theta_moves, sweeps
        self.target_acceptance = target_acceptance
        super().__init__(vars, model, rng, initial_point, blocked)

    def _function_of(self, model: pm.Model, point: dict[str, np.ndarray]) -> TemperedParts:
        return TemperedParts(model, point)

    def _reset(self, n_tune: int, n_draws: int) -> None:
        self.tune = n_tune > 0
        self.iteration, self.n_tune = 0, n_tune
        self.powers = np.geomspace(1.0, self.hottest, self.temperatures) if self.temperatures > 1 else np.ones(1)
        self.unit = 1.0
        elements = self.dimension - int(np.prod(self.function.shape))
        self.log_scales = np.full((self.temperatures, len(HELD), elements), np.log(FIRST_SCALE))
        self.rejected, self.offered = np.zeros((2, self.temperatures - 1))
        self.thetas: np.ndarray | None = None
        self.values: np.ndarray | None = None
        self.back = np.zeros(self.temperatures, dtype=bool)
        self.round_trips = 0
        self._replicas: list[Replica] | None = None

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Moves in each replica, then exchanges."""
        with self._limited(self._observations):
            replicas = self._at(point)
            rates, evaluations = [], 0
            for place, power in enumerate(self.powers):
                replicas[place], accepted = self._theta_moved(replicas[place], place, float(power))
                replicas[place], made = self._swept(replicas[place], float(power))
                rates.append(accepted)
                evaluations += made
            replicas, exchange = self._exchanged(replicas)
        self._replicas = replicas
        self.iteration += 1
        if self.tune and self.iteration in [int(part * self.n_tune) for part in RESPACED]:
            self._respace()
        self.thetas = np.array([replica.theta for replica in replicas])
        self.values = np.array([replica.v for replica in replicas])
        moved_point = self._moved(self.thetas[0], self.values[0])
        return point | moved_point, [self._statistics(rates[0], exchange, evaluations)]

    def _at(self, point: dict[str, np.ndarray]) -> list[Replica]:
        """The replicas, the first of them where the chain is, even if another step has moved that."""
        theta = self.function.theta_of(point)
        v = np.asarray(point[self.function.latent_name], dtype=float).reshape(self.function.shape)
        if self.thetas is None or self.values is None:
            self.thetas = np.tile(theta, (self.temperatures, 1))
            self.values = np.tile(v, (self.temperatures, 1, 1))
            projections = self.function.known_at(theta).conditional.projections
            self.unit = float(np.mean([np.square(A).sum(axis=0).mean() for A in projections]))
            self._replicas = None
        same = np.array_equal(theta, self.thetas[0]) and np.array_equal(v, self.values[0])
        if self._replicas is None or not same:
            self.thetas[0], self.values[0] = theta, v
            self._replicas = [
                Replica.of(theta.copy(), v.copy(), self.function.known_at(theta))
                for theta, v in zip(self.thetas, self.values, strict=True)
            ]
            if not np.isfinite(self._replicas[0].log_density(1.0)):
                raise ValueError("the log-density is not finite where the chain starts: give other initial values")
        return self._replicas

    def _theta_moved(self, replica: Replica, place: int, power: float) -> tuple[Replica, float]:
        """Each element of theta in each way: the replica, and the average acceptance rate."""
        scales = self.log_scales[place]
        rates = np.zeros((self.theta_moves, *scales.shape))
        for index in np.ndindex(*rates.shape):
            _, way, element = index
            held = HELD[way] * self.unit if np.isfinite(HELD[way]) else HELD[way]
            move = held, element, float(np.exp(scales[way, element]))
            replica, rates[index] = moved(self.rng, replica, power, self.function.known_at, move)
            if self.tune:
                change = GAIN * (self.iteration + 1) ** -DECAY * (rates[index] - self.target_acceptance)
                scales[way, element] = min(scales[way, element] + change, np.log(LARGEST_SCALE))
        return replica, float(rates.mean()) if rates.size else 0.0

    def _swept(self, replica: Replica, power: float) -> tuple[Replica, int]:
        """Slices along all coordinates of v: the replica, and evaluations of the likelihood."""
        v, evaluations = replica.v, 0
        for _ in range(self.sweeps):
            v, made = coordinate_slices(self.rng, replica.at.conditional, v, power, replica.at.sweep)
            evaluations += made
        return Replica.of(replica.theta, v, replica.at), evaluations

    def _exchanged(self, replicas: list[Replica]) -> tuple[list[Replica], float]:
        """Offer exchanges between neighbors: the replicas, and the average acceptance rate."""
        pairs = exchanges(self.temperatures, self.iteration)
        order, rates = exchanged(self.rng, replicas, self.powers, pairs)
        self.back = self.back[order]
        self.back[-1] = True
        if self.back[0] and self.temperatures > 1:
            self.round_trips += not self.tune
            self.back[0] = False
        if self.tune:
            self.rejected[pairs] += 1.0 - rates
            self.offered[pairs] += 1.0
        return [replicas[place] for place in order], float(rates.mean()) if len(rates) else np.nan

    def _respace(self) -> None:
        if self.temperatures > 1 and self.offered.all():
            self.powers = respaced(self.powers, self.rejected / self.offered)
            self.rejected, self.offered = np.zeros((2, self.temperatures - 1))

    def _moved(self, theta: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
        sizes = [int(np.prod(self._shapes[name])) for name in self.function.theta_names]
        parts = np.split(theta, np.cumsum(sizes)[:-1]) if sizes else []
        values = dict(zip(self.function.theta_names, parts, strict=True)) | {self.function.latent_name: v}
        return {name: values[name].reshape(self._shapes[name]).copy() for name in self.names}

    def _statistics(self, rate: float, exchange: float, evaluations: int) -> dict[str, Any]:
        return {
            "tune": self.tune,
            "accepted": rate,
            "acceptance_rate": rate,
            "theta_acceptance": rate,
            "exchange_acceptance": exchange,
            "round_trips": self.round_trips,
            "n_evaluations": evaluations,
        }

    def _caches(self) -> dict[str, Any]:
        return {"_replicas": None}
