"""Plots of a sampled Gaussian process model.

ArviZ draws every plot that it offers; R-hat over iterations, the length-scales beside their prior, and plots of
predictions are drawn here. Every function returns a new matplotlib figure and shows nothing, so that it works without
a display.

May import: scores, diagnostics.
"""

from pmgp.plots.abstention import abstention
from pmgp.plots.calibration import calibration
from pmgp.plots.categories import categories
from pmgp.plots.chains import autocorrelation, posterior, rank, rhat, trace
from pmgp.plots.classes import classes
from pmgp.plots.counts import counts
from pmgp.plots.lengthscales import lengthscale
from pmgp.plots.measurements import measurements
from pmgp.plots.trends import trend

__all__ = [
    "abstention",
    "autocorrelation",
    "calibration",
    "categories",
    "classes",
    "counts",
    "lengthscale",
    "measurements",
    "posterior",
    "rank",
    "rhat",
    "trace",
    "trend",
]
