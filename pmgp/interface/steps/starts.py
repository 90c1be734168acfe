"""Explanations why a chain cannot start at a point, which name the first part of the joint density that is not finite.

The parts are the prior of theta, the likelihood's parameters, the prior of f, the likelihood and its derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from pymc.exceptions import SamplingError

from pmgp.core.likelihoods.checks import marked_rows
from pmgp.core.likelihoods.impossible import Impossible
from pmgp.core.numerics import linalg
from pmgp.interface.model.checks import not_finite
from pmgp.interface.model.latent_gaussian import LatentGaussianModel

# Values of f at which the likelihood is evaluated, in standard deviations from the prior mean.
DEVIATIONS = (0.0, -1.0, 1.0, -3.0, 3.0)


def unusable_start(model: LatentGaussianModel, theta: np.ndarray) -> str:
    """Return why the marginal density, with f integrated out, cannot be evaluated at theta."""
    return f"cannot start: {_fault(model, theta)}"


def moved_start(model: LatentGaussianModel, theta: np.ndarray, used: np.ndarray) -> str:
    """Return the warning of a chain that starts at another theta than the given one, which cannot be used."""
    start = _listed(model.unravel(used))
    return f"a chain starts at {start}, as it cannot start at the initial point: {_fault(model, theta)}"


def _fault(model: LatentGaussianModel, theta: np.ndarray) -> str:
    values = model.unravel(theta)
    reason = fault_of_theta(model, theta) or _of_likelihood(model, theta) or _of_derivatives(model, theta)
    if reason is None:
        reason = (
            "the approximate evidence, or its gradient, is not finite, although p(theta), the covariance of f, and the "
            "likelihood and its derivatives at the prior mean of f are; or the noise is too small for double "
            "precision, compared with the standard deviation or the prior mean of f. Give other initvals, or another "
            "approximation; center observations that are far from zero"
        )
    return f"{reason} ({_listed(values)}, on the unconstrained scale)"


@contextmanager
def refusing_start(model: LatentGaussianModel, point: dict[str, np.ndarray]) -> Iterator[None]:
    """Explain failures of K or the likelihood in the block by the reason why f cannot be updated at the point."""
    try:
        yield
    except (linalg.NotPositiveDefiniteError, FloatingPointError) as error:
        raise SamplingError(unusable_latent_start(model, point, str(error))) from error


def unusable_latent_start(model: LatentGaussianModel, point: dict[str, np.ndarray], reason: str) -> str:
    """Return why f cannot be updated at a point; `reason` is the step method's own error."""
    theta, f = model.ravel(point), model.ravel_latent(point)
    found = fault_of_theta(model, theta) or _of_likelihood_at(model, theta, f) or reason
    values = _listed({name: point[name] for name in model.theta_names}) or "no hyper-parameters"
    return f"cannot update {model.latent_name!r}: {found} ({values}, on the unconstrained scale)"


def _listed(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def fault_of_theta(model: LatentGaussianModel, theta: np.ndarray) -> str | None:
    """Return the fault in the prior of theta, the parameters of the likelihood or the prior of f, or None."""
    if not np.isfinite(model.log_prior(theta)):
        return "the prior density of the hyper-parameters is not finite there; give other initvals"
    likelihood = model.likelihood(theta)
    if isinstance(likelihood, Impossible):
        return likelihood.reason
    return _of_prior(model, theta)


def _of_prior(model: LatentGaussianModel, theta: np.ndarray) -> str | None:
    name = model.latent_name
    prior = model.prior(theta)
    if not np.isfinite(prior.mean).all():
        return f"the prior mean of {name!r} is not finite in {marked_rows(~np.isfinite(prior.mean))}"
    return model.latent_prior.fault(name, theta)


def _of_likelihood(model: LatentGaussianModel, theta: np.ndarray) -> str | None:
    """Return the fault of the likelihood at the prior mean of f and whether another f would help, or None."""
    prior = model.prior(theta)
    deviation = np.sqrt(prior.variance)
    rows = prior.mean + np.multiply.outer(DEVIATIONS, deviation)
    at_mean = _of_likelihood_at(model, theta, prior.mean)
    if at_mean is None or model.terms is None:
        return at_mean
    for name, values in model.terms_by_name(rows, theta).items():
        never = ~np.isfinite(values).any(axis=0)
        if never.any():
            return (
                f"{not_finite(model.observations, name, never, values[0])}, wherever {model.latent_name!r} was within "
                "three prior standard deviations of its prior mean: such observations are outside the support of their "
                "distribution, or its other parameters are impossible"
            )
    return f"{at_mean}, at the prior mean of {model.latent_name!r}, where approximations start; give another mean"


def _of_likelihood_at(model: LatentGaussianModel, theta: np.ndarray, f: np.ndarray) -> str | None:
    if model.terms is None:
        value = float(model.likelihood(theta).log_likelihood(f))
        return None if np.isfinite(value) else f"the log-likelihood is {value}"
    for name, values in model.terms_by_name(f[None, :], theta).items():
        wrong = ~np.isfinite(values[0])
        if wrong.any():
            return not_finite(model.observations, name, wrong, values[0])
    return None


def _of_derivatives(model: LatentGaussianModel, theta: np.ndarray) -> str | None:
    likelihood, mean = model.likelihood(theta), model.prior(theta).mean
    gradient, curvature = likelihood.derivatives(mean)
    # With several latent values per term, the second derivatives are blocks.
    rows = curvature if isinstance(curvature, np.ndarray) else curvature.blocks.sum(axis=(1, 2))
    for what, values in (("first", gradient), ("second", rows)):
        if not np.isfinite(values).all():
            return (
                f"the {what} derivative of the log-likelihood in {model.latent_name!r} is not finite in "
                f"{marked_rows(~np.isfinite(values))} at the prior mean, although the log-likelihood is"
            )
    return None
