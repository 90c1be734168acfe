"""Riemann manifold Hamiltonian Monte Carlo for f as a PyMC step method."""

from __future__ import annotations

from typing import Any, Unpack

from pmgp.core import latent_updates
from pmgp.core.latent_updates.metrics import local_curvature_known
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.steps.base import Arguments
from pmgp.interface.steps.latent_updates import LatentStep
from pmgp.interface.steps.public import public_step


@public_step
class LatentRMHMC(LatentStep):
    """Riemann manifold Hamiltonian Monte Carlo for the latent values, given their hyper-parameters.

    The metric is that of the posterior: K^-1 + W, with W the curvature of the likelihood, which must factorize over f.
    For :class:`pmgp.MultinomialLogit` with C classes its matrix is never formed, and C + 1 factorizations of n rows
    take its place.

    Parameters
    ----------
    $vars_of_f
    metric : {"fixed", "local", "identity"}
        The point at which W is evaluated. "fixed" is the constant f that fits the data best (for classes, probabilities
        n_c / n), so a trajectory needs no factorization. "local" is each f of the trajectory, which makes the steps
        implicit, with about ten metrics for each step; it is for :class:`pmgp.MultinomialLogit` and for log-concave
        likelihoods with one latent vector. "identity" uses no metric, for comparison.
    max_leapfrog : int
        The number of leapfrog steps is uniform from 1 to this value; ``n_evaluations`` counts them.
    $target_of_step
    $rest_of_f_and_references
    Girolami, M. and Calderhead, B. (2011). Riemann manifold Langevin and Hamiltonian Monte Carlo methods. JRSS B 73.
    Filippone, M. et al. (2012). Probabilistic prediction of neurological disorders with a statistical assessment of
    neuroimaging data modalities. Annals of Applied Statistics 6, samplers (a) to (f).

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 15)[:, None]
    >>> with pmgp.models.multiclass_classifier(X, np.arange(15) // 5, ["a", "b", "c"]):
    ...     methods = [pmgp.steps.Ancillary(), pmgp.steps.LatentRMHMC(metric="fixed")]
    """

    name = "latent_rmhmc"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        metric: str = "fixed",
        max_leapfrog: int = 10,
        target_acceptance: float = latent_updates.RiemannianUpdate.target_acceptance,
        **others: Unpack[Arguments],
    ) -> None:
        super().__init__(
            vars,
            update=latent_updates.RiemannianUpdate(metric, max_leapfrog),
            factorizing=metric != "identity",
            gradient=True,
            target_acceptance=target_acceptance,
            **others,
        )
        if metric == "local":
            self._require_curvature()

    def _require_curvature(self) -> None:
        """Refuse a likelihood whose curvature is not everywhere a metric, or has no derivatives."""
        theta = self.latent_model.initial_theta
        if not local_curvature_known(self.shared_model.prior(theta), self.latent_model.likelihood(theta)):
            raise ModelError(
                'metric="local" needs a likelihood that is log-concave in one latent vector, or pmgp.MultinomialLogit; '
                'use metric="fixed"'
            )
