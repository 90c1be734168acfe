"""Cost of one evaluation of log p(y|theta) beside other packages: everything from theta on, one BLAS thread.

All have the same labels, inputs, theta and covariance, its jitter included, and start from nothing. Methods of the same
name and link converge to the same function of theta, so their log-evidences can be compared. A chain, whose
exactness does not depend on it, has a looser tolerance and predicts the start from theta: those rows say so.

scikit-learn's Laplace approximation has only the logit link. GPy's are timed where it is installed (``uv run --with
GPy``), with its defaults, and its expectation propagation with all sites changed at once too, which has to be damped;
its inference includes the gradient in K. GPflow needs an older NumPy than this package does and cannot be beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from importlib.util import find_spec
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from threadpoolctl import threadpool_limits

from benchmarks.iteration import lapack_seconds
from benchmarks.problems import Problem, load
from pmgp import models
from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.approximations import TIGHT, Approximation, ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.interface.maximum import Objective
from pmgp.interface.model.points import value_point
from pmgp.interface.model.taking_apart import take_apart

__all__ = ["PROBLEMS", "Method", "measure", "methods", "rows"]

PROBLEMS = ("synthetic-200", "synthetic-700", "synthetic-1400")
# Those that the synthetic data were drawn with, and what `pymc.gp` adds to the diagonal.
LENGTHSCALE, VARIANCE, JITTER = 0.35, float(np.exp(2.0)), 1e-6
DRAWS = 64
BLOCKS = 6
BLOCK_SECONDS = 0.2
# A method that has taken so long sits the remaining blocks out.
LONGEST = 10.0
# Predicted starts are learned at draws of theta from N(theta + SPREAD, SPREAD^2) in each coordinate.
LEARNED, SPREAD = 30, 0.3
LOOSE, PREDICTED = ", loose", ", predicted start"


class Method(NamedTuple):
    """A way to compute log p(y|theta), which `evaluate` returns."""

    package: str
    name: str
    link: str
    evaluate: Callable[[], float]


class _Timed:
    """A method and what its blocks of evaluations took."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.blocks: list[float] = []
        self.values: list[float] = []
        self.spent = 0.0

    def run_block(self) -> None:
        """Evaluate for the time of a block, once at least."""
        if self.spent > LONGEST:
            return
        values, start = [], process_time()
        while not values or process_time() < start + BLOCK_SECONDS:
            values.append(self.method.evaluate())
        seconds = process_time() - start
        self.spent += seconds
        self.blocks.append(seconds / len(values))
        self.values += values

    @property
    def seconds(self) -> float:
        """Median over blocks; the first warms up, and counts only where it is the only one."""
        return float(np.median(self.blocks[1:] or self.blocks))


def rows(names: Collection[str]) -> Iterator[dict[str, Any]]:
    """A row for every problem and method, in one process with one BLAS thread."""
    if find_spec("GPy") is None:
        print("GPy is not installed and left out; uv run --with GPy adds it")
    with threadpool_limits(limits=1):
        for name in names:
            yield from measure(load(name))


def measure(problem: Problem) -> list[dict[str, Any]]:
    """Time all methods in blocks that take turns, so that all meet the same conditions.

    Returns
    -------
    list of dict
        Medians over blocks: ``ms`` of processor time, ``dpotrfs`` in units of one dpotrf of that size, ``ratio`` to the
        fastest of this package's methods with that link (predicted starts apart), ``same method`` to this package's
        method of that name; ``log evidence``, text because of its digits, the median over evaluations where it is an
        estimate.
    """
    timed = [_Timed(method) for method in methods(problem)]
    units = []
    for _ in range(BLOCKS):
        units.append(lapack_seconds(len(problem.y), 10)[0])
        for each in timed:
            each.run_block()
    return [_row(problem, each, timed, float(np.median(units))) for each in timed]


def _row(problem: Problem, timed: _Timed, all_timed: list[_Timed], unit: float) -> dict[str, Any]:
    package, name, link, _ = timed.method
    own = {e.method.name: e.seconds for e in all_timed if e.method.package == "pmgp" and e.method.link == link}
    fastest = min(seconds for other, seconds in own.items() if not other.endswith(PREDICTED))
    return {
        "data": problem.name,
        "n": len(problem.y),
        "package": package,
        "method": name,
        "link": link,
        "ms": 1e3 * timed.seconds,
        "dpotrfs": timed.seconds / unit,
        "ratio": timed.seconds / fastest,
        "same method": timed.seconds / own.get(name, own[name.split(",")[0]]),
        "log evidence": f"{np.median(timed.values):.4f}",
    }


def methods(problem: Problem) -> list[Method]:
    """All that are compared, this package's first."""
    logit, probit = _Pmgp(problem, "logit"), _Pmgp(problem, "probit")
    return [
        logit.evidence("Laplace", TIGHT["laplace"]()),
        logit.evidence("Laplace" + LOOSE, Laplace()),
        logit.predicted("Laplace" + LOOSE, Laplace()),
        logit.gradient("Laplace, gradient", TIGHT["laplace"]()),
        *_scikit_learn(problem),
        probit.evidence("Laplace", TIGHT["laplace"]()),
        probit.evidence("Laplace" + LOOSE, Laplace()),
        probit.evidence("EP", TIGHT["ep"]()),
        probit.evidence("EP" + LOOSE, ExpectationPropagation()),
        probit.predicted("EP" + LOOSE, ExpectationPropagation()),
        probit.estimate(f"EP{LOOSE}, {DRAWS} draws", ExpectationPropagation()),
        *(_gpy(problem) if find_spec("GPy") else []),
    ]


class _Pmgp:
    """The methods of this package, on one model at one theta."""

    def __init__(self, problem: Problem, link: str) -> None:
        self.link = link
        self.model = models.classifier(problem.X, problem.y, likelihood=link)
        point = value_point(self.model, {"lengthscale": LENGTHSCALE, "variance": VARIANCE})
        self.parts = take_apart(self.model, initial_point=point)
        self.theta = self.parts.ravel(point)

    def evidence(self, name: str, approximation: Approximation, predictor: ModePredictor | None = None) -> Method:
        """The approximation's evidence, as a step method asks for it."""
        evaluator = Evaluator(self.parts, approximation)

        def evaluate() -> float:
            return evaluator(self.theta, predictor).approximation.log_evidence

        return Method("pmgp", name, self.link, evaluate)

    def predicted(self, name: str, approximation: Approximation) -> Method:
        """The same from a start that is predicted from theta."""
        return self.evidence(name + PREDICTED, approximation, self._predictor(approximation))

    def gradient(self, name: str, approximation: Approximation) -> Method:
        """Evidence and its gradient in theta, of a tight fit."""
        objective = Objective(self.model, self.parts, approximation, prior=False)
        return Method("pmgp", name, self.link, lambda: objective(self.theta)[0])

    def estimate(self, name: str, approximation: Approximation) -> Method:
        """An unbiased estimate by importance sampling on top."""
        evaluator, rng = Evaluator(self.parts, approximation), np.random.default_rng(1)
        estimator = ImportanceSampling(DRAWS)

        def evaluate() -> float:
            evaluation = evaluator.prepare(evaluator(self.theta, None))
            return estimator.estimate(rng, evaluation.approximation, evaluation.likelihood).log_evidence

        return Method("pmgp", name, self.link, evaluate)

    def _predictor(self, approximation: Approximation) -> ModePredictor:
        evaluator, rng = Evaluator(self.parts, approximation), np.random.default_rng(1)
        center, scale = self.theta + SPREAD, np.full(len(self.theta), SPREAD)
        thetas = rng.normal(center, scale, (LEARNED, len(center)))
        starts = [evaluator.start_from(evaluator(theta, None)) for theta in thetas]
        predictor = ModePredictor(len(center), len(starts[0]), center, scale)
        for theta, start in zip(thetas, starts, strict=True):
            predictor.add(theta, start)
        predictor.solve()
        return predictor


def _scikit_learn(problem: Problem) -> list[Method]:
    kernel = ConstantKernel(VARIANCE) * RBF(LENGTHSCALE) + WhiteKernel(JITTER, "fixed")
    classifier = GaussianProcessClassifier(kernel, optimizer=None).fit(problem.X, problem.y)
    evidence, theta = classifier.log_marginal_likelihood, classifier.kernel_.theta
    return [
        Method("scikit-learn", "Laplace", "logit", lambda: evidence(theta)),
        Method("scikit-learn", "Laplace, gradient", "logit", lambda: evidence(theta, eval_gradient=True)[0]),
    ]


def _gpy(problem: Problem) -> list[Method]:
    import GPy
    from GPy.inference import latent_function_inference
    from paramz import ObsAr

    X, y = ObsAr(problem.X), ObsAr(problem.y[:, None].astype(float))
    kernel = GPy.kern.RBF(X.shape[1], VARIANCE, LENGTHSCALE) + GPy.kern.White(X.shape[1], JITTER)
    likelihood, theta = GPy.likelihoods.Bernoulli(), kernel.param_array.copy()

    def method(name: str, inference: Callable[..., Any], **settings: Any) -> Method:
        def evaluate() -> float:
            # Without the assignment K would come from a cache, without a new object the start from the last run.
            kernel[:] = theta
            return float(inference(**settings).inference(kernel, X, likelihood, y)[1])

        return Method("GPy", name, "probit", evaluate)

    laplace, ep = latent_function_inference.Laplace, latent_function_inference.EP
    return [
        method("Laplace", laplace),
        method("EP, one by one", ep),
        method("EP", ep, parallel_updates=True, delta=0.7),
    ]
