"""Stochastic gradient Langevin dynamics of hyper-parameters as a PyMC step method, for Gaussian noise and many points.

The method is that of Filippone and Engler (2015): randomly truncated solutions give unbiased gradients, and the matrix
M is the inverse curvature at the maximum of the posterior given a subset of the points. The sampler is not exact, and
its statistics say so.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator

from pmgp.core.iterative.langevin import LangevinState, StochasticLangevin
from pmgp.core.iterative.ulisse import Ulisse
from pmgp.interface.climbing import scale_given_rows
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.interface.model.context import current_model
from pmgp.interface.steps.chain_step import ChainStep

# Up to this many points a factorization takes seconds, and exact methods are better in every respect.
AFFORDABLE = 5000


@dataclass_state
class StochasticGradientLangevinState(StepMethodState):
    """The state of a chain."""

    tune: bool
    chain: LangevinState | None


class StochasticGradientLangevin(ChainStep):
    """Stochastic gradient Langevin dynamics, an inexact sampler of all hyper-parameters for Gaussian noise.

    No proposal is rejected, so the draws follow the posterior up to an error of the order of the step. The step falls
    from `first` to `last` over `horizon` iterations, and is held once the noise of the gradients is negligible; drop
    the draws for which the statistic ``held`` is false. The effective sample size is small: prefer
    :func:`pmgp.importance` wherever the covariance can be factorized, which needs memory for one n by n matrix.

    Parameters
    ----------
    vars : list of variables, optional
        All free variables, which is the default.
    first, last : float
        Largest and smallest step.
    horizon : int
        Number of iterations until the step is smallest.
    probes : int
        Number of Rademacher vectors for each gradient.
    subset : int
        Number of points whose posterior maximum and its curvature scale the steps.
    rank : int, optional
        Rank of the preconditioner. The default is a tenth of the number of points, and at most 500.
    force : bool
        Whether to sample even where exact methods are affordable, up to 5,000 points.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    ModelError
        If the model has latent values or no Gaussian noise, or its covariance cannot be computed in tiles.
    ValueError
        If exact methods are affordable, `vars` leaves out a variable, or a setting is out of range.

    Notes
    -----
    Sample statistics: ``tune``, ``exact`` (false), ``step_size``, ``held``.

    References
    ----------
    Filippone, M. and Engler, R. (2015). Enabling scalable stochastic gradient-based inference for Gaussian processes by
    employing the Unbiased LInear System SolvEr (ULISSE). *ICML*.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X = np.linspace(0.0, 5.0, 40)[:, None]
    >>> with pm.Model():
    ...     gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("lengthscale", 0, 1)))
    ...     y = gp.marginal_likelihood("y", X, np.sin(X[:, 0]), sigma=pm.LogNormal("noise", -1, 1))
    ...     step = pmgp.steps.StochasticGradientLangevin(force=True)
    ...     idata = pm.sample(5, step=step, tune=2, chains=1, cores=1, random_seed=1, progressbar=False)
    >>> bool(idata.sample_stats["exact"].any())
    False
    """

    name = "sgld"
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "tune": (bool, []),
        "exact": (bool, []),
        "step_size": (np.float64, []),
        "held": (bool, []),
    }
    _state_class = StochasticGradientLangevinState

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        first: float = 0.1,
        last: float = 1e-4,
        horizon: int = 40_000,
        probes: int = 4,
        subset: int = 500,
        rank: int | None = None,
        force: bool = False,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        if subset < 1:
            raise ValueError(f"subset={subset!r}: give the number of points, at least 1, from which the scale is found")
        model = current_model(model)
        self.density = IterativeDensity(model, rank, compile_kwargs=compile_kwargs)
        _refuse_affordable(self.density.size, force)
        self.vars = _all_variables(vars, model)
        self.blocked, self.rng = blocked, get_random_generator(rng)
        self.gradients = Ulisse(probes)
        self.sampler = StochasticLangevin(np.eye(self.density.theta.dimension), first, last, horizon)
        self._subset = subset
        self._factor: np.ndarray | None = None
        self._reset(0, 0)

    def _refresh_data(self) -> None:
        self.density.refresh_data()

    def _reset(self, n_tune: int, n_draws: int) -> None:
        self.tune = n_tune > 0
        self.chain: LangevinState | None = None
        self._forget()

    def _caches(self) -> dict[str, Any]:
        """Return the factor of M, which depends only on the model and its data, as not yet computed."""
        return {"_factor": None}

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Move theta one step along an estimate of the gradient."""
        theta = self.density.theta.ravel(point)
        with self._limited(self.density.size):
            sampler = self._scaled()
            if self.chain is None or not self.density.theta.agrees(point, self.chain.theta):
                self.chain = LangevinState(theta)
            stats = {
                "tune": self.tune,
                "exact": False,
                "step_size": sampler.size(self.chain),
                "held": self.chain.held > 0.0,
            }
            gradient = self.density.stochastic_gradient(self.rng, theta, self.gradients)
            self.chain = sampler.step(self.rng, self.chain, gradient)
        return point | self.density.theta.unravel(self.chain.theta), [stats]

    def _scaled(self) -> StochasticLangevin:
        """Return the sampler with the matrix M of the subset."""
        if self._factor is None:
            self._factor = scale_of(self.density, self._subset)
        settings = self.sampler
        return StochasticLangevin(self._factor, settings.first, settings.last, settings.horizon)


def scale_of(density: IterativeDensity, subset: int) -> np.ndarray:
    """Return the lower Cholesky factor of M, the inverse curvature at the posterior maximum given some of the points.

    These points are drawn with a fixed seed.
    """
    chosen = np.random.default_rng(0).permutation(density.size)[:subset]
    return np.linalg.cholesky(scale_given_rows(density, chosen)[1])


def _refuse_affordable(size: int, force: bool) -> None:
    if size <= AFFORDABLE and not force:
        raise ValueError(
            f"exact methods are affordable for {size} points: use pmgp.importance, or NUTS. Stochastic gradient "
            "Langevin dynamics are not exact, and take far longer; force=True samples anyway"
        )


def _all_variables(vars: list[Any] | None, model: pm.Model) -> list[Any]:
    given = [model.rvs_to_values.get(variable, variable) for variable in vars or model.value_vars]
    left = [variable.name for variable in model.value_vars if variable not in given]
    if left:
        raise ValueError(
            f"StochasticGradientLangevin moves all variables together; give it {', '.join(left)} too, or no variables"
        )
    return list(model.value_vars)
