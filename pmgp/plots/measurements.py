"""Measurements against their predictive distributions."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.stats import norm

from pmgp.plots.counts import Interval, draw_observed, draw_transform
from pmgp.plots.names import in_lines
from pmgp.plots.style import WIDTH, few_ticks, style


def measurements(y: ArrayLike, mean: ArrayLike, sd: ArrayLike, name: str = "measurement", bins: int = 10) -> Figure:
    """Plot measurements against predicted means, beside the histogram of the probability integral transform.

    Parameters
    ----------
    y : array_like of shape (m,)
        Measurements.
    mean, sd : array_like of shape (m,)
        Means and standard deviations of their normal predictive distributions.
    name : str
        Name of the measurement, for labels.
    bins : int
        Number of bins of the histogram.

    Raises
    ------
    ValueError
        If a standard deviation is not positive, or a value is masked or not finite.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> rng = np.random.default_rng(1)
    >>> mean = rng.normal(size=50)
    >>> figure = pmgp.plots.measurements(rng.normal(mean, 0.3), mean, np.full(50, 0.3))
    """
    y, mean, sd = (np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan) for values in (y, mean, sd))
    if not all(np.isfinite(values).all() for values in (y, mean, sd)):
        raise ValueError("y, mean and sd must be finite; leave out the missing measurements")
    if not (sd > 0.0).all():
        raise ValueError("sd must be positive: predictions with a standard deviation of zero have no density")
    predicted = norm(mean, sd)
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 4.6), width_ratios=(3, 2))
        interval = Interval(*(np.asarray(predicted.ppf(end)) for end in (0.05, 0.95)))
        draw_observed(left, y, mean, interval, "value")
        few_ticks(left.xaxis, left.yaxis)
        left.set(xlabel=in_lines(f"predicted mean of {name}", 50), ylabel=in_lines(f"observed {name}", 45))
        up_to = predicted.cdf(y)
        draw_transform(right, (up_to, up_to), bins, "probability up to the observed value")
    return figure
