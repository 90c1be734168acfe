"""The process in time at evenly spaced times, observed and later ones, for a forecast and its picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from pmgp.app.tasks import Problem

TIMES = 300
"""The number of times in the picture that lie among the observations."""
LEVELS = (0.05, 0.5, 0.95)


def _expected_category(f: xr.DataArray, posterior: xr.Dataset) -> Any:
    """Return the expected place of the category among 0, ..., r - 1: the sum of the probabilities to be above each."""
    cutpoints = posterior["cutpoints"].sel(chain=f["chain"], draw=f["draw"])
    above: Any = ndtr(f - cutpoints)
    return above.sum("cutpoint")


RESPONSES: dict[str, Callable[[xr.DataArray, xr.Dataset], Any]] = {
    "probit": lambda f, _: ndtr(f),
    "logit": lambda f, _: expit(f),
    "poisson": lambda f, _: np.exp(f),
    "ordinal": _expected_category,
}
"""The expected observation given draws of the latent values, and of the hyper-parameters."""


def trend(problem: Problem, idata: xr.DataTree) -> pd.DataFrame | None:
    """Return quantiles of the expected observation over time, and of counts themselves; None without ``--time``.

    There is one row for each time: ``time``, ``low``, ``median``, ``high`` (5, 50 and 95%), ``forecast``, which says
    whether it is after the last observation, for counts ``count_low`` and ``count_high``, and ``date`` if times are
    days since a date. The value of an ordered category is its place, 0 for the lowest. With exposures the expected
    count is that of a unit of exposure, and there is no interval of counts, for nobody knows the exposures at these
    times. Up to 1,000 draws of the posterior are used, in O(n).
    """
    if problem.settings.time is None:
        return None
    import pandas as pd

    import pmgp

    seen = problem.train.X[:, 0]
    later = forecast_times(problem)
    times = np.concatenate([np.linspace(seen.min(), seen.max(), TIMES), later])
    exposed = problem.settings.exposure is not None
    drawn = pmgp.sample_predictions(
        idata,
        problem.standardizer.transform(times[:, None]),
        model=problem.model,
        joint=False,
        # The model needs some exposure; f, the log of the rate, does not depend on it.
        at={"exposure": 1.0} if exposed else None,
        random_seed=problem.settings.seed,
        progressbar=False,
    )["predictions"]
    across = ("chain", "draw")
    expected = RESPONSES[problem.settings.likelihood](drawn["f"], idata["posterior"].to_dataset())
    low, median, high = expected.quantile(LEVELS, dim=across).to_numpy()
    columns = {"time": times, "low": low, "median": median, "high": high, "forecast": np.arange(len(times)) >= TIMES}
    if problem.settings.likelihood == "poisson" and not exposed:
        # The ends of an interval of counts are counts.
        counts = drawn["y"].quantile([LEVELS[0], LEVELS[-1]], dim=across, method="inverted_cdf").to_numpy().astype(int)
        columns |= {"count_low": counts[0], "count_high": counts[1]}
    table = pd.DataFrame(columns)
    known = problem.dataset.dates.get(problem.dataset.feature_names[0])
    if known is not None:
        dates = pd.Timestamp(known.first) + pd.to_timedelta(times, unit="D")
        table.insert(1, "date", dates.tz_localize(None).round("s"))
    return table


def forecast_times(problem: Problem) -> NDArray[np.float64]:
    """Return times after the last training point: the test part, then as many as the horizon, a median step apart."""
    every = np.unique(problem.dataset.X[:, 0])
    further = every[-1] + np.median(np.diff(every)) * np.arange(1, problem.settings.horizon + 1)
    return np.unique(np.concatenate([problem.test.X[:, 0], further]))
