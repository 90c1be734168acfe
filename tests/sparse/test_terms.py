"""Expected log-likelihoods of labels and classes by kernels: against quadrature of many nodes and the graph."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.core.inducing.expected import LIMITS, ExpectedTerms
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit
from pmgp.core.numerics.quadrature import normal_rule
from pmgp.interface.sparse.terms import BinaryTerms, GraphTerms, RobustMaxTerms, terms_of
from tests.sparse.problems import COUNTS, LABELS, X, hyperparameters, poisson, probit, sparse

MANY = normal_rule(150)
MEANS = np.linspace(-9.0, 9.0, 91)


def logit(f):
    return pmgp.BernoulliLogit.dist(f)


def by_many_nodes(likelihood, mean, deviation):
    """The sum, first and minus second derivatives of each term."""
    nodes, weights = MANY
    rows = mean + deviation * nodes[:, None]
    derivatives = np.array([likelihood.derivatives(row) for row in rows])
    slope, minus = np.tensordot(weights, derivatives, axes=1)
    return weights @ likelihood.log_likelihood(rows), slope, -minus


@pytest.mark.parametrize("constructor", [BernoulliProbit, BernoulliLogit])
@pytest.mark.parametrize("deviation", [0.01, *LIMITS])
def test_there_are_enough_nodes_for_each_variance(constructor, deviation):
    labels = np.arange(len(MEANS)) % 2
    found = ExpectedTerms(constructor, labels, order=20).value(MEANS, np.full(len(MEANS), deviation**2))
    expected, *_ = by_many_nodes(constructor(labels), MEANS, deviation)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=2e-10 * len(MEANS))


@pytest.mark.parametrize("constructor", [BernoulliProbit, BernoulliLogit])
@pytest.mark.parametrize(("deviation", "error"), [(0.1, 1e-7), (0.4, 3e-4), (1.0, 0.02)])
def test_derivatives_are_rough_where_variances_are_large(constructor, deviation, error):
    labels = np.arange(len(MEANS)) % 2
    found = ExpectedTerms(constructor, labels, order=20).derivatives(MEANS, np.full(len(MEANS), deviation**2))
    _, *expected = by_many_nodes(constructor(labels), MEANS, deviation)
    largest = np.max(np.abs(np.subtract(found, expected)))
    assert largest < error


def test_observations_are_grouped_by_their_variances(rng):
    labels, mean = rng.integers(0, 2, 40), rng.standard_normal(40)
    variance = np.square(rng.choice([0.05, 0.3, 0.9, 1.4], 40))
    terms = ExpectedTerms(BernoulliProbit, labels, order=20)
    slope, curvature = terms.derivatives(mean, variance)
    values = []
    for i in range(40):
        one = ExpectedTerms(BernoulliProbit, labels[i : i + 1], 20)
        values.append(one.value(mean[i : i + 1], variance[i : i + 1]))
        alone = one.derivatives(mean[i : i + 1], variance[i : i + 1])
        np.testing.assert_allclose([slope[i], curvature[i]], [alone[0][0], alone[1][0]])
    np.testing.assert_allclose(terms.value(mean, variance), sum(values))
    # Other variances are other groups.
    assert terms.value(mean, variance + 1.0) < sum(values)


@pytest.mark.parametrize("dist", [probit, logit])
def test_kernels_and_graphs_agree(dist, rng):
    model, _ = sparse(X[::3], dist=dist, observed=LABELS)
    known, graph = terms_of(model, [model["y"]], 1), GraphTerms(model, [model["y"]], 1)
    assert isinstance(known, BinaryTerms)
    mean, variance = rng.standard_normal(10), rng.uniform(0.0, 1.0, 10)
    for one, other in zip(known.derivatives(mean, variance), graph.derivatives(mean, variance), strict=True):
        np.testing.assert_allclose(one, other, atol=0.02)
    np.testing.assert_allclose(known.values(mean, variance)[0], graph.values(mean, variance)[0], atol=1e-6)


@pytest.mark.parametrize(
    ("dist", "observed"), [(poisson, LABELS), (lambda f: pmgp.BernoulliProbit.dist(2.0 * f), LABELS)]
)
def test_other_likelihoods_go_by_their_graph(dist, observed):
    model, _ = sparse(X[::3], dist=dist, observed=observed)
    assert isinstance(terms_of(model, [model["y"]], 1), GraphTerms)


def test_labels_that_change_are_read_again():
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        labels = pm.Data("labels", LABELS)
        process.observe("y", process.prior("f", X=X, Xu=X[::3]), dist=probit, observed=labels)
        terms = terms_of(model, [model["y"]], 1)
        arguments = np.linspace(-1.0, 1.0, 10), np.full(10, 0.04)
        [before] = terms.values(*arguments)
        pm.set_data({"labels": 1 - LABELS})
    assert terms.values(*arguments) == [before]
    terms.refresh_data()
    expected, *_ = by_many_nodes(BernoulliProbit(1 - LABELS), arguments[0], 0.2)
    np.testing.assert_allclose(terms.values(*arguments), [expected], atol=1e-6)


CLASSES = np.digitize(COUNTS, [1, 3])


def classes():
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=X[::3], n_outputs=3, jitter=1e-10)
        process.observe("y", f, dist=lambda f: pmgp.likelihoods.RobustMax.dist(f, 0.05), observed=CLASSES)
    return model


def classes_with_own_covariances():
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 0.5, shape=3)
        process = pmgp.gp.Sparse(cov_func=[(1.0 + k) * pm.gp.cov.Matern52(1, ls=scale[k]) for k in range(3)])
        f = process.prior("f", X=X, Xu=X[::3], n_outputs=3)
        process.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=CLASSES)
    return model


def test_kernels_give_what_the_graph_gives(rng):
    """Near cliffs and far from them, with deviations that are the same and nearly so."""
    model = classes()
    terms, graph = terms_of(model, [model["y"]], 3), GraphTerms(model, [model["y"]], 3)
    assert isinstance(terms, RobustMaxTerms)
    for deviation in (1e-3, 0.1, 1.0):
        for _ in range(20):
            mean = rng.choice([0.01, 1.0, 5.0]) * rng.standard_normal((3, len(X)))
            for spread in (np.full(mean.shape, deviation), deviation * rng.uniform(0.7, 1.4, mean.shape)):
                variance = np.square(spread)
                expected, found = (one.values(mean, variance)[0] for one in (graph, terms))
                np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-7)
                slopes = [one.slope(mean, variance) for one in (graph, terms)]
                np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-6, atol=1e-6 / deviation)


def test_other_terms_of_classes_go_by_their_graph():
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=X[::3], n_outputs=3)
        epsilon = pm.Beta("epsilon", 1.0, 20.0)
        process.observe("y", f, epsilon, dist=pmgp.likelihoods.RobustMax.dist, observed=CLASSES)
    assert isinstance(terms_of(model, [model["y"]], 3), GraphTerms)
    own = classes_with_own_covariances()
    assert isinstance(terms_of(own, [own["y"]], 3), GraphTerms)
