"""Hamiltonian Monte Carlo for all variables of a model together, without compilation.

The article's sampler (section 3) has trajectories of random length, tuned for the expected squared jump and then
frozen. Here the coordinates are also whitened with the covariance of the tuning draws. NumPy and LAPACK, or JAX,
compute the model's log-density and its gradient.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.pytensorf import join_nonshared_inputs
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pmgp.core.adaptation.moments import Moments
from pmgp.core.adaptation.squared_jumps import SquaredJumps
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.numerics.linalg import triangular_product, triangular_solve
from pmgp.core.transitions.adaptive import check_leapfrog, check_target
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.hamiltonian import hamiltonian
from pmgp.interface.sparse.steps import NOT_FINITE, SparseStep
from pmgp.interface.steps.base import ACCEPTANCE, EVALUATIONS
from pmgp.interface.steps.matrices import Matrices, matrices_of
from pmgp.interface.steps.progress import AcceptanceProgress

# Parts of tuning after which the scale becomes the covariance of the draws since the previous part.
WINDOWS = (0.1, 0.25, 0.45, 0.7)
# The share of a window's trajectories that must have been accepted for its draws to show a scale.
MOVED = 0.5
# The part after which lengths take turns, with the step size fixed.
LENGTHS = 0.8
# The longest trajectory before that part.
WHILE_TUNING = 16


class Scaled:
    """The model's log-density in coordinates x, where the variables are L x, L lower triangular."""

    def __init__(self, function: Any, factor: np.ndarray) -> None:
        self._function = function
        self._factor = factor

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the value at a position, with the gradient."""
        variables = triangular_product(self._factor, position)
        value, slope = self._function(variables)
        return Point(position, float(value), variables, triangular_product(self._factor, slope, transpose=True))

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density: (d,) -> (d,)."""
        return self.at(position).gradient

    def start(self, variables: np.ndarray) -> Point:
        """Return the point that corresponds to the given variables."""
        return self.at(triangular_solve(self._factor, variables))


@dataclass_state
class SparseHMCState(StepMethodState):
    """Everything that changes while a chain runs."""

    tune: bool
    iteration: int
    n_tune: int
    step_size: StepSize
    max_steps: int
    factor: np.ndarray
    draws: Moments
    moves: int
    jumps: SquaredJumps
    chain: Point | None
    names: tuple[str, ...] = field(metadata={"frozen": True})


class SparseHMC(AcceptanceProgress, SparseStep):
    r"""A Hamiltonian Monte Carlo sampler of whitened values and hyper-parameters of :class:`pmgp.gp.Sparse` models.

    The number of leapfrog steps in a trajectory is uniform between 1 and a maximum. While a chain tunes, it learns the
    covariance of its draws, in whose coordinates it moves, the step size for an acceptance rate, and the maximum number
    of steps, from the expected squared jump over the square root of that number. Nothing changes afterwards.

    By default nothing is compiled, so the first draw comes after a second or two. The sampler takes every model whose
    free variables are continuous, and is meant for those whose gradient is mostly linear algebra.

    Parameters
    ----------
    vars : list of variables, optional
        All free variables, which is the default.
    max_leapfrog : int
        Largest number of leapfrog steps that tuning may choose.
    target_acceptance : float
        Acceptance rate for which the step size is tuned.
    backend : "numpy", "jax" or JaxMatrices
        The library that computes the log-density and its gradient. With "jax" they are compiled for a device, which
        takes some seconds, and is meant for accelerators.
    model, rng, initial_point, compile_kwargs, blocked
        The arguments of every PyMC step method.

    Raises
    ------
    ModelError
        If the model has variables that depend on the whitened values, and that no data depend on. Add conditionals at
        new inputs after sampling.
    ValueError
        If the model has discrete free variables, or `vars` are not all of its variables; for settings out of range,
        and data that ``observe`` would refuse. When a chain starts, if the log-density there is not finite.

    Notes
    -----
    Sample statistics: ``tune``, ``accepted``, ``acceptance_rate``, ``step_size``, ``n_evaluations`` (of the gradient).

    References
    ----------
    Hensman, J., Matthews, A. G. de G., Filippone, M. and Ghahramani, Z. (2015). MCMC for variationally sparse Gaussian
    processes. *NIPS* 28.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X = np.linspace(0.0, 1.0, 200)[:, None]
    >>> with pm.Model():
    ...     gp = pmgp.gp.Sparse(cov_func=4.0 * pm.gp.cov.Matern52(1, ls=pm.Gamma("lengthscale", 2, 4)))
    ...     f = gp.prior("f", X=X, Xu=X[::20])
    ...     y = gp.observe("y", f, dist=lambda f: pm.Bernoulli.dist(logit_p=f), observed=X[:, 0] > 0.5)
    ...     step = pmgp.steps.SparseHMC()
    ...     idata = pm.sample(20, step=step, tune=20, chains=1, cores=1, random_seed=1, progressbar=False)
    >>> sorted(idata.posterior.data_vars)
    ['f_rotated_', 'lengthscale']
    """

    name = "sparse_hmc"
    stats_dtypes_shapes: ClassVar = ACCEPTANCE | {"step_size": (np.float64, [])} | EVALUATIONS
    _state_class = SparseHMCState

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        max_leapfrog: int = 32,
        target_acceptance: float = 0.8,
        backend: Matrices | str = "numpy",
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        check_target(target_acceptance)
        check_leapfrog(max_leapfrog)
        self.max_leapfrog = max_leapfrog
        self.target_acceptance = target_acceptance
        self._matrices = matrices_of(backend)
        super().__init__(vars, model, rng, initial_point, blocked)

    def _function_of(self, model: pm.Model, point: dict[str, np.ndarray]) -> Any:
        """Return the log-density and its gradient as a function of one vector of all variables."""
        [log_density], vector = join_nonshared_inputs(point, [model.logp()], self.vars)
        return self._matrices.density(log_density, vector, self.dimension)

    def _reset(self, n_tune: int, n_draws: int) -> None:
        self.tune = n_tune > 0
        self.iteration, self.n_tune = 0, n_tune
        self.step_size = StepSize.start(0.5 * self.dimension**-0.25)
        self.max_steps = min(WHILE_TUNING, self.max_leapfrog)
        self.factor = np.eye(self.dimension, order="F")
        self.draws, self.moves = Moments(self.dimension), 0
        self.jumps = SquaredJumps.start(self.max_leapfrog)
        self.chain: Point | None = None

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Move all variables along one trajectory."""
        variables = self._vector(point)
        with self._limited(self._observations):
            density = Scaled(self.function, self.factor)
            # The point's variables may be in single precision.
            if self.chain is None or not np.array_equal(self._vector(self._named(self.chain.payload)), variables):
                self.chain = density.start(variables)
                if not np.isfinite(self.chain.log_density):
                    raise ValueError(NOT_FINITE)
            before, value = self.chain, self.step_size.value if self.tune else self.step_size.frozen
            self.chain, info = hamiltonian(self.rng, before, density, value, self.max_steps)
        stats = {
            "tune": self.tune,
            "accepted": float(info.accepted),
            "acceptance_rate": info.acceptance_rate,
            "step_size": value,
            "n_evaluations": info.evaluations,
        }
        moved = self._named(self.chain.payload)
        if self.tune:
            self._learn(before, info)
        return point | moved, [stats]

    def _learn(self, before: Point, info: TransitionInfo) -> None:
        assert self.chain is not None
        self.iteration += 1
        if self.iteration > LENGTHS * self.n_tune:
            jump = float(np.square(self.chain.position - before.position).sum())
            self.jumps = self.jumps.added(self.max_steps, jump)
            self.max_steps = self.jumps.turn
            return
        self.step_size = self.step_size.updated(info.acceptance_rate, self.target_acceptance)
        self.draws.add(self.chain.payload)
        self.moves += int(info.accepted)
        if self.iteration in [int(part * self.n_tune) for part in WINDOWS]:
            self._rescale()

    def _rescale(self) -> None:
        """Whiten the coordinates with the covariance of recent draws, whose correlations are shrunk.

        Draws are ignored if the chain hardly moved. Their variance would be so small that all further steps would be
        tiny and accepted, and the chain would stay there for good.
        """
        count = self.draws.count
        if count > 1 and self.moves > MOVED * count:
            sample = self.draws.scatter / (count - 1)
            weight = count / (count + 2.0 * self.dimension)
            covariance = weight * sample + (1.0 - weight) * np.diag(sample.diagonal())
            scale = np.linalg.cholesky(covariance + 1e-8 * np.diag(1e-8 + sample.diagonal()))
            self.factor = np.asfortranarray(scale)
            self.step_size = StepSize.start(self.dimension**-0.25)
            self.chain = None
        self.draws, self.moves = Moments(self.dimension), 0

    def stop_tuning(self) -> None:
        """Freeze what was learned."""
        super().stop_tuning()
        self.max_steps = self.jumps.best
