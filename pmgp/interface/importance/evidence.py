"""The evidence log p(y) of a model: theta integrated out by importance sampling, f by unbiased estimates.

With theta_j from a proposal g that was fitted to a chain's draws, each p(theta_j) p^(y|theta_j) / g(theta_j) has the
expectation p(y): the estimate is unbiased, whatever the chain did and however noisy p^ is. Bridge sampling, which also
uses the chain's draws themselves, is biased by the noise of p^, because theta are accepted partly due to that noise.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from rich.progress import track

from pmgp.core.approximations import Approximation
from pmgp.core.estimators import Estimator
from pmgp.core.importance import fitted, log_mean
from pmgp.core.numerics.arrays import is_whole
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.importance.estimates import Estimates
from pmgp.interface.importance.proper_prior import refuse_improper
from pmgp.interface.importance.theta_draws import theta_draws
from pmgp.interface.importance.trust import Trust, trust_in
from pmgp.interface.model.context import current_model
from pmgp.interface.model.latent_variable import find_latents
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.model.posterior import posterior_of
from pmgp.interface.steps.shared import share_for_evidence

# How a warning about the weights begins.
OF_WEIGHTS = "the evidence and its standard error"


class Evidence(NamedTuple):
    """An estimate of log p(y).

    Attributes
    ----------
    log_evidence : float
        Log of the mean of the weights.
    standard_error : float
        Standard error of `log_evidence` over repetitions with other random numbers; unreliable if `trust` is not.
    trust : Trust
        ``pareto_k``, ``effective_size`` and ``words`` of the weights.
    log_weights : (k,) array
        Logs of the single, unbiased estimates of p(y).
    """

    log_evidence: float
    standard_error: float
    trust: Trust
    log_weights: np.ndarray

    def __repr__(self) -> str:
        """Return the figures without the individual weights."""
        return f"Evidence({self.log_evidence:.2f} with standard error {self.standard_error:.2g}; {self.trust.words})"

    @property
    def pareto_k(self) -> float:
        """The Pareto k^ of the weights."""
        return self.trust.pareto_k


def evidence(
    idata: Any,
    *,
    model: pm.Model | None = None,
    draws: int = 1000,
    estimator: Estimator | str = "auto",
    approximation: Approximation | str = "auto",
    latent: Any = None,
    random_seed: Any = None,
    compile_kwargs: dict[str, Any] | None = None,
    progressbar: bool = True,
) -> Evidence:
    """Estimate log p(y), with f and the hyper-parameters integrated out, and its standard error.

    A proposal, a mixture of multivariate t distributions, is fitted to the posterior draws of theta on the
    unconstrained scale. Fresh draws from it are weighted with unbiased estimates of p(y|theta). The difference of two
    models' evidences is their log Bayes factor. If the model has numbers in place of all priors, p(y|theta) is p(y).

    For multivariate normal observations, such as those of `pymc.gp.Marginal`, :func:`pmgp.importance` gives the log
    evidence, as ``attrs["log_evidence"]``.

    Parameters
    ----------
    idata : xarray.DataTree
        Result of `pymc.sample`, with the hyper-parameters in its posterior group. They affect only how good the
        proposal is.
    model : pymc.Model, optional
        The model that was sampled; taken from the context if it is not given.
    draws : int
        Number of theta drawn from the proposal, at least 100. The standard error falls with its square root.
    estimator : Estimator, "auto", "importance", "annealed", "orthant", "sequential" or "none"
        ``"orthant"`` needs labels with a probit link. ``"auto"`` is importance sampling, ``"sequential"`` for a time
        series, or ``"rao-blackwell"`` if one of several processes is normal given the others and the data. By default
        there are 256 importance samples of f. With ``"none"`` the approximation's p(y|theta) is
        integrated, and `standard_error` does not include its error.
    approximation : Laplace, ExpectationPropagation, "auto", "laplace" or "ep"
        ``"auto"`` is expectation propagation, or Laplace's method where the terms of the likelihood cannot be evaluated
        one by one.
    latent : variable or str, or a sequence of them, optional
        The variables f, if other multivariate normal variables are hyper-parameters.
    random_seed : int or numpy.random.Generator, optional
        The same seed gives the same estimate.
    compile_kwargs : dict, optional
        Passed to PyTensor, as in `pymc.sample`.
    progressbar : bool

    Returns
    -------
    Evidence

    Warns
    -----
    UserWarning
        If the weights cannot be trusted; if the covariance could not be factorized at some draws, which count as zero;
        if the prior may not integrate to one, because of a potential or a transformation that confines a variable.

    Raises
    ------
    ModelError
        If the model is not of the form that `PseudoMarginal` needs, a prior is improper, or an angle's transformation
        is circular.
    ValueError
        For settings out of range, and for a posterior that lacks variables or has too few draws.

    Notes
    -----
    All normalizing constants are included: those of PyMC's priors, the Jacobians of the transformations, and that of
    the likelihood.

    Examples
    --------
    Two kernels compared by their Bayes factor, with its error:

    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> found = {}
    >>> for kernel in ("rbf", "matern32"):
    ...     model = pmgp.models.classifier(X, X[:, 0] > 0.5, kernel=kernel)
    ...     idata = pmgp.sample(
    ...         model, draws=200, tune=200, chains=2, cores=1, random_seed=1, progressbar=False
    ...     )
    ...     found[kernel] = pmgp.evidence(idata, model=model, random_seed=1, progressbar=False)
    >>> found["rbf"]
    Evidence(-6.3... with standard error 0.0...; effective sample size ... of 1000 (Pareto k ...): reliable)
    >>> log_bayes_factor = found["rbf"].log_evidence - found["matern32"].log_evidence
    >>> error = np.hypot(found["rbf"].standard_error, found["matern32"].standard_error)
    >>> bool(abs(log_bayes_factor) < 1.0 and error < 0.1)
    True
    """
    if not is_whole(draws, 100):
        raise ValueError(
            f"draws must be an integer of at least 100 (got {draws}); fewer give no reliable standard error"
        )
    model = current_model(model)
    latents = find_latents(model, latent)
    refuse_improper(model, latents)
    posterior = posterior_of(idata, hyperparameters(model, latents), model, weights=True)
    parts = share_for_evidence(model, latents, latent, compile_kwargs)
    parts.checks.refuse_discrete()
    estimates = Estimates(parts, estimator, approximation)
    rng = np.random.default_rng(random_seed)
    with threads_limited(suitable_threads(parts.initial_moments[0].size)):
        proposal = fitted(rng, theta_draws(posterior, model, latents))
        theta = proposal.sample(rng, draws)
        shown = track(theta, "Weighing", disable=not progressbar)
        log_weights = np.array([estimates.log_joint(rng, one) for one in shown]) - proposal.log_density(theta)
    result = Evidence(*log_mean(log_weights), trust_in(log_weights), log_weights)
    _warn(result, estimates.indefinite)
    return result


def _warn(result: Evidence, indefinite: int) -> None:
    if not result.trust.reliable:
        warnings.warn(
            f"{OF_WEIGHTS}: {result.trust.words}. Sample longer, so that the proposal is fitted "
            "better; give more draws, or estimates with less noise, such as "
            "estimator=pmgp.estimators.ImportanceSampling(1024); or check whether the posterior has several modes",
            stacklevel=3,
        )
    if indefinite:
        warnings.warn(
            f"at {indefinite} of {result.trust.size} draws of the hyper-parameters the covariance of f could not be "
            "factorized, or the noise was too small for double precision, and they count as zero, as in the chain: add "
            "a jitter to the covariance, or give the noise a prior that is zero at zero",
            stacklevel=3,
        )
