"""The study of errors over time, and of solvers that stop at random: its methods, and what is stored."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from case_studies.iterative import __main__ as command
from case_studies.iterative import conditioning, curves, langevin, learning, results, truncation
from case_studies.iterative.curves import RIVALS, rival_of
from case_studies.iterative.isotropic import Isotropic
from case_studies.iterative.learning import Problem
from case_studies.tools.data import Data
from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit


@pytest.fixture(scope="module")
def numbers():
    """A smooth function of one of two columns, with noise."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(70, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=70)
    return Problem(Data(X[:50], y[:50], X[50:], y[50:]), False, 0.5)


@pytest.fixture(scope="module")
def labels(numbers):
    data = numbers.data
    return numbers._replace(data=data._replace(y=1.0 * (data.y > 0), y_new=1.0 * (data.y_new > 0)), labels=True)


THETA = np.array([-0.3, 0.4, 0.2, -2.0])
WIDE = np.array([-0.8, -0.3, 1.2])
"""Length-scales so short that inducing inputs lose something, and a variance that makes labels clear."""


def log_density(problem, theta):
    data = problem.data
    C = learning.covariance(theta, data.X, data.X) + np.exp(theta[-1]) * np.eye(len(data.y))
    return multivariate_normal.logpdf(data.y, np.zeros(len(data.y)), C)


compiling = pytest.mark.skipif(
    "PMGP_DATA" not in os.environ, reason="compiles for seconds, and runs with the articles' data"
)


@compiling
def test_rivals_with_all_inputs_have_the_exact_density_and_predictions(numbers):
    """With some of them the bound is lower, which is the twin."""
    jax = pytest.importorskip("jax")
    exact, scores = log_density(numbers, THETA), learning.scored(numbers, THETA)
    for name in RIVALS:
        rival = rival_of(name, numbers, 1)
        with jax.enable_x64(True):
            assert name != "VAR" or -float(jax.jit(rival.negative)(THETA)) < exact - 0.1
            rival._inducing = numbers.data.X
            whole = -float(jax.jit(lambda theta, rival=rival: rival.negative(theta))(THETA))
        assert whole == pytest.approx(exact, abs=2e-3), name
    assert rival.scored(THETA) == pytest.approx(scores, abs=1e-4)


@compiling
@pytest.mark.parametrize("name", ["FITC", "PITC"])
def test_rivals_for_labels_have_laplace_s_evidence_and_its_gradient(labels, name):
    """With the whole covariance it differs by more than a tenth, which is the twin."""
    jax = pytest.importorskip("jax")
    X, rival = labels.data.X, rival_of(name, labels, 1)
    own = learning.covariance(WIDE, X, rival._inducing)
    Q = own @ np.linalg.solve(learning.covariance(WIDE, rival._inducing, rival._inducing), own.T)
    K = learning.covariance(WIDE, X, X)
    same = np.zeros_like(K, dtype=bool)
    for piece in (piece for rows in rival._groups for piece in rows):
        same[np.ix_(piece, piece)] = True

    def evidence(covariance):
        prior = DensePrior(np.zeros(len(K)), np.asfortranarray(covariance)).factorized()
        return Laplace(tolerance=1e-10).fit(prior, BernoulliProbit(labels.data.y.astype(int))).log_evidence

    with jax.enable_x64(True):
        found, gradient = jax.jit(jax.value_and_grad(rival.negative))(WIDE)
    assert -float(found) == pytest.approx(evidence(np.where(same, K, Q)), abs=1e-3)
    assert abs(-float(found) - evidence(K)) > 0.1
    assert np.asarray(gradient) == pytest.approx(slopes(rival, WIDE), abs=1e-4)
    exact = learning.scored(labels, WIDE)["nll"]
    assert abs(rival.scored(WIDE)["nll"] - exact) > 0.03
    rival._inducing = X
    assert rival.scored(WIDE)["nll"] == pytest.approx(exact, abs=3e-4)


@compiling
def test_the_bound_for_labels_is_the_largest(labels):
    """Against an optimization over all normal q; q that stays at the prior is the twin."""
    jax = pytest.importorskip("jax")
    from case_studies.iterative.inducing_labels import NODES, WEIGHTS

    rival, signs = rival_of("VAR", labels, 1), 2.0 * labels.data.y - 1.0
    m = len(rival._inducing)
    lower = np.tril_indices(m)

    def negative(q):
        mean, root = q[:m], jax.numpy.zeros((m, m)).at[lower].set(q[m:])
        divergence = 0.5 * ((root**2).sum() + mean @ mean - m) - jax.numpy.log(abs(jax.numpy.diagonal(root))).sum()
        parts = rival._parts(WIDE, jax.numpy.zeros_like(signs), jax.numpy.ones_like(signs))
        spread = jax.numpy.sqrt(parts.left + ((root.T @ parts.A) ** 2).sum(axis=0))
        margin = signs * (parts.A.T @ mean + spread * NODES[:, None])
        return divergence - (WEIGHTS @ jax.scipy.special.log_ndtr(margin)).sum()

    with jax.enable_x64(True):
        found, gradient = jax.jit(jax.value_and_grad(rival.negative))(WIDE)
        both, start = jax.jit(jax.value_and_grad(negative)), np.append(np.zeros(m), np.eye(m)[lower])
        best = minimize(lambda q: tuple(map(np.asarray, both(q))), start, jac=True, method="L-BFGS-B").fun
        assert float(found) == pytest.approx(float(best), abs=1e-3)
        assert float(negative(start)) > best + 1.0
    assert np.asarray(gradient) == pytest.approx(slopes(rival, WIDE), abs=1e-4)


@compiling
def test_a_climb_stays_where_distances_are_no_rounding_errors(labels):
    pytest.importorskip("jax")
    from case_studies.iterative.inducing import SMALLEST, Rival

    class Slope(Rival):
        def negative(self, theta):
            return theta[0] + (theta[1] + 1.0) ** 2 + (theta[2] - 1.0) ** 2

    path = Slope("FITC", labels, 1).climbed(labels)
    assert path[-1][1] == pytest.approx([SMALLEST, -1.0, 1.0], abs=1e-3)
    assert np.linalg.norm(path[1][1]) == pytest.approx(1.0, abs=1e-3)


def slopes(rival, theta):
    """Differences of the rival's function."""
    import jax

    steps = 1e-4 * np.eye(len(theta))
    with jax.enable_x64(True):
        function = jax.jit(rival.negative)
        return [(float(function(theta + step)) - float(function(theta - step))) / 2e-4 for step in steps]


def test_scores_of_numbers_are_those_of_another_package(numbers):
    data = numbers.data
    kernel = ConstantKernel(np.exp(THETA[2])) * RBF(np.exp(THETA[:2])) + WhiteKernel(np.exp(THETA[3]))
    fitted = GaussianProcessRegressor(kernel, optimizer=None).fit(data.X, data.y)
    mean, deviation = fitted.predict(data.X_new, return_std=True)
    assert learning.scored(numbers, THETA) == pytest.approx(
        learning.of_numbers(mean, deviation**2, data.y_new), abs=1e-6
    )


def test_working_observations_of_labels_have_the_mode_and_the_curvature(labels):
    """At the mode K^-1 f is the gradient of the log-likelihood; labels that are turned around are the twin."""
    theta = THETA[:-1]
    target, noise = learning._working(labels, theta)
    K = learning.covariance(theta, labels.data.X, labels.data.X)
    a = np.linalg.solve(K + np.diag(noise), target)

    def gradient(signs):
        f, step = K @ a, 1e-5
        up, down = (learning.log_ndtr(signs * (f + shift)) for shift in (step, -step))
        return (up - down) / (2.0 * step)

    signs = 2.0 * labels.data.y - 1.0
    assert a == pytest.approx(gradient(signs), abs=1e-5)
    assert np.abs(a - gradient(-signs)).max() > 0.1
    assert learning.scored(labels, theta)["error"] < 0.3


class Quadratic:
    """A density with its maximum at one to four, for a model that has the noise first, then the variance."""

    theta = SimpleNamespace(
        values=[SimpleNamespace(name=name) for name in ("noise_log__", "variance_log__", "lengthscale_log__")],
        ravel=lambda point: np.hstack([point[k] for k in ("noise_log__", "variance_log__", "lengthscale_log__")]),
    )

    def __init__(self, *_):
        self.best = np.array([4.0, 3.0, 1.0, 2.0])

    def evidence(self, theta):
        return -0.5 * np.sum((theta - self.best) ** 2), self.best - theta

    def estimate(self, rng, theta):
        return None

    def gradient(self, theta, found):
        return self.best - theta


@pytest.mark.parametrize("method", ["CHOL", "PCG"])
def test_methods_climb_until_the_budget_is_used_up(numbers, method, monkeypatch):
    """The elements of a path are in the common order, which the model's is not."""
    monkeypatch.setattr(Problem, "model", lambda self: {"y": None})
    monkeypatch.setattr(learning, "IterativeDensity", Quadratic)
    monkeypatch.setattr(learning, "MarginalTarget", Quadratic)
    path = learning.climbed(numbers._replace(budget=0.02), method, 1)
    seconds = [one for one, _ in path]
    assert np.all(np.diff(seconds) >= 0.0)
    assert seconds[-1] >= 0.02 or method == "CHOL"
    assert path[0][1] == pytest.approx([0.0, 0.0, 0.0, np.log(0.1)])
    assert path[-1][1] == pytest.approx([1.0, 2.0, 3.0, 4.0], abs=0.1)


def test_a_curve_is_scored_at_few_points_with_both_ends():
    path = [(float(k), np.zeros(1)) for k in range(100)]
    places = learning.thinned(path, 6)
    assert (places[0], places[-1]) == (0, 99)
    assert 4 <= len(places) <= 6
    assert learning.thinned(path[:4], 6) == [0, 1, 2, 3]


@pytest.fixture
def small(monkeypatch):
    """Fifty points in place of Concrete."""
    X = np.random.default_rng(0).standard_normal((50, 2))
    monkeypatch.setattr(truncation, "concrete", lambda: (X, np.sin(X[:, 0])))
    monkeypatch.setattr(truncation, "squared_distances", lambda: cdist(X, X, "sqeuclidean"))


def test_solvers_that_stop_take_fewer_iterations_and_their_errors_are_those_of_their_thresholds(small):
    found = truncation.run_cell(truncation.Scale("small", 1, 1, 10), truncation.Cell(0))
    rows = pd.DataFrame(found["rows"]).set_index("solver")
    assert set(rows.index) == set(truncation.SOLVERS)
    assert rows.loc["CG", "error"] < 1e-7
    stopped = rows.drop(index="CG")
    assert (stopped["iterations"] < rows.loc["CG", "iterations"]).all()
    for kind in ("printed, q = {}, beta = 100.0", "matched, q = {}"):
        assert rows.loc[kind.format(0.1), "error"] < rows.loc[kind.format(1.0), "error"]


def test_the_gradient_is_that_of_the_density(small):
    """Against differences of log p(y|theta); a gradient without the half of the quadratic term is the twin."""
    _, y = truncation.concrete()
    problem, theta = Isotropic(truncation.squared_distances(), y), np.log([0.8, 0.5, 0.1])
    K, noise = problem.covariance(theta)
    C = K + noise * np.eye(len(y))
    assert problem.value(theta) == pytest.approx(multivariate_normal.logpdf(y, np.zeros(len(y)), C))
    steps = 1e-5 * np.eye(3)
    differences = [(problem.value(theta + step) - problem.value(theta - step)) / 2e-5 for step in steps]
    found = problem.gradient(theta)
    assert found == pytest.approx(differences, rel=1e-5)
    a = np.linalg.solve(C, y)
    assert abs(found[0] + 0.5 * a @ K @ a - differences[0]) > 0.1


def test_estimates_of_whole_solutions_have_the_gradient_as_their_mean(small):
    """Within four standard errors; solutions that stop at once are the twin."""
    _, y = truncation.concrete()
    problem, theta = Isotropic(truncation.squared_distances(), y), np.log([0.8, 0.5, 0.1])

    def apart(solver):
        rng = np.random.default_rng(0)
        drawn = np.array([problem.estimate(rng, theta, solver, 2) for _ in range(25)])
        error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
        return np.abs((drawn.mean(axis=0) - problem.gradient(theta)) / error).max()

    assert apart(truncation.SOLVERS["CG"]) < 4.0
    assert apart(truncation.SOLVERS["printed, q = 1.0, beta = 100.0"]) > 5.0


def test_single_precision_and_nested_solvers_take_more_products(monkeypatch, small):
    monkeypatch.setattr(conditioning, "concrete", truncation.concrete)
    monkeypatch.setattr(conditioning, "squared_distances", truncation.squared_distances)
    scale = conditioning.Scale("small", 1, 1, 1)
    found = conditioning.run_cell(scale, conditioning.Cell(1.0, 10.0, 0))
    rows = pd.DataFrame(found["rows"]).set_index("solver")
    assert found["condition"] > 1.0
    assert rows.loc["CG, single", "error"] > 10.0 * rows.loc["CG, double", "error"] > 0.0
    assert rows.loc["PCG, double inside", "products"] > rows.loc["CG, double", "products"]
    assert len(conditioning.run_cell(scale, conditioning.Cell(1.0, 10.0, 1))["rows"]) == 1


class Bell:
    """A normal density with mean one and deviations .1, .2 and .3, whose gradients are exact."""

    deviations = np.array([0.1, 0.2, 0.3])

    def value(self, theta):
        return -0.5 * float(np.sum(((theta - 1.0) / self.deviations) ** 2))

    def both(self, theta):
        return self.value(theta), (1.0 - theta) / self.deviations**2

    @property
    def likelihood(self):
        """Estimates from which the prior's gradient is taken away, as the study adds it."""
        return SimpleNamespace(estimate=lambda rng, theta, *_: self.both(theta)[1] - (1.0 - np.exp(theta)))


def test_chains_have_the_moments_of_their_target():
    """A walk and Langevin dynamics on a normal density; deviations that are ten times too large would be seen."""
    rng, target = np.random.default_rng(5), Bell()
    walk = np.array(list(langevin._metropolis(rng, target, np.ones(3), 1500)))
    extent = langevin.Extent(10, 5, 1, 1500, 0.5, 0.4)
    factor = np.diag(target.deviations)
    other = np.array(list(langevin._langevin(rng, target, np.ones(3), extent, langevin.METHODS[1], factor)))
    for chain in (walk[300:], other[300:]):
        assert chain.mean(axis=0) == pytest.approx(np.ones(3), abs=0.15)
        assert chain.std(axis=0) == pytest.approx(target.deviations, rel=0.35)


def test_the_study_is_run_once_and_says_which_files_are_absent(monkeypatch, tmp_path, capsys):
    calls = []

    def run_cell(scale, cell):
        calls.append(cell)
        line = {"step": 0, "seconds": 0.0, "error": 0.5, "nll": 0.9}
        made = {"version": "1", "machine": "m", "streams": "by name"}
        return {"curve": [line, line | {"step": 3}], "theta": [0.0], "n": 5, "d": 1, "rows": 2, "steps": 3} | made

    monkeypatch.setattr(curves, "run_cell", run_cell)
    monkeypatch.setattr(command.data, "available", lambda name: name == "concrete")
    words = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path), "--method", "PCG", "CG"]
    for _ in range(2):
        command.main(words)
    assert len(calls) == 2
    printed = capsys.readouterr().out
    assert "credit, eeg, powerplant, protein, spam" in printed
    assert "0 units to run" in printed
    assert len(pd.read_csv(tmp_path / "quick_curves.csv")) == 4


# ---- what is stored


@pytest.fixture(scope="module")
def stored():
    return results.curve_table(results.FOLDER, "quick").read()


def test_stored_curves_are_of_the_study(stored):
    scale = curves.SCALES["quick"]
    there = {tuple(key) for key in stored[["data", "method", "fold"]].drop_duplicates().itertuples(index=False)}
    possible = curves.cells(scale)
    assert there <= {tuple(cell) for cell in possible}
    left = results.without_lines(results.curve_table(results.FOLDER, "quick"), possible, scale.settings)
    assert len(left) == len(possible) - len(there)
