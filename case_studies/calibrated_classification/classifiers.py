"""The four classifiers of the article's section 5.2, and pmgp's own default."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from case_studies.calibrated_classification.data import Split
from case_studies.calibrated_classification.process import Process, for_shape
from case_studies.tools.effective_size import effective_sizes

__all__ = ["CLASSIFIERS", "OURS", "REFERENCE", "Chain", "Predicted", "gaussian_process_ml", "support_vector"]

OURS = "pmgp default"
"""Beside the article's: the same posterior as :data:`REFERENCE`, sampled with other importance samples."""

REFERENCE = "MCMC PM EP"
"""The exact sampler, which others are compared with."""

FOLDS = 5
# The grid of LIBSVM's guide (Hsu, Chang and Lin 2003), section 3.2.
COSTS, WIDTHS = 2.0 ** np.arange(-5, 16, 2), 2.0 ** np.arange(-15, 4, 2)

# Length-scales over sqrt(d), and variances, among which the evidence is maximized, on the log scale. Where classes
# can be separated it has no maximum: it increases towards a limit as the variance does.
LENGTHSCALES, VARIANCES = (-3.0, 3.0), (-3.0, 6.0)
GRID = 4
# Draws that predictions are averaged over, at most; those given f have more Monte Carlo error than those under q.
UNDER_Q, GIVEN_F = 250, 1000


class Chain(NamedTuple):
    """Length of a chain."""

    tune: int
    draws: int


class Predicted(NamedTuple):
    """Probabilities of label 1 at the test points, and what else is known.

    Attributes
    ----------
    probability : (m,) array
    notes : dict of str to float
        ``log_lengthscale`` and ``log_variance``, maximizers or posterior means; for chains also their standard
        deviations (``_sd``), ``ess``, the smaller one of theta's, and ``probability_error``, the root mean square Monte
        Carlo error of the probabilities; for a maximum, whether it is ``at_bound``.
    """

    probability: np.ndarray
    notes: dict[str, float]


def support_vector(rng: np.random.Generator, split: Split, chain: Chain) -> Predicted:
    """Support vector machine with a Gaussian kernel and Platt's probabilities, as in LIBSVM.

    Cost and kernel width have the smallest cross-validation error, and the smallest values where there are ties. The
    sigmoid is fitted to cross-validated decision values.
    """
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.svm import SVC

    X, y = split.train
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=int(rng.integers(2**31)))
    search = GridSearchCV(SVC(), {"C": COSTS, "gamma": WIDTHS}, cv=folds, refit=False).fit(X, y)
    machine = CalibratedClassifierCV(SVC(**search.best_params_), method="sigmoid", cv=folds, ensemble=False).fit(X, y)
    return Predicted(machine.predict_proba(split.test.X)[:, 1], {})


def gaussian_process_ml(rng: np.random.Generator, split: Split, chain: Chain) -> Predicted:
    """Type II maximum likelihood ("EP ML"): a grid search of expectation propagation's evidence, then L-BFGS."""
    process = _process(split)
    bounds = np.array([LENGTHSCALES, VARIANCES])
    bounds[0] += 0.5 * np.log(split.train.X.shape[1])
    # The grid's points are the middles of equal parts of the box.
    axes = [low + (high - low) * (np.arange(GRID) + 0.5) / GRID for low, high in bounds]
    start = max(map(np.array, product(*axes)), key=lambda theta: process.evidence(theta)[0])
    theta = minimize(process.evidence.negative, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    at_bound = bool(np.isclose(theta[:, None], bounds, atol=1e-6).any())
    probability = process.probability_under_q(theta, _squares(split))
    return Predicted(probability, {**_named(theta), "at_bound": float(at_bound)})


def _sampled(name: str) -> Callable[[np.random.Generator, Split, Chain], Predicted]:
    """The classifier that averages over a chain of theta, or of theta and f."""

    def classify(rng: np.random.Generator, split: Split, chain: Chain) -> Predicted:
        process = _process(split)
        thetas, latents = _run(rng, process, name, chain)
        squares = _squares(split)
        if name == "MCMC EP":
            each = (process.probability_under_q(thetas[k], squares) for k in _spaced(chain.draws, UNDER_Q))
        else:
            each = (process.probability_given_f(thetas[k], latents[k], squares) for k in _spaced(chain.draws, GIVEN_F))
        probability, error = _mean_and_error(each)
        notes = {"ess": float(effective_sizes(thetas).min()), "probability_error": error}
        spread = {f"{key}_sd": value for key, value in _named(thetas.std(axis=0, ddof=1)).items()}
        return Predicted(probability, {**_named(thetas.mean(axis=0)), **spread, **notes})

    classify.__doc__ = f"Predictions of {name}, averaged over the posterior."
    return classify


def _run(rng: np.random.Generator, process: Process, name: str, chain: Chain) -> tuple[np.ndarray, np.ndarray]:
    """Draws of theta and of f, from the step method's own starting point."""
    step, parts = process.steps[name], process.parts
    step.setup_chain(rng, chain.tune, chain.draws)
    point: dict[str, Any] = process.model.initial_point()
    for _ in range(chain.tune):
        point, _ = step.step(point)
    step.stop_tuning()
    thetas, latents = [], []
    for _ in range(chain.draws):
        point, _ = step.step(point)
        thetas.append(parts.ravel(point))
        latents.append(point[parts.latent_value.name])
    return np.array(thetas), np.array(latents)


def _spaced(draws: int, most: int) -> np.ndarray:
    return np.linspace(0, draws - 1, min(most, draws)).round().astype(int)


def _mean_and_error(each: Iterable[np.ndarray]) -> tuple[np.ndarray, float]:
    """Mean over draws, and its root mean square error over test points from batch means.

    With B batches the squared error of the mean is their variance over B; ten are few enough for batches to be nearly
    independent.
    """
    batches = np.array([batch.mean(axis=0) for batch in np.array_split(np.array(list(each)), 10)])
    return batches.mean(axis=0), float(np.sqrt(batches.var(axis=0, ddof=1).mean() / len(batches)))


def _process(split: Split) -> Process:
    process = for_shape(*split.train.X.shape)
    process.set_data(split.train)
    return process


def _squares(split: Split) -> np.ndarray:
    return cdist(split.train.X, split.test.X, "sqeuclidean")


def _named(theta: np.ndarray) -> dict[str, float]:
    return {"log_lengthscale": float(theta[0]), "log_variance": float(theta[1])}


CLASSIFIERS: dict[str, Callable[[np.random.Generator, Split, Chain], Predicted]] = {
    "SVM": support_vector,
    "EP ML": gaussian_process_ml,
    "MCMC EP": _sampled("MCMC EP"),
    REFERENCE: _sampled(REFERENCE),
    OURS: _sampled(OURS),
}
"""By their names in the article, in its order, and ours."""
