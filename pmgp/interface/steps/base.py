"""What PyMC asks of a step method, once for all of them: chains, states, pickles, threads, counted operations."""

from __future__ import annotations

from typing import Any, ClassVar, TypedDict

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep
from pymc.util import get_random_generator

from pmgp.core.numerics.ledger import counted
from pmgp.core.numerics.threads import threads_limited
from pmgp.core.transitions.base import TransitionInfo
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.steps.shared import share
from pmgp.interface.steps.threads import ThreadShare, share_of_chain

__all__ = ["ACCEPTANCE", "COUNTS", "EVALUATIONS", "Arguments", "GaussianProcessStep", "PyMCArguments"]

# Where PyMC keeps what a step method was constructed with, for the copy: the model, and variables.
CONSTRUCTED_WITH = "_BlockedStep__newargs"
COUNTS: dict[str, Any] = {"n_cholesky": (np.int64, []), "n_inverse": (np.int64, []), "n_matmul": (np.int64, [])}
"""Sample statistics of every step method: its operations in O(n^3)."""
ACCEPTANCE: dict[str, Any] = {"tune": (bool, []), "accepted": (np.float64, []), "acceptance_rate": (np.float64, [])}
"""Sample statistics of those that tune an acceptance rate."""
EVALUATIONS: dict[str, Any] = {"n_evaluations": (np.int64, [])}
"""Sample statistic of those that move by transitions of the core."""


class PyMCArguments(TypedDict, total=False):
    """What PyMC gives every step method by name."""

    model: pm.Model | None
    rng: Any
    initial_point: dict[str, np.ndarray] | None
    compile_kwargs: dict[str, Any] | None
    blocked: bool


class Arguments(PyMCArguments, total=False):
    """What every step method takes by name: which variables are f, and what PyMC gives."""

    latent: Any


class GaussianProcessStep(BlockedStep):
    """A step method for a model with one latent Gaussian vector f and hyper-parameters theta.

    It is pickled with its compiled functions, and without what only its constructor needed. It limits the threads of
    BLAS while it computes, and only then. PyMC never chooses it automatically.

    Subclasses define `_update`. What changes while a chain runs is a field of their `_state_class`, which `_reset`
    starts, or one of their `_caches`; their constructors end with ``_reset(0, 0)``.

    Parameters
    ----------
    vars
        As of the public step methods.
    factorizing : bool
        Refuse a likelihood that does not factorize over f, and compile its first and second derivatives together.
    gradient : bool
        Compile the first derivative of the likelihood by itself.
    latent, model, rng, initial_point, compile_kwargs, blocked
        See `Arguments`.
    """

    default_blocked = True
    # As of `LatentGaussianModel`: whether f and theta are updated each given the other, and not both together.
    _given_theta: ClassVar[bool] = True
    # Whether it moves a time series, whose covariance matrix is not there.
    _moves_series: ClassVar[bool] = False
    _threads = ThreadShare()
    _n = 0

    def __init__(
        self,
        vars: list[Any] | None,
        *,
        factorizing: bool = False,
        gradient: bool = False,
        latent: Any = None,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument {min(unknown)!r}")
        model = pm.modelcontext(model)
        latent = self._latent_among(vars, latent, model)
        self.shared_model = share(model, latent, initial_point, compile_kwargs, self._given_theta)
        if not self._moves_series:
            self.latent_model.latent_prior.require_matrix()
        self.latent_name = self.latent_model.latent_name
        self.theta_names = self.latent_model.theta_names
        if factorizing:
            self.latent_model.require_factorizing()
        self.vars = self._own_variables(vars, model)
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        if factorizing:
            self.latent_model.compile_derivatives(second=True)
        if gradient:
            self.latent_model.compile_derivatives(second=False)

    @property
    def latent_model(self) -> LatentGaussianModel:
        """The model's parts, shared with the other steps of the model."""
        return self.shared_model.parts

    def _latent_among(self, vars: list[Any] | None, latent: Any, model: pm.Model) -> Any:
        """Which variable is to be f; None for the only one that can be."""
        return latent

    def _own_variables(self, vars: list[Any] | None, model: pm.Model) -> list[Any]:
        """The value variables that the step updates: f and missing observations, and nothing else."""
        return [*self.latent_model.latent_vector.values, *self.latent_model.missing_values]

    def _reset(self, n_tune: int, n_draws: int) -> None:
        """Start the state of a chain."""
        self.tune = n_tune > 0
        self._forget()

    def _update(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """One iteration: the values that may have changed, and sample statistics but for the counted operations."""
        raise NotImplementedError

    def _statistics(self, *infos: TransitionInfo) -> dict[str, Any]:
        """Means over the transitions of an iteration, and how many evaluations they made."""
        return {
            "tune": self.tune,
            "accepted": sum(info.accepted for info in infos) / len(infos),
            "acceptance_rate": sum(info.acceptance_rate for info in infos) / len(infos),
            "n_evaluations": sum(info.evaluations for info in infos),
        }

    def _finish_tuning(self) -> None:
        """What is to be done between tuning and sampling: nothing."""

    def _caches(self) -> dict[str, Any]:
        """Attributes that are functions of the state, with what stands there until they are computed."""
        return {"_current": None}

    def _forget(self) -> None:
        self.__dict__.update(self._caches())

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Forget the last chain, take this chain's random generator, and read the data again."""
        super().setup_chain(rng, tune, draws)
        # A spawned worker has it from the process that pickled the step.
        self._threads = share_of_chain() or self._threads
        with threads_limited(1):
            self.shared_model.refresh_data()
            self._reset(tune, draws)

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """One iteration."""
        self._n = self.latent_model.sites_of(point)
        with self._threads.limited(self._n), counted() as ledger:
            moved, stats = self._update(point)
            after = point | moved
            if (imputation := self.latent_model.imputation) is not None:
                after |= imputation.drawn(self.rng, after)
        made = ledger.total
        stats |= {"n_cholesky": made.cholesky, "n_inverse": made.inverse, "n_matmul": made.matmul}
        return after, [stats]

    def stop_tuning(self) -> None:
        """End the tuning phase."""
        super().stop_tuning()
        with self._threads.limited(self._n):
            self._finish_tuning()

    @property
    def sampling_state(self) -> Any:
        """The chain's state; setting it drops what is cached."""
        return BlockedStep.sampling_state.fget(self)

    @sampling_state.setter
    def sampling_state(self, state: Any) -> None:
        BlockedStep.sampling_state.fset(self, state)
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        """Leave caches behind, and tell a spawned worker what `pymc.sample` grants."""
        state = self.__dict__ | self._caches() | {"_threads": share_of_chain() or self._threads}
        state.pop(CONSTRUCTED_WITH, None)
        return state

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the copy without PyMC's `__new__`, which looks for a model."""
        return object.__new__, (type(self),), self.__getstate__()
