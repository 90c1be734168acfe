"""How far the estimate of p(y|theta) spreads: Figure 2 of the pseudo-marginal article, and where labels are noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gamma

from case_studies.pseudo_marginal import study
from case_studies.pseudo_marginal.problems import VARIANCE, Data, covariance, simulate
from case_studies.tools.provenance import provenance
from case_studies.tools.stream import stream
from pmgp.core.approximations import Approximation
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit

__all__ = ["DRAWS", "GRID", "SIZES", "VARIANCES", "spreads", "spreads_of_independent_labels"]

GRID = np.geomspace(0.01, 3.0, 61)
"""Length-scales."""

SIZES, DRAWS = (50, 200), (1, 64)
"""Values of n and N_imp."""

QUANTILES = (0.025, 0.975)

VARIANCES = (1.0, 2.0, 5.0, 10.0)
"""Values of sigma."""


def spreads(seed: int, sizes: Sequence[int] = SIZES, repetitions: int = 500, grid: np.ndarray = GRID) -> pd.DataFrame:
    """Spread of the estimated posterior density of the length-scale, the variance being known.

    Parameters
    ----------
    seed : int
        The data are those of Table 1 with d = 2.
    sizes : sequence of int
        Values of n.
    repetitions : int
        Independent estimates at each length-scale.
    grid : (g,) array

    Returns
    -------
    DataFrame
        A row for each n, approximation, number of importance samples and length-scale: `mean`, `lower` and `upper`, the
        2.5 and 97.5 % quantiles, of p^(y|tau) p(tau), over the integral that EP's mean with 64 samples has; `prior`;
        and `sd_log`, the standard deviation of log p^.
    """
    parts = [_of_one_size(seed, n, repetitions, grid) for n in sizes]
    return pd.concat(parts, ignore_index=True).assign(repetitions=repetitions, seed=seed, **provenance())


def spreads_of_independent_labels(
    seed: int, sizes: Sequence[int] = SIZES, d: int = 10, lengthscale: float = 0.1, repetitions: int = 200
) -> pd.DataFrame:
    """Standard deviation of log p^ at a length-scale so short that the latent values are all but independent.

    Parameters
    ----------
    seed : int
        The data are those of Table 1 with one length-scale.
    sizes : sequence of int
        Values of n.
    d : int
    lengthscale : float
    repetitions : int
        Independent estimates, with EP and 64 samples, from which each standard deviation is computed.

    Returns
    -------
    DataFrame
        A row for each n, a column for each of :data:`VARIANCES`.
    """
    rows, approximation = {}, study.APPROXIMATIONS["EP"]
    for n in sizes:
        data = _data(seed, n, d)
        K, likelihood = DensePrior(np.zeros(n), covariance(_squares(data.X), lengthscale)), BernoulliProbit(data.y)
        rows[n] = []
        for variance in VARIANCES:
            place = (seed, "independent labels", n, d, f"{variance:g}")
            logs = _log_estimates(place, K.scaled(variance / VARIANCE), likelihood, approximation, repetitions)
            rows[n].append(logs[max(DRAWS)].std(ddof=1))
    return pd.DataFrame.from_dict(rows, orient="index", columns=VARIANCES).rename_axis(index="n", columns="σ")


def _data(seed: int, n: int, d: int) -> Data:
    return simulate(n, d, stream(seed, "data", n, d))


def _squares(X: np.ndarray) -> np.ndarray:
    """Squared distances, (n, n)."""
    return np.square(X[:, None, :] - X[None, :, :]).sum(axis=-1)


def _of_one_size(seed: int, n: int, repetitions: int, grid: np.ndarray) -> pd.DataFrame:
    data = _data(seed, n, 2)
    squares = _squares(data.X)
    likelihood, prior = BernoulliProbit(data.y), gamma(1.0, scale=np.sqrt(2.0))
    rows: list[dict[str, Any]] = []
    for lengthscale in grid:
        at = {"n": n, "lengthscale": lengthscale, "prior": prior.pdf(lengthscale)}
        K = DensePrior(np.zeros(n), covariance(squares, lengthscale))
        for name, approximation in study.APPROXIMATIONS.items():
            place = (seed, "figure", n, f"{lengthscale:.6g}", name)
            logs = _log_estimates(place, K, likelihood, approximation, repetitions)
            rows.extend(at | {"approximation": name} | row for row in _summaries(logs, at["prior"]))
    return _normalized(pd.DataFrame(rows))


def _log_estimates(
    place: tuple[Any, ...],
    prior: DensePrior,
    likelihood: BernoulliProbit,
    approximation: Approximation,
    repetitions: int,
) -> dict[int, np.ndarray]:
    """Logs of independent estimates by number of importance samples; equation 25. Each has a stream at the place."""
    fitted = approximation.fit(prior, likelihood)
    logs = {}
    for draws in DRAWS:
        rng = stream(*place, draws)
        batches = [fitted.log_weights(likelihood, fitted.sample(rng, draws)) for _ in range(repetitions)]
        logs[draws] = log_mean_exp(np.array(batches))
    return logs


def _summaries(logs: dict[int, np.ndarray], prior: float) -> Iterator[dict[str, Any]]:
    for draws, values in logs.items():
        lower, upper = np.quantile(values, QUANTILES)
        found = np.array([log_mean_exp(values), lower, upper]) + np.log(prior)
        yield (
            {"draws": draws}
            | dict(zip(("mean", "lower", "upper"), found, strict=True))
            | {"sd_log": values.std(ddof=1)}
        )


def _normalized(rows: pd.DataFrame) -> pd.DataFrame:
    """From logs to densities; one constant for all approximations and numbers of samples, so that they compare."""
    columns = ["mean", "lower", "upper"]
    best = rows[(rows["approximation"] == "EP") & (rows["draws"] == max(DRAWS))]
    largest = best["mean"].max()
    constant = np.trapezoid(np.exp(best["mean"] - largest), best["lengthscale"])
    rows[columns] = np.exp(rows[columns] - largest) / constant
    return rows
