"""The probability that a Gaussian vector lies between limits, with its standard error, by several methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pmgp.core.numerics.arrays import is_whole
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.core.orthants.ordering import Ordered, ordered
from pmgp.core.orthants.problem import TruncatedNormal
from pmgp.core.orthants.recursion import Recursion, tilted, twisted
from pmgp.core.orthants.resampling import Particles, hard_count, sequential_monte_carlo, soft_count
from pmgp.core.orthants.sites import matched_limits
from pmgp.core.orthants.tilting import saddle_point

# The number of independent populations of resampled particles, which give a standard error.
POPULATIONS = 10


class OrthantProbability(NamedTuple):
    """An estimate of log P(lower <= v <= upper).

    Attributes
    ----------
    log_probability : float
        Log of the estimate; minus infinity if every draw left the limits, or the probability is zero.
    standard_error : float
        The standard error of `log_probability`, from the spread of antithetic pairs of weights, or of populations. If
        it is not far below one, it is itself unreliable and too small. It is infinite if every draw left the limits,
        and zero if the probability is known to be zero.
    draws : (k, n) array
        Draws between the limits, whose weights are in `log_weights`. Weighted means estimate expectations of v given
        the limits, with an error that vanishes as k grows; a row that is picked in proportion to its weight is a draw
        that would be exact if the estimate were. Empty if the probability is known to be zero.
    log_weights : (k,) array
        The logarithms of the weights, whose mean is the estimate. For the methods that resample, a weight is the
        estimate of its population. Draws with weight zero may lie outside the limits.
    effective_size : float
        (sum of weights)^2 / (sum of squared weights). It does not include the effect of resampling.
    unbiased : bool
        Whether the expectation of the estimate, not of its logarithm, is the probability; false for ``"soft"``.
    method : str
    """

    log_probability: float
    standard_error: float
    draws: np.ndarray
    log_weights: np.ndarray
    effective_size: float
    unbiased: bool
    method: str

    def expectation(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return expectations of functions of v given the limits, and their standard errors.

        Parameters
        ----------
        values : (k, m) array
            The values of m functions at each of the draws.

        Returns
        -------
        mean, standard_error : (m,) array
            NaN and infinity if every draw left the limits.

        Raises
        ------
        ValueError
            If `values` does not have a row for each draw.
        """
        if np.ndim(values) != 2 or len(values) != len(self.draws):
            raise ValueError(
                f"values must have a row for each of the {len(self.draws)} draws and a column for each function, not "
                f"the shape {np.shape(values)}"
            )
        m = values.shape[1]
        if self.log_probability == -np.inf:
            return np.full(m, np.nan), np.full(m, np.inf)
        weights = np.exp(self.log_weights - self.log_weights.max())
        weights /= weights.sum()
        mean = weights @ values
        # Pairs, and populations, are independent of each other; their members are not.
        residuals = weights[:, None] * (values - mean)
        if self.method in RECURSIONS:
            groups = residuals.reshape(2, len(residuals) // 2, m).sum(axis=0)
        else:
            groups = np.array([part.sum(axis=0) for part in np.array_split(residuals, POPULATIONS)])
        number = len(groups)
        return mean, np.sqrt(np.square(groups).sum(axis=0) * number / (number - 1))


def log_probability(
    lower: Any,
    upper: Any,
    mean: Any,
    covariance: Any,
    *,
    method: str = "ep",
    draws: int = 1000,
    random_seed: Any = None,
) -> OrthantProbability:
    """Estimate log P(lower <= v <= upper) for v ~ N(mean, covariance), in up to a few thousand dimensions.

    Variables are drawn one after another, the least likely to lie between its limits first (Gibson, Glasbey and Elston
    1994).

    Parameters
    ----------
    lower, upper : float or (n,) array
        Limits, which may be infinite.
    mean : float or (n,) array
    covariance : (n, n) array
        Positive semidefinite; it may be singular.
    method : {"ep", "ghk", "tilted", "smc", "hard", "soft"}
        The method of drawing. ``"ep"`` draws variables between their limits from the Gaussian in which the sites of
        expectation propagation replace the limits of later ones. ``"ghk"`` does the same without sites (Geweke,
        Hajivassiliou, Keane). ``"tilted"`` shifts draws by the solution of a saddle point problem (Botev 2017).
        ``"smc"`` draws like ``"ghk"``, and resamples at each step. ``"hard"`` ignores the limits and replaces draws
        that leave them with others, in a random order of variables (GPC-MC), as a baseline. ``"soft"`` is the same with
        averaged probabilities in place of counts, which is **biased**. The first three make antithetic pairs.
    draws : int
        An even number, at least 4. The last three methods need at least 20, for ten independent populations.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    OrthantProbability

    Raises
    ------
    ValueError
        For limits that cross, NaN, shapes that do not match, a covariance that is not symmetric or not positive
        semidefinite, an unknown method, and an odd or too small number of draws.

    References
    ----------
    Botev, Z. I. (2017). The normal law under linear restrictions: simulation and estimation via minimax tilting. JRSS B
    79.

    Gibson, G. J., Glasbey, C. A. and Elston, D. A. (1994). Monte Carlo evaluation of multivariate normal integrals and
    sensitivity to variate ordering. Advances in Numerical Methods and Applications.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> covariance = 0.5 * np.eye(50) + 0.5
    >>> found = pmgp.orthants.log_probability(0.0, np.inf, 0.0, covariance, random_seed=1)
    >>> bool(abs(found.log_probability - np.log(1 / 51)) < 4 * found.standard_error)
    True
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known are {', '.join(METHODS)}")
    check_draws(draws, 4 if method in RECURSIONS else 2 * POPULATIONS)
    problem = TruncatedNormal.checked(lower, upper, mean, covariance)
    rng = np.random.default_rng(random_seed)
    with threads_limited(suitable_threads(problem.size)):
        if problem.impossible:
            return OrthantProbability(-np.inf, 0.0, np.empty((0, problem.size)), np.empty(0), 0.0, True, method)
        if method in RECURSIONS:
            return _from_weights(rng, problem, recursion(problem, method), draws, method)
        return _from_populations(rng, problem, draws, method)


def check_draws(draws: Any, smallest: int) -> None:
    """Raise an error if the number of draws is odd or too small."""
    if not is_whole(draws, smallest) or draws % 2:
        raise ValueError(f"draws must be an even number, at least {smallest}, not {draws!r}")


def recursion(problem: TruncatedNormal, method: str) -> Recursion:
    """Return the recursion that draws the variables, for a method without resampling."""
    return RECURSIONS[method](problem, ordered(problem.correlation, *problem.limits))


RECURSIONS: dict[str, Callable[[TruncatedNormal, Ordered], Recursion]] = {
    "ep": lambda problem, taken: twisted(taken, *matched_limits(problem)),
    "ghk": lambda problem, taken: twisted(taken, *np.zeros((2, problem.size))),
    "tilted": lambda problem, taken: tilted(taken, saddle_point(taken)),
}
POPULATIONS_OF: dict[str, Callable[[np.random.Generator, Ordered, int], Particles]] = {
    "smc": sequential_monte_carlo,
    "hard": hard_count,
    "soft": soft_count,
}
METHODS = (*RECURSIONS, *POPULATIONS_OF)


def _from_weights(
    rng: np.random.Generator, problem: TruncatedNormal, drawn: Recursion, draws: int, method: str
) -> OrthantProbability:
    half = rng.uniform(size=(problem.size, draws // 2))
    paths = drawn.draw(np.concatenate([half, 1.0 - half], axis=1))
    values = problem.restored(drawn.problem.original(paths.values))
    pairs = np.logaddexp(*paths.log_weights.reshape(2, -1)) - np.log(2.0)
    return _result(pairs, values, paths.log_weights, method)


def _from_populations(
    rng: np.random.Generator, problem: TruncatedNormal, draws: int, method: str
) -> OrthantProbability:
    # The counts follow the article, which shuffles the variables.
    order = None if method == "smc" else rng.permutation(problem.size)
    taken = ordered(problem.correlation, *problem.limits, order)
    sizes = [len(part) for part in np.array_split(np.arange(draws), POPULATIONS)]
    populations = [POPULATIONS_OF[method](rng, taken, size) for size in sizes]
    values = np.concatenate([taken.original(one.values) for one in populations])
    logs = np.array([one.log_estimate for one in populations])
    return _result(logs, problem.restored(values), np.repeat(logs, sizes), method)


def _result(logs: np.ndarray, values: np.ndarray, log_weights: np.ndarray, method: str) -> OrthantProbability:
    """Combine independent, unbiased estimates and weighted draws into a result."""
    unbiased = method != "soft"
    largest = float(logs.max())
    if largest == -np.inf:
        return OrthantProbability(-np.inf, np.inf, values, log_weights, 0.0, unbiased, method)
    relative = np.exp(logs - largest)
    center = float(relative.mean())
    # The delta method: the relative error of the mean is the error of its log.
    error = float(relative.std(ddof=1) / np.sqrt(len(relative))) / center
    weights = np.exp(log_weights - log_weights.max())
    effective = float(weights.sum() ** 2 / np.square(weights).sum())
    return OrthantProbability(largest + float(np.log(center)), error, values, log_weights, effective, unbiased, method)
