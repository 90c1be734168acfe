"""Optimization of inducing inputs together with a Gaussian q(v) and the hyper-parameters, and starts for chains."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pmgp.core.inducing import Maximized, maximized
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.context import current_model
from pmgp.interface.model.inducing_process import sampled_variables
from pmgp.interface.model.points import value_point
from pmgp.interface.sparse.beginning import beginning, uninformative
from pmgp.interface.sparse.bound import BoundFunction
from pmgp.interface.sparse.process import Sparse

UNINFORMATIVE = (
    "At the maximum of the bound, the values at the inducing inputs hardly inform those at other inputs, and "
    "predictions will be close to the prior: length-scales are far below the distances between inputs. Give the "
    "length-scales a prior that allows for these distances (standardized features help), and give start=..., or use "
    "more inducing inputs"
)
# The groups of variables that move together, one group after another.
STAGES = ("q", "q and theta", "q, theta and Z")


@dataclass(frozen=True)
class OptimizedInducing:
    """The maximum of the bound, with starts for chains.

    Attributes
    ----------
    Z : (m, d) array
        Inducing inputs.
    point : dict
        Values of the hyper-parameters on their own scale.
    mean : (n_outputs, m) array
        Mean of the Gaussian q of whitened values.
    factor : (n_outputs, m, m) array
        The factor C of each output, where q has the covariance C C'.
    log_evidence : float
        The bound of log p(y|theta).
    log_prior : float
        Log p(theta) on theta's own scale, without Jacobian.
    bounds : (s,) array
        The sum of `log_evidence` and `log_prior` at the start and after each step; it never falls.
    converged : bool
    message : str
        Message of the optimizer.
    whitened : str
        Name of the random variable of whitened values.
    several : bool
        Whether that variable has a row for each output.
    """

    Z: np.ndarray
    point: dict[str, np.ndarray]
    mean: np.ndarray
    factor: np.ndarray
    log_evidence: float
    log_prior: float
    bounds: np.ndarray
    converged: bool
    message: str
    whitened: str
    several: bool

    def initvals(self, chains: int = 4, random_seed: Any = None) -> list[dict[str, np.ndarray]]:
        """Return starts for chains: whitened values drawn from q, and the hyper-parameters at their maximum.

        Parameters
        ----------
        chains : int
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        list of dict
            For ``pm.sample(initvals=...)``.
        """
        if chains < 1:
            raise ValueError(f"chains must be 1 or more, not {chains}")
        rng = np.random.default_rng(random_seed)
        normal = rng.standard_normal((chains, *self.mean.shape))
        draws = self.mean + np.einsum("kij,ckj->cki", self.factor, normal)
        return [self.point | {self.whitened: v if self.several else v[0]} for v in draws]


def optimize_inducing(
    process: Sparse,
    *,
    model: pm.Model | None = None,
    inducing: bool = True,
    start: dict[str, Any] | None = None,
    max_iterations: int = 300,
    progressbar: bool = True,
) -> OptimizedInducing:
    r"""Optimize inducing inputs, a Gaussian :math:`q(v)` and the hyper-parameters for the bound of the evidence.

    The bound is :math:`\mathbb E_q \log p(y \mid f) - \mathrm{KL}[q(v) \| \mathcal N(0, I)] + \log p(\theta)`,
    and L-BFGS maximizes it in three stages: q alone, starting from the Gaussian at the mode of v; q and :math:`\theta`;
    these and the inducing inputs, starting from those of the process. As in :func:`pmgp.find_map`, the prior density is
    on :math:`\theta`'s own scale. Nothing is compiled.

    If the inducing inputs say nothing about the observations at the start, as with length-scales far below the
    distances between inputs, the bound has no slope in the length-scales. Hyper-parameters are then doubled or halved
    until the inducing inputs explain half of the prior variance, and the stages start there if the bound is larger.

    Parameters
    ----------
    process : Sparse
        A process with observations. Give `prior` the centers of clusters as ``Xu``, in a `pymc.Data`, which can be set.
    model : pymc.Model, optional
    inducing : bool
        Whether inducing inputs move. If not, the result is a starting point for the sampler with the present inducing
        inputs.
    start : dict, optional
        Values of hyper-parameters to start from, as in :func:`pmgp.find_map`.
    max_iterations : int
        Largest number of iterations of each stage.
    progressbar : bool

    Returns
    -------
    OptimizedInducing
        Its ``Z`` are the inducing inputs; ``initvals(chains)`` gives draws of q and the maximum of :math:`\theta`, for
        a model with these inducing inputs.

    Raises
    ------
    RuntimeError
        If `observe` has not been called.
    ModelError
        If the model has another process, or uses the whitened values in any way other than in ``observe`` at the inputs
        of ``prior``.
    ValueError
        If the bound is not finite at the start, for data that `observe` would refuse, and for `start` as in
        :func:`pmgp.find_map`.

    Warns
    -----
    UserWarning
        If inducing inputs are fixed, and say nothing about the observations at the end of the optimization.

    References
    ----------
    Hensman, J., Matthews, A. G. de G., Filippone, M. and Ghahramani, Z. (2015). MCMC for variationally sparse Gaussian
    processes. *NIPS* 28, section 3.

    Examples
    --------
    .. code-block:: python

        with pm.Model() as model:
            Z = pm.Data("Z", pmgp.gp.select_inducing(X, 50))
            gp = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 2, 1)))
            f = gp.prior("f", X=X, Xu=Z)
            gp.observe("y", f, dist=lambda f: pm.Poisson.dist(mu=pm.math.exp(f)), observed=counts)
            found = pmgp.gp.optimize_inducing(gp)
            pm.set_data({"Z": found.Z})
            idata = pmgp.sample(initvals=found.initvals(chains=4))
    """
    if max_iterations < 1:
        raise ValueError(f"max_iterations must be 1 or more, not {max_iterations}")
    model = current_model(model)
    process.check_data(model)
    values = value_point(model, start)
    function = BoundFunction(process, model, values)
    with threads_limited(suitable_threads(process.points)), _progress(max_iterations, progressbar) as stage:
        found, bounds = _in_stages(function, inducing, max_iterations, stage)
    if not inducing and uninformative(function, found.at.theta):
        warnings.warn(UNINFORMATIVE, UserWarning, stacklevel=2)
    log_prior = function.log_prior(found.at.theta)
    return OptimizedInducing(
        Z=found.at.inducing,
        point=_natural(model, function.values_at(found.at), process.whitened.name),
        mean=found.at.mean,
        factor=found.at.factor,
        log_evidence=float(bounds[-1]) - log_prior,
        log_prior=log_prior,
        bounds=bounds,
        converged=found.converged,
        message=found.message,
        whitened=process.whitened.name,
        several=process.whitened.ndim > 1,
    )


def _in_stages(
    function: BoundFunction, inducing: bool, iterations: int, begun: Callable[[str], Callable[[float], None]]
) -> tuple[Maximized, np.ndarray]:
    """Return the last stage's result, and the bounds of all stages."""
    at = beginning(function)
    spread = at.inducing.std(axis=0)
    units = np.where(spread > 0.0, spread, 1.0)
    bounds = []
    for name in STAGES if inducing else STAGES[:-1]:
        moving = {"theta": "theta" in name, "inducing": "Z" in name}
        found = maximized(function, at, **moving, units=units, iterations=iterations, report=begun(name))
        at = found.at
        bounds.append(found.bounds)
    return found, np.concatenate(bounds)


@contextmanager
def _progress(iterations: int, shown: bool) -> Iterator[Callable[[str], Callable[[float], None]]]:
    """Show the stage, its steps and the bound; yield a function that begins a stage and returns one for its steps."""
    columns = [SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, disable=not shown) as progress:

        def begun(stage: str) -> Callable[[float], None]:
            task = progress.add_task(f"Optimizing {stage}", total=iterations)

            def step(bound: float) -> None:
                progress.update(task, advance=1, description=f"Optimizing {stage}: bound {bound:.2f}")

            return step

        yield begun


def _natural(model: pm.Model, values: dict[str, np.ndarray], v: str) -> dict[str, np.ndarray]:
    """Return the hyper-parameters on their own scale."""
    variables = [rv for rv in sampled_variables(model) if rv.name != v]
    outputs = model.replace_rvs_by_values(variables)
    function = model.compile_fn(outputs, inputs=model.value_vars, mode=INTERPRETED, on_unused_input="ignore")
    return {rv.name: np.asarray(value) for rv, value in zip(variables, function(values), strict=True)}
