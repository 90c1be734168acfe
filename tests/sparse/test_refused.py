"""What a process on inducing inputs refuses, and the words that it does so with."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pmgp
from tests.sparse.problems import COUNTS, LABELS, X, poisson, probit, sparse

Z = X[::3]


@pytest.fixture(scope="module")
def process():
    """Within a model; each test observes something else, and nothing comes of it."""
    with pm.Model() as model:
        result = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
        f = result.prior("f", X=X, Xu=Z)
    return model, result, f


@pytest.mark.parametrize(
    ("inputs", "inducing", "message"),
    [
        (X, np.zeros((3, 2)), "Xu has 2 columns, but X has 1"),
        (X, X[[0, 3, 3, 5]], r"1 rows that repeat others, such as rows 1, 2,.*leave the duplicates out"),
        (
            X,
            np.linspace(0, 1, 11)[:, None],
            "11 inducing inputs for 10 points: with M > N the approximation costs more",
        ),
        (X, Z[:, 0], r"Xu must be a table .* not of shape \(4,\)"),
        (X[:, 0], Z, r"X must be a table .* not of shape \(10,\)"),
        (np.where(X[2] == X, np.nan, X), Z, "X has values that are not finite in row 2"),
        (X, np.where(Z[1] == Z, np.inf, Z), "Xu has values that are not finite in row 1"),
    ],
)
def test_inputs(inputs, inducing, message):
    with pm.Model(), pytest.raises(ValueError, match=message):
        pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0)).prior("f", X=inputs, Xu=inducing)


def test_random_inducing_inputs():
    with pm.Model(), pytest.raises(ValueError, match="chosen before sampling, not sampled"):
        pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0)).prior("f", X=X, Xu=pm.Normal("Z", shape=(3, 1)))


def test_numbers_of_covariances_and_outputs():
    covariance = pm.gp.cov.ExpQuad(1, ls=1.0)
    with pm.Model():
        with pytest.raises(ValueError, match="2 covariance functions for n_outputs = 3"):
            pmgp.gp.Sparse(cov_func=[covariance, covariance]).prior("f", X=X, Xu=Z, n_outputs=3)
        with pytest.raises(ValueError, match="n_outputs must be 1 or more, not 0"):
            pmgp.gp.Sparse(cov_func=covariance).prior("f", X=X, Xu=Z, n_outputs=0)


def test_a_shape():
    """Without the refusal it would be replaced by that of one process."""
    covariance = pm.gp.cov.ExpQuad(1, ls=1.0)
    with pm.Model(), pytest.raises(ValueError, match="the shape 3 follows from Xu and n_outputs"):
        pmgp.gp.Sparse(cov_func=covariance).prior("f", X=X, Xu=Z, shape=3)


def test_minibatches(process):
    reason = "is a pm.Minibatch, which MCMC cannot use: .* is random"
    model, gp, f = process
    rows, counts = pm.Minibatch(X, COUNTS, batch_size=4)
    with model:
        with pytest.raises(ValueError, match=f"observed {reason}"):
            gp.observe("y", f, dist=poisson, observed=counts)
        with pytest.raises(ValueError, match="total_size is for minibatches, which MCMC cannot use"):
            gp.observe("y", f, dist=poisson, observed=COUNTS, total_size=100)
        with pytest.raises(ValueError, match="a quadrature has 1 to 370 nodes, not order=400"):
            gp.observe("y", f, dist=pmgp.BernoulliLogit.dist, observed=np.minimum(COUNTS, 1), order=400)
        with pytest.raises(ValueError, match=f"X {reason}"):
            pmgp.gp.Sparse(cov_func=gp.cov_func).prior("g", X=rows, Xu=Z)


def changed(array, row, value):
    result = array.copy().astype(type(value))
    result[row] = value
    return result


@pytest.mark.parametrize(
    ("dist", "observed", "message"),
    [
        (
            poisson,
            changed(COUNTS, 3, -1),
            r"minus infinity .* in row 3 \(-1\), whatever .* of 'poisson'",
        ),
        (poisson, changed(COUNTS, 4, 1.5), r"in row 4 \(1.5\) are not whole numbers"),
        (probit, changed(LABELS, 0, 2), r"in row 0 \(2\)"),
        (lambda f: pm.Beta.dist(mu=pm.math.sigmoid(f), nu=3.0), changed(0.1 * LABELS + 0.2, 9, 1.0), r"row 9 \(1.0\)"),
        (poisson, changed(COUNTS, 2, np.nan), "1 observations of 'y' are missing: leave out"),
        (poisson, np.array([None, *COUNTS[1:]]), "1 observations of 'y' are missing: leave out"),
        (probit, np.where(LABELS, "yes", "no"), r"'y' are text, such as 'no': recode them, .* \(y == 'yes'\)\.astype"),
        (poisson, COUNTS.astype(str), r"'y' are text, such as '0': recode them, for example np\.unique\(y, return_inv"),
        (poisson, COUNTS[:, None], r"have the shape \(10, 1\): give an array of shape \(10,\), such as y\.ravel\(\)"),
        (poisson, COUNTS[:-1], "there are 9 observations 'y' for 10 rows of X"),
        (lambda f: pm.Poisson.dist(pm.math.exp(pt.cumsum(f))), COUNTS, "depends on several latent values"),
        (lambda f: pm.Normal.dist(f.sum(), 1.0), 1.0, r"terms of shape \(\).* must depend on one latent value"),
    ],
)
def test_observations(process, dist, observed, message):
    model, gp, f = process
    with model, pytest.raises(ValueError, match=message):
        gp.observe("y", f, dist=dist, observed=observed)


def test_what_is_no_distribution(process):
    model, gp, f = process
    with model, pytest.raises(TypeError, match="dist must return a PyMC distribution"):
        gp.observe("y", f, dist=pm.math.exp, observed=COUNTS)


def test_parameters_that_may_couple_observations_are_looked_at_where_the_model_starts():
    """The autoregression's coefficient is a parameter of the model, and its first value is not zero."""
    with pm.Model():
        slope = pm.Normal("slope", 0.5)
        gp = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
        f = gp.prior("f", X=X, Xu=Z)

        def dist(f, slope):
            return pm.Poisson.dist(pm.math.exp(f + slope * pt.roll(f, 1)))

        with pytest.raises(ValueError, match="depends on several latent values"):
            gp.observe("y", f, slope, dist=dist, observed=COUNTS)


def test_classes():
    with pm.Model():
        gp = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
        f = gp.prior("f", X=X, Xu=Z, n_outputs=3)
        with pytest.raises(ValueError, match=r"in row 2 \(3\)"):
            gp.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=changed(LABELS, 2, 3))
        with pytest.raises(
            ValueError, match=r"terms of shape \(10,\).* except for classes with pmgp.likelihoods.RobustMax"
        ):
            gp.observe("y", f, dist=lambda f: pm.Categorical.dist(p=pm.math.softmax(f, axis=0).T), observed=LABELS)
        with pytest.raises(ValueError, match=r"class labels must be whole numbers from 0 to 2, .* found 7"):
            pmgp.likelihoods.RobustMax("z", np.zeros((3, 2)), observed=[0, 7])
        with pytest.raises(ValueError, match="epsilon must be between 0 and 1"):
            pmgp.likelihoods.RobustMax.dist(np.zeros((3, 2)), 0.0)
        with pytest.raises(ValueError, match="a row of latent values for each of two or more classes"):
            pmgp.likelihoods.RobustMax.dist(np.zeros((1, 2)))


@pytest.mark.parametrize("use", [pm.math.exp, lambda f: pm.Normal("z", f, 1.0), lambda f: 2.0 + pm.math.sin(f)])
def test_marginals_in_place_of_values(process, use):
    model, _, f = process
    with model, pytest.raises(pmgp.ModelError, match=r"gp\.observe\(name, f"):
        use(f)


def test_calls_out_of_order():
    gp = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(1, 1.0))
    with pytest.raises(RuntimeError, match="call prior first"):
        gp.marginals(X)
    with pytest.raises(RuntimeError, match="call observe first"):
        gp.compute_log_likelihood(None)
    _, gp = sparse(Z)
    with pytest.raises(ValueError, match="Xnew has 2 columns and the process was given X with 1"):
        gp.marginals(np.zeros((3, 2)))
