"""Estimates of the marginal likelihood p(y|theta) of a PyMC model at given hyper-parameters."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

from pmgp.core.approximations import Approximation
from pmgp.core.estimators import Estimator
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.marginal.evaluation import Evaluator, Fitted, Ready
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.model.context import current_model
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.latent_variable import find_latents
from pmgp.interface.model.maxima import several_maxima
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.model.points import value_point
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.steps.chosen import approximation_for, named_estimator
from pmgp.interface.steps.starts import unusable_start

LARGEST_ERROR = 0.5


class LogLikelihood(NamedTuple):
    """An estimate of log p(y|theta).

    Attributes
    ----------
    value : float
        Log of the mean of the estimates of p(y|theta).
    standard_error : float
        Standard error of `value`, from the spread of the estimates. It is reliable only if it is far below one; there
        is a warning if it exceeds a half.
    estimates : (repeats,) array
        Logs of the individual, unbiased estimates.
    """

    value: float
    standard_error: float
    estimates: np.ndarray

    def __repr__(self) -> str:
        """Return the figures without the individual estimates."""
        return (
            f"LogLikelihood({self.value:.2f} with standard error {self.standard_error:.2g}, "
            f"from {len(self.estimates)} estimates)"
        )


def log_likelihood(
    model: pm.Model | None = None,
    point: dict[str, Any] | None = None,
    *,
    estimator: Estimator | str = "auto",
    approximation: Approximation | str = "auto",
    repeats: int = 20,
    latent: Any = None,
    random_seed: Any = None,
    compile_kwargs: dict[str, Any] | None = None,
) -> LogLikelihood:
    """Estimate log p(y|theta), with f integrated out.

    Parameters
    ----------
    model : pymc.Model, optional
        The model on the context stack by default.
    point : dict, optional
        Values of the hyper-parameters by name, on their own scale (``"lengthscale"``) or transformed
        (``"lengthscale_log__"``); a scalar applies to all elements of a vector. The other variables keep their
        initial values. Leave it out if the model has no hyper-parameters: log p(y|theta) is then log p(y).
    estimator : Estimator or str
        ``"importance"``, ``"annealed"``, ``"orthant"`` (with a probit link only), ``"sequential"`` or ``"none"``, or an
        object of :mod:`pmgp.estimators`. ``"auto"`` means importance sampling, ``"sequential"`` for a time series, or
        ``"rao-blackwell"`` if one of several processes is normal given the others and the data.
        The default number of draws is 64. ``"none"`` returns the approximation's own evidence at its fixed point;
        `standard_error` does not include its error.
    approximation : Laplace, ExpectationPropagation, "auto", "laplace" or "ep"
        ``"auto"`` is expectation propagation, or Laplace's method where the terms of the likelihood cannot be evaluated
        one by one.
    repeats : int
        Number of independent estimates, at least 2.
    latent : variable or str, optional
        The variable f, if the model has several multivariate normal variables.
    random_seed : int or numpy.random.Generator, optional
    compile_kwargs : dict, optional
        Passed to PyTensor, as in `pymc.sample`.

    Returns
    -------
    LogLikelihood

    Raises
    ------
    ModelError
        If the model is not of the form that `PseudoMarginal` needs.
    ValueError
        If a setting is out of range, the estimator does not suit the likelihood, or `point` has invalid values; also if
        the covariance at `point` cannot be factorized, or the prior density there is zero.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> pmgp.marginal.log_likelihood(model, {"lengthscale": 1.0, "variance": 4.0}, random_seed=1)
    LogLikelihood(-8.78 with standard error 0.00..., from 20 estimates)
    """
    if repeats < 2:
        raise ValueError(f"repeats must be at least 2 for a standard error, not {repeats}")
    model = current_model(model)
    values = value_point(model, point)
    known = not hyperparameters(model, find_latents(model, latent))
    parts = take_apart(model, latent, values, compile_kwargs, given_theta=known, factorizing=True)
    if (unclear := several_maxima(parts)) is not None:
        warnings.warn(unclear, UserWarning, stacklevel=2)
    method = named_estimator(estimator, parts)
    draws = 64 if getattr(method, "draws", None) == "auto" else None
    rng = np.random.default_rng(random_seed)
    with threads_limited(suitable_threads(parts.latent_vector.sites(values))):
        evaluation = _prepared(parts, parts.ravel(values), approximation_for(method, approximation, parts))
        logs = np.array([_estimate(rng, method, evaluation, draws) for _ in range(repeats)])
    return _summary(logs)


def _prepared(parts: LatentGaussianModel, theta: np.ndarray, approximation: Approximation) -> Ready:
    evaluate = Evaluator(parts, approximation)
    evaluation = evaluate(theta, None)
    if isinstance(evaluation, Fitted) and np.isfinite(evaluation.log_screen):
        ready = evaluate.prepare(evaluation)
        if isinstance(ready, Ready):
            return ready
    raise ValueError(unusable_start(parts, theta))


def _estimate(rng: np.random.Generator, method: Estimator, evaluation: Ready, draws: int | None) -> float:
    return method.estimate(rng, evaluation.approximation, evaluation.likelihood, draws).log_evidence


def _summary(logs: np.ndarray) -> LogLikelihood:
    value = float(log_mean_exp(logs))
    if not np.isfinite(value):
        return LogLikelihood(value, np.inf, logs)
    relative = np.exp(logs - value)
    # The delta method: the relative error of the mean is the error of its log.
    error = float(relative.std(ddof=1) / np.sqrt(len(logs)))
    if error > LARGEST_ERROR:
        warnings.warn(
            f"the estimates of log p(y|theta) range from {logs.min():.1f} to {logs.max():.1f}, and their log mean of "
            f"{value:.1f} may be far too low: its standard error of {error:.2f} cannot be trusted. Give the estimator "
            'more draws, as pmgp.estimators.ImportanceSampling(draws=4096) for "importance"',
            UserWarning,
            stacklevel=3,
        )
    return LogLikelihood(value, error, logs)
