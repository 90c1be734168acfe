"""Rivals of deep processes: a Gaussian process and gradient-boosted trees, both of scikit-learn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from case_studies.tools.data import Data

__all__ = ["RIVALS", "Sizes"]

Sizes = tuple[int, int]
"""Rows for the hyper-parameters of the Gaussian process, and rows from which its predictions are made, at most."""
ARD = 15
"""Columns up to which each has a length-scale of its own."""


def process(data: Data, labels: bool, sizes: Sizes, seed: int) -> dict[str, float]:
    """Score a Gaussian process at the best hyper-parameters: exact for numbers, by Laplace's method for labels."""
    d = data.X.shape[1]
    lengthscales = np.full(d if d <= ARD else 1, np.sqrt(d))
    kernel: Any = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(lengthscales, (1e-2, 1e3))
    if labels:
        kind: Any = GaussianProcessClassifier
    else:
        kind, kernel = GaussianProcessRegressor, kernel + WhiteKernel(0.1, (1e-6, 1e1))
    order = np.random.default_rng(seed).permutation(len(data.y))
    few, many = (order[:size] for size in sizes)
    clock = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Length-scales of irrelevant columns stop at their limit.
        best = kind(kernel, random_state=0).fit(data.X[few], data.y[few]).kernel_
        fitted = kind(best, optimizer=None).fit(data.X[many], data.y[many])
    seconds = time.process_time() - clock
    if labels:
        return _of_labels(fitted.predict_proba(data.X_new)[:, 1], data) | {"seconds": seconds}
    return _of_numbers(*fitted.predict(data.X_new, return_std=True), data) | {"seconds": seconds}


def trees(data: Data, labels: bool, sizes: Sizes, seed: int) -> dict[str, float]:
    """Score gradient-boosted trees that stop early; the density of numbers is normal, with the validation's error."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    validation, rest = np.split(order, [len(order) // 10])
    kind: Any = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    clock = time.process_time()
    given = {"X_val": data.X[validation], "y_val": data.y[validation]}
    fitted = kind(max_iter=1000, early_stopping=True, random_state=seed).fit(data.X[rest], data.y[rest], **given)
    seconds = time.process_time() - clock
    if labels:
        return _of_labels(fitted.predict_proba(data.X_new)[:, 1], data) | {"seconds": seconds}
    spread = np.sqrt(np.mean((fitted.predict(data.X[validation]) - data.y[validation]) ** 2))
    return _of_numbers(fitted.predict(data.X_new), spread, data) | {"seconds": seconds}


def _of_numbers(mean: np.ndarray, spread: np.ndarray, data: Data) -> dict[str, float]:
    error = np.sqrt(np.mean((mean - data.y_new) ** 2))
    return {"error": float(error), "nll": -float(norm.logpdf(data.y_new, mean, spread).mean())}


def _of_labels(probability: np.ndarray, data: Data) -> dict[str, float]:
    seen = np.where(data.y_new == 1, probability, 1 - probability)
    error = np.mean((probability > 0.5) != data.y_new)
    return {"error": float(error), "nll": -float(np.log(np.maximum(seen, 1e-12)).mean())}


RIVALS: dict[str, Callable[[Data, bool, Sizes, int], dict[str, float]]] = {"GP": process, "trees": trees}
"""By name: from data, whether they are labels, sizes and a seed, to error, negative log density and seconds."""
