"""The base class of step methods for a latent Gaussian model: its parts, counted operations, imputed observations."""

from __future__ import annotations

from typing import Any, ClassVar, TypedDict

import numpy as np
import pymc as pm
from pymc.util import get_random_generator

from pmgp.core.numerics.ledger import counted
from pmgp.core.transitions.base import TransitionInfo
from pmgp.interface.model.context import current_model
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.steps.chain_step import ChainStep
from pmgp.interface.steps.shared import share

COUNTS: dict[str, Any] = {"n_cholesky": (np.int64, []), "n_inverse": (np.int64, []), "n_matmul": (np.int64, [])}
"""Sample statistics of every step method: its O(n^3) operations."""
ACCEPTANCE: dict[str, Any] = {"tune": (bool, []), "accepted": (np.float64, []), "acceptance_rate": (np.float64, [])}
"""Sample statistics of step methods that tune an acceptance rate."""
EVALUATIONS: dict[str, Any] = {"n_evaluations": (np.int64, [])}
"""Sample statistic of step methods that use transitions of the core."""


class PyMCArguments(TypedDict, total=False):
    """The keyword arguments that PyMC passes to every step method."""

    model: pm.Model | None
    rng: Any
    initial_point: dict[str, np.ndarray] | None
    compile_kwargs: dict[str, Any] | None
    blocked: bool


class Arguments(PyMCArguments, total=False):
    """The keyword arguments of every step method: the latent variables, and PyMC's own."""

    latent: Any


class GaussianProcessStep(ChainStep):
    """A step method for a model with one latent Gaussian vector f and hyper-parameters theta.

    PyMC never assigns it automatically. Subclasses define `_update`; their constructors end with ``_reset(0, 0)``.
    `factorizing` refuses a likelihood that does not factorize over f, and compiles its first and second derivatives
    together; `gradient` compiles the first one on its own. See `Arguments` for the others.
    """

    # The argument of `LatentGaussianModel`: whether f and theta are updated each given the other, and not jointly.
    _given_theta: ClassVar[bool] = True
    # Whether the step method can move a time series, for which no covariance matrix is available.
    _moves_series: ClassVar[bool] = False

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
        model = current_model(model)
        latent = self._chosen_latent(vars, latent, model)
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
        """The model's parts, shared with the other step methods of the model."""
        return self.shared_model.parts

    def _chosen_latent(self, vars: list[Any] | None, latent: Any, model: pm.Model) -> Any:
        """Return the variable that is to be f, or None for the only candidate."""
        return latent

    def _own_variables(self, vars: list[Any] | None, model: pm.Model) -> list[Any]:
        """Return the value variables that the step updates: only f and missing observations by default."""
        imputation = self.latent_model.imputation
        return [*self.latent_model.latent_vector.values, *(() if imputation is None else imputation.values)]

    def _reset(self, n_tune: int, n_draws: int) -> None:
        """Start the state of a chain."""
        self.tune = n_tune > 0
        self._forget()

    def _update(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the values that may have changed in an iteration, and its sample statistics without the counts."""
        raise NotImplementedError

    def _statistics(self, *infos: TransitionInfo) -> dict[str, Any]:
        """Return means over the transitions of an iteration, and the number of evaluations they made."""
        return {
            "tune": self.tune,
            "accepted": sum(info.accepted for info in infos) / len(infos),
            "acceptance_rate": sum(info.acceptance_rate for info in infos) / len(infos),
            "n_evaluations": sum(info.evaluations for info in infos),
        }

    def _finish_tuning(self) -> None:
        """Do nothing between tuning and sampling."""

    def _caches(self) -> dict[str, Any]:
        """Return attributes that are functions of the state, with their values before they are computed."""
        return {"_current": None}

    def _refresh_data(self) -> None:
        self.shared_model.refresh_data()

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Make one iteration; return the new point and the sample statistics."""
        with self._limited(self.latent_model.latent_vector.sites(point)), counted() as ledger:
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
        self._finish_tuning()
