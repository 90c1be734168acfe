"""Values of some hyper-parameters, on either scale: put in their places, or refused by name."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp.interface.model.points import value_point
from tests.steps.test_contract import FAST


@pytest.fixture(scope="module")
def model() -> pm.Model:
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 2, 1, shape=2)
        variance = pm.Gamma("variance", 2, 1)
        pm.HalfNormal("scale", variance)
        pm.Uniform("level", 0, 4)
        pm.Dirichlet("weights", [1, 1, 1])
        ordered = pm.distributions.transforms.ordered
        pm.Normal("cuts", 0, 1, shape=2, transform=ordered, initval=[-1.0, 1.0])
        cov_func = variance * pm.gp.cov.ExpQuad(2, ls=lengthscale)
        f = pm.gp.Latent(cov_func=cov_func).prior("f", X=np.arange(6.0).reshape(3, 2), reparameterize=False)
        pm.Bernoulli("y", logit_p=f, observed=[0, 1, 1])
    return model


def test_values_on_their_own_scale_need_no_graph_of_their_own():
    """Their transforms take graphs, and not arrays."""
    with pm.Model() as model:
        pm.LKJCholeskyCov("chol", n=2, eta=1.0, sd_dist=pm.HalfNormal.dist(1.0))
        pm.ZeroSumNormal("shares", 1.0, shape=3)
    found = value_point(model, {"chol": [0.8, 0.3, 0.5], "shares": [1.0, -2.0, 1.0]})
    assert_allclose(found["chol_cholesky-cov-packed__"], [np.log(0.8), 0.3, np.log(0.5)])
    with pytest.raises(ValueError, match=r"shares = .* does not lie inside the support"):
        value_point(model, {"shares": [1.0, 1.0, 1.0]})


GIVEN = {
    "a scalar for a vector": ({"lengthscale": 3.0}, {"lengthscale_log__": np.log([3.0, 3.0])}),
    "a list": ({"lengthscale": [1, 2]}, {"lengthscale_log__": np.log([1.0, 2.0])}),
    "an integer": ({"variance": 2}, {"variance_log__": np.log(2.0)}),
    "transformed": ({"variance_log__": -1}, {"variance_log__": -1.0}),
    "transformed, for a vector": ({"lengthscale_log__": 1.0}, {"lengthscale_log__": [1.0, 1.0]}),
    "both scales": (
        {"variance": 2.0, "level_interval__": 0.0},
        {"variance_log__": np.log(2.0), "level_interval__": 0.0},
    ),
    "a simplex": ({"weights": [0.5, 0.25, 0.25]}, {"weights_simplex__": np.log([2.0, 1.0]) - np.log(2.0) / 3.0}),
    "ordered": ({"cuts": [0.0, 1.0]}, {"cuts_ordered__": [0.0, 0.0]}),
}


@pytest.mark.parametrize("case", GIVEN)
def test_values_are_put_in_their_places(model, case):
    given, expected = GIVEN[case]
    values, start = value_point(model, given), model.initial_point()
    assert set(values) == set(start)
    for name, value in expected.items():
        assert values[name].shape == start[name].shape
        assert_allclose(values[name], value, atol=1e-12)
    for name in set(start) - set(expected) - {"scale_log__"}:
        assert_allclose(values[name], start[name])


REFUSED = {
    "an unknown name": ({"noise": 1.0}, "no free variables noise; those are: cuts, .*weights_simplex__$"),
    "an observed variable": ({"y": [0, 1, 1]}, "no free variables y; those are: ((?!y,).)*$"),
    "the same twice": ({"variance": 2.0, "variance_log__": 0.3}, "'variance' is given twice"),
    "too long": ({"lengthscale": [1, 2, 3]}, r"lengthscale = \[1, 2, 3\] has shape \(3,\), but .* shape \(2,\)"),
    "a vector for a scalar": ({"variance": [1.0]}, r"variance = \[1\.0\] has shape \(1,\), but .* shape \(\)"),
    "transformed, a vector for a scalar": ({"variance_log__": [1, 2]}, r"variance_log__ = .* shape \(2,\)"),
    "negative": ({"lengthscale": -1}, r"lengthscale = \[-1\. -1\.\] does not lie inside the support"),
    "on the boundary": ({"variance": 0.0}, r"variance = 0\.0 does not lie inside the support"),
    "beyond an interval": ({"level": 5.0}, r"level = 5\.0 does not lie inside the support"),
    "no simplex": ({"weights": [0.5, 0.25, 0.5]}, "weights = .* does not lie inside the support"),
    "not ordered": ({"cuts": [1.0, 0.0]}, "cuts = .* does not lie inside the support"),
    "not a number": ({"variance": np.nan}, "variance = nan is not finite"),
    "infinite": ({"variance_log__": np.inf}, "variance_log__ = inf is not finite"),
    "text": ({"variance": "large"}, "variance = 'large' is not a number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_value_of_its_variable_is_refused_by_name(model, case):
    given, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        value_point(model, given)


def test_a_partial_point_is_enough(model):
    both = [
        pmgp.marginal.log_likelihood(model, point, random_seed=1, compile_kwargs=FAST).value
        for point in ({"lengthscale": 1.5}, {"lengthscale_log__": np.log([1.5, 1.5])})
    ]
    assert both[0] == both[1] != pmgp.marginal.log_likelihood(model, random_seed=1, compile_kwargs=FAST).value
