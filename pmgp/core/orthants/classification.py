"""The classifier of the article on orthant integrals: probabilities of labels as ratios of two such integrals.

For v = f + e with e standard normal, P(y* = 1|y) = P(v has the labels' signs, v* >= 0) / P(v has the labels' signs).
Draws of v given its signs serve all new points: each point adds one variable, whose probabilities given v are averaged,
or whose draws are counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from pmgp.core.likelihoods.checks import check_binary
from pmgp.core.numerics.arrays import refuse_masked
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.core.orthants.probability import OrthantProbability, log_probability

# Relative to the prior variance: what rounding may take from a conditional variance, and the diagonal added to a
# covariance that may be singular before it is factorized.
ROUNDING, JITTER = 1e-6, 1e-8


class OrthantClassification(NamedTuple):
    """Probabilities of new labels for fixed hyper-parameters.

    Attributes
    ----------
    probability : (m,) array
        Probability of the label 1.
    standard_error : (m,) array
        The standard error of `probability`, from independent groups of draws.
    evidence : OrthantProbability
        The estimate of log p(y), which can be maximized over hyper-parameters, with the draws of v.
    """

    probability: np.ndarray
    standard_error: np.ndarray
    evidence: OrthantProbability


def classify(
    y: Any,
    covariance: Any,
    cross_covariance: Any,
    new_variance: Any,
    *,
    method: str = "ep",
    draws: int = 1000,
    counted: bool = False,
    random_seed: Any = None,
) -> OrthantClassification:
    """Return probabilities of new labels under a Gaussian process with a probit link and fixed hyper-parameters.

    The mean of the process is zero.

    Parameters
    ----------
    y : (n,) array
        Labels 0 or 1.
    covariance : (n, n) array
        Prior covariance of f.
    cross_covariance : (n, m) array
        Covariance of f with its values at the new points.
    new_variance : float or (m,) array
        Prior variances at the new points.
    method : str
        Method of drawing; see `log_probability`. ``"hard"`` and ``"soft"`` give the article's classifier; the evidence
        is biased with ``"soft"``.
    draws : int
    counted : bool
        Whether to count positive draws of the new variable, as the article does with ``"hard"``, in place of averaging
        its probabilities, which has a smaller error.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    OrthantClassification

    Raises
    ------
    ValueError
        If labels are not 0 and 1, shapes do not match, or values are masked or not finite; if the covariances are not
        those of any f, with its values at the new points; and whenever `log_probability` raises it.

    References
    ----------
    Atiya, A. F., Fayed, H. A. and Abdel-Gawad, A. H. (2021). A new Monte Carlo based algorithm for the Gaussian process
    classification problem.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> one = np.ones((4, 4))
    >>> found = pmgp.orthants.classify([1, 1, 1, 0], one, one[:, :1], 1.0, random_seed=1)
    >>> bool(abs(found.probability[0] - 4 / 6) < 4 * found.standard_error[0])
    True
    """
    refuse_masked("y", y)
    y = np.asarray(check_binary(y))
    refuse_masked("covariance", covariance)
    covariance = np.asarray(covariance, dtype=float)
    cross, variance = _new_points(cross_covariance, new_variance, y)
    if covariance.shape != (len(y), len(y)):
        raise ValueError(f"covariance has shape {covariance.shape}, but there are {len(y)} labels")
    _refuse_indefinite(covariance)
    noisy = covariance + np.eye(len(y))
    with threads_limited(suitable_threads(len(y))):
        weights = np.linalg.solve(noisy, cross)
    scale = np.sqrt(_conditional_variance(variance, cross, weights))
    rng = np.random.default_rng(random_seed)
    lower, upper = np.where(y == 1, 0.0, -np.inf), np.where(y == 1, np.inf, 0.0)
    evidence = log_probability(lower, upper, 0.0, noisy, method=method, draws=draws, random_seed=rng)
    with threads_limited(suitable_threads(len(y))):
        chances = ndtr(evidence.draws @ weights / scale)
        if counted:
            chances = (rng.uniform(size=chances.shape) < chances).astype(float)
        return OrthantClassification(*evidence.expectation(chances), evidence)


def _refuse_indefinite(covariance: np.ndarray) -> None:
    """Refuse a covariance that is finite but not positive semidefinite, which the noise would hide."""
    largest = np.abs(covariance).max()
    if not np.isfinite(largest):
        return
    try:
        np.linalg.cholesky(covariance + (JITTER * largest) * np.eye(len(covariance)))
    except np.linalg.LinAlgError:
        raise ValueError("covariance must be positive semidefinite, as that of a Gaussian process is") from None


def _conditional_variance(variance: np.ndarray, cross: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the variances of new noisy values given v, at least those of the noise: (m,)."""
    of_f = variance - np.einsum("ij,ij->j", cross, weights)
    wrong = np.flatnonzero(of_f < -ROUNDING * (1.0 + np.abs(variance)))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"new_variance {variance[i]:g} of new point {i} is too small for its column of cross_covariance: no f has "
            "these covariances"
        )
    return 1.0 + np.maximum(of_f, 0.0)


def _new_points(cross_covariance: Any, new_variance: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    refuse_masked("cross_covariance", cross_covariance)
    refuse_masked("new_variance", new_variance)
    cross = np.asarray(cross_covariance, dtype=float)
    if y.ndim != 1 or cross.ndim != 2 or len(cross) != len(y):
        raise ValueError(
            f"cross_covariance must have a row for each label and a column for each new point; it has shape "
            f"{cross.shape}, the labels {y.shape}"
        )
    variance = np.asarray(new_variance, dtype=float)
    if variance.ndim > 1 or variance.size not in (1, cross.shape[1]):
        raise ValueError(f"new_variance has shape {variance.shape}, but there are {cross.shape[1]} new points")
    for name, values in (("cross_covariance", cross), ("new_variance", variance)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite, found {values[~np.isfinite(values)][0]}")
    return cross, np.broadcast_to(variance, (cross.shape[1],))
