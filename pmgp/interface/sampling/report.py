"""Report whether a run can be trusted: R-hat, effective sample sizes, the spread of the estimates, and advice.

The limits for R-hat and the effective sample sizes are those of Vehtari et al. (2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr

from pmgp.core.numerics.digits import above
from pmgp.diagnostics import MIN_DRAWS

ENOUGH = 400
"""The smallest number of effective draws, over all chains, for reliable quantiles and R-hat."""
LARGE_RHAT = 1.01
LARGE_SPREAD = 0.7
"""Reached if fewer than two importance samples are effective; weights cannot show a larger spread."""
FAILED = 0.05
"""The largest share of proposals whose approximation may fail without a finding."""
# The number of elements of a variable that are checked, evenly spaced: f may have thousands of similar elements.
ELEMENTS = 50


class Convergence(NamedTuple):
    """The worst values over the checked elements, each with its element; NaN where they cannot be computed."""

    r_hat: float
    r_hat_of: str
    bulk: float
    bulk_of: str
    tail: float
    tail_of: str

    @property
    def ess(self) -> float:
        """The smaller of the two effective sample sizes, zero if there are none."""
        smallest = min(self.bulk, self.tail)
        return float(smallest) if np.isfinite(smallest) else 0.0


@dataclass(frozen=True)
class Report:
    """A verdict on the draws of a run.

    Attributes
    ----------
    convergence : Convergence or None
        None if there are fewer than ten draws in each chain.
    spread : float or None
        Standard deviation of the logs of the estimates of p(y|theta), computed from their effective numbers of
        importance samples; the median over the draws. None for step methods without estimates.
    findings : tuple of str
        Problems with their remedies, a sentence or two each; empty if all is well.
    """

    convergence: Convergence | None
    spread: float | None
    findings: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def __str__(self) -> str:
        """Return the figures in one line, and the findings below it."""
        return "\n".join([self.figures, *(f"- {finding}" for finding in self.findings)])

    @property
    def figures(self) -> str:
        """The figures of convergence in one line."""
        if self.convergence is None:
            return f"Fewer than {MIN_DRAWS} draws per chain: too few to judge convergence."
        worst = self.convergence
        figures = [f"effective draws at least {worst.bulk:.0f} (bulk) and {worst.tail:.0f} (tail)"]
        if np.isfinite(worst.r_hat):
            figures.insert(0, f"R-hat at most {worst.r_hat:.3f}")
        if self.spread is not None:
            figures.append(f"standard deviation of log p^(y|theta) {self.spread:.2f}")
        end = "all is well" if self.good else "not reliable yet"
        return f"{', '.join(figures)}: {end}."


def convergence(posterior: xr.Dataset) -> Convergence | None:
    """Return the worst R-hat and effective sample sizes of all variables, up to fifty elements each.

    It is None for fewer than ten draws in each chain. An element with the same value in all chains is constant, and is
    left out. An element that never moves within a chain has no effective draws if the chains differ; ArviZ counts all
    of its draws as effective.
    """
    import arviz_stats

    if posterior.sizes["draw"] < MIN_DRAWS:
        return None
    draws = {name: values for variable in posterior.data_vars.values() for name, values in _elements(variable)}
    draws = {name: values for name, values in draws.items() if np.ptp(values) > 0.0}
    still = [name for name, values in draws.items() if (np.ptp(values, axis=1) == 0.0).any()]
    if still or not draws:
        return Convergence(float("nan"), "", *(0.0, still[0] if still else "") * 2)
    # One array, whose figures ArviZ computes in a third of the time that its summary takes.
    stacked = xr.DataArray(np.stack(list(draws.values()), axis=-1), dims=("chain", "draw", "element"))
    bulk, tail = (arviz_stats.ess(stacked, method=method).to_numpy() for method in ("bulk", "tail"))
    names = list(draws)
    return Convergence(
        *_largest(arviz_stats.rhat(stacked).to_numpy(), names), *_smallest(bulk, names), *_smallest(tail, names)
    )


def _elements(variable: xr.DataArray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each checked element, such as ``f[3]``, with its draws, (chains, draws)."""
    variable = variable.transpose("chain", "draw", ...)
    values = variable.to_numpy()
    labels = [variable[dim].to_numpy() for dim in variable.dims[2:]]
    flat = values.reshape(*values.shape[:2], -1)
    for place in np.unique(np.linspace(0, flat.shape[2] - 1, ELEMENTS).round().astype(int)):
        yield _element(str(variable.name), place, labels), flat[:, :, place]


def _element(name: str, place: int, labels: list[np.ndarray]) -> str:
    """Return the name of an element with its coordinates, as ArviZ writes them."""
    where = np.unravel_index(place, [len(each) for each in labels]) if labels else ()
    return f"{name}[{', '.join(str(each[at]) for each, at in zip(labels, where, strict=True))}]" if labels else name


def _largest(figures: np.ndarray, names: list[str]) -> tuple[float, str]:
    """Return the largest figure with its element, or NaN if none is known, such as R-hat of a single chain."""
    if np.isnan(figures).all():
        return float("nan"), ""
    place = int(np.nanargmax(figures))
    return float(figures[place]), names[place]


def _smallest(figures: np.ndarray, names: list[str]) -> tuple[float, str]:
    largest, name = _largest(-figures, names)
    return -largest, name


class Words(NamedTuple):
    """The parts of the advice that differ between Python and the command line.

    `estimates` takes the name of an estimator; `more` says how to add draws, and takes the required effective size and
    the number of draws for each chain.
    """

    draws: str
    chains: str
    tune: str
    others: str
    estimates: Callable[[str], str]
    fits: str
    more: Callable[[float, int], str]


PYTHON = Words(
    "draws=1000",
    "chains=4",
    "tune=2000",
    "the priors, and the alternatives that pmgp.recommend lists",
    lambda estimator: f"step=pmgp.PseudoMarginal(estimator=pmgp.estimators.{estimator}(draws=...))",
    'approximation=pmgp.approximations.ExpectationPropagation(max_sweeps=200) or "laplace"',
    lambda ess, needed: f"pmgp.sample(..., ess={ess:.0f}) continues until there are enough",
)


def of_command(draws: int) -> Words:
    """Return the words for a reader of ``pmgp run``, which was given a number of draws."""

    def more(ess: float, needed: int) -> str:
        if needed <= draws:
            return "the same command with --resume completes the run"
        return f"the same command with --resume --draws {needed} adds them"

    return Words(
        "--draws 1000",
        "--chains 4",
        "--tune 2000",
        "the priors and the data",
        lambda estimator: "--importance-samples, if --estimator is importance",
        "--approximation laplace",
        more,
    )


def report(idata: xr.DataTree, ess: float = ENOUGH, words: Words = PYTHON) -> Report:
    """Return a report on whether draws are reliable, with advice if not.

    Parameters
    ----------
    idata : DataTree
        Draws with groups ``posterior`` and ``sample_stats``, from any step method.
    ess : float
        Required number of effective draws, over all chains.
    words : Words
        What the advice tells the reader to do.

    Returns
    -------
    Report
        `sample` logs its text.
    """
    posterior = idata["posterior"].to_dataset()
    stats = idata["sample_stats"].to_dataset() if "sample_stats" in idata.children else xr.Dataset()
    found = convergence(posterior)
    spread = estimate_spread(stats)
    findings = [
        *_of_convergence(found, posterior.sizes["chain"], posterior.sizes["draw"], ess, words),
        *_of_spread(spread, stats, words),
        *_of_failures(stats, words),
    ]
    return Report(found, spread, tuple(findings))


def estimate_spread(stats: xr.Dataset) -> float | None:
    """Return the median over draws of the standard deviation of log p^(y|theta), from effective numbers of samples.

    An average of N weights whose effective number is E has the relative variance 1/E - 1/N.
    """
    if not {"importance_ess", "importance_draws"} <= set(stats.data_vars):
        return None
    effective, draws = stats["importance_ess"].to_numpy(), stats["importance_draws"].to_numpy()
    known = np.isfinite(effective) & (draws > 0)
    if not known.any():
        return None
    return float(np.median(np.sqrt(np.maximum(1.0 / effective[known] - 1.0 / draws[known], 0.0))))


def _of_convergence(found: Convergence | None, chains: int, draws: int, ess: float, words: Words) -> list[str]:
    if found is None:
        return [f"draw more: {words.draws} is a good start"]
    findings = []
    if chains == 1:
        findings.append(f"one chain has no R-hat: sample four, {words.chains}")
    if found.r_hat > LARGE_RHAT:
        findings.append(
            f"R-hat of {found.r_hat_of} is {above(found.r_hat, LARGE_RHAT, 4)} (at most {LARGE_RHAT} is good): the "
            f"chains still depend on their starting points. Tune longer ({words.tune}) and draw more; if that does not "
            f"help, look at the traces, {words.others}"
        )
    if not found.ess >= ess:
        element = found.bulk_of if not found.bulk > found.tail else found.tail_of
        findings.append(
            f"{element or 'a variable'} has {found.ess:.0f} effective draws instead of {ess:.0f}: "
            f"{_more(found, draws, ess, words)}"
        )
    return findings


def _more(found: Convergence, draws: int, ess: float, words: Words) -> str:
    if not found.ess:
        return "it hardly moves; look at its trace"
    needed = _rounded(draws * ess / found.ess)
    return f"about {needed} draws per chain are needed; {words.more(ess, needed)}"


def _rounded(value: float) -> int:
    """Round up to two significant digits."""
    digits = 10 ** max(0, int(np.log10(value)) - 1)
    return int(np.ceil(value / digits)) * digits


def _of_spread(spread: float | None, stats: xr.Dataset, words: Words) -> list[str]:
    if spread is None or spread <= LARGE_SPREAD:
        return []
    return [
        f"the log of the estimated p(y|theta) has a standard deviation of {spread:.1f} or more: chains are exact but "
        f"may stick. Give more draws, {words.estimates(_estimator(stats))}, or another approximation"
    ]


def _estimator(stats: xr.Dataset) -> str:
    """Return the name of the estimator with which most draws were made."""
    others = {"orthants": "OrthantSampling", "sequential": "SequentialSampling"}
    used = [name for statistic, name in others.items() if statistic in stats and stats[statistic].mean() > 0.5]
    return used[0] if used else "ImportanceSampling"


def _of_failures(stats: xr.Dataset, words: Words) -> list[str]:
    share = {name: float(stats[name].mean()) for name in ("exact", "indefinite", "converged") if name in stats}
    findings = []
    if "held" in stats:
        findings.append(
            "Langevin steps reject no proposal, so the draws are not exact; leave out those for which the statistic "
            f"`held` is false ({1.0 - float(stats['held'].mean()):.0%})"
        )
    elif share.get("exact", 1.0) < 1.0:
        findings.append('the draws come from the approximation (estimator="none"), not from the posterior')
    if share.get("indefinite", 0.0) > FAILED:
        findings.append(
            f"at {share['indefinite']:.0%} of the proposals the covariance of f could not be factorized, or the noise "
            "was too small for double precision: raise the jitter of gp.prior(..., jitter=...), or give the noise a "
            "prior that is zero at zero"
        )
    if share.get("converged", 1.0) < 1.0 - FAILED:
        findings.append(
            f"at {1.0 - share['converged']:.0%} of the proposals the approximation did not converge: give {words.fits}"
        )
    return findings
