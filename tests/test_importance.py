"""Importance sampling from the maximum: closed forms, quadrature, other processes, and what its weights say."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm, pareto

import pmgp
from pmgp.core.importance import curvature, peak, polished, resampled, student_at
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.importance.sampling import target_of
from pmgp.interface.importance.targets import MarginalTarget
from pmgp.interface.importance.trust import trust_in
from tests.finite_differences import central_differences
from tests.sampling.workers import pool
from tests.steps.test_contract import FAST
from tests.truths import ScaledLowRank

QUIETLY = {"progressbar": False}
PRECISION = np.array([[2.0, 0.6], [0.6, 5.0]])


def quadratic(theta):
    shifted = theta - [1.0, -2.0]
    return -0.5 * shifted @ PRECISION @ shifted, -PRECISION @ shifted


def test_the_peak_of_a_quadratic_has_its_curvature():
    found = peak(quadratic, np.zeros(2))
    assert found.converged
    assert_allclose(found.theta, [1.0, -2.0], atol=1e-5)
    assert_allclose(curvature(quadratic, found.theta), PRECISION, atol=1e-8)
    student = student_at(found.theta, PRECISION)
    assert_allclose(student.scale, np.linalg.inv(PRECISION))
    assert student.degrees_of_freedom == 7.0


@pytest.mark.parametrize(("start", "gradients"), [([1.3, -2.1], 2), ([4.0, -1.0], 3)])
def test_the_last_steps_end_at_the_peak_of_a_quadratic(start, gradients):
    """A short step is the last one, and a longer one is followed by another."""
    thetas = []
    there = quadratic(np.array(start))
    found = polished(lambda theta: (thetas.append(theta), quadratic(theta))[1], np.array(start), there)
    assert_allclose(found.theta, [1.0, -2.0], atol=1e-8)
    assert_allclose(found.curvature, PRECISION, atol=1e-8)
    assert len(thetas) == gradients


def test_last_steps_that_grow_are_refused():
    """The curvature of a logistic density's tail leads beyond the peak."""
    thetas = []

    def density(theta):
        thetas.append(theta)
        return -np.log(np.cosh(theta)).sum(), -np.tanh(theta)

    def ended(density, start):
        return polished(density, np.array([start]), density(np.array([start])))

    assert not ended(density, 2.0).converged
    assert len(thetas) == 3
    assert_allclose(ended(density, 2.0).theta, 2.0)
    assert_allclose(ended(density, 2.0).curvature, np.cosh(2.0) ** -2.0, rtol=2e-3)

    def half(theta):
        return density(theta) if theta > 0.0 else (-np.inf, np.zeros(1))

    assert not ended(half, 0.8).converged
    assert_allclose(ended(density, 0.3).theta, 0.0, atol=0.02)


def test_flat_directions_get_a_scale_of_three():
    student = student_at(np.zeros(3), np.diag([4.0, 0.0, -2.0]))
    assert_allclose(student.scale, np.diag([0.25, 9.0, 9.0]))


def test_the_search_turns_back_where_there_is_no_density():
    def half(theta):
        return quadratic(theta) if theta[0] < 1.5 else (-np.inf, np.zeros(2))

    assert_allclose(peak(half, np.array([-30.0, 0.0])).theta, [1.0, -2.0], atol=1e-4)
    with pytest.raises(ValueError, match="not finite at the start"):
        peak(half, np.array([2.0, 0.0]))


def test_degrees_of_freedom_are_those_of_the_density_and_of_the_draws():
    """The fourth moment of a t with seven degrees of freedom is 3 (7 / 5)^2 5 / 3."""
    student = student_at(np.zeros(1), np.ones((1, 1)))
    grid = np.linspace(-300.0, 300.0, 1_200_001)[:, None]
    density = np.exp(student.log_density(grid))
    assert_allclose(np.trapezoid(density, grid[:, 0]), 1.0, rtol=1e-8)
    assert_allclose(np.trapezoid(density * grid[:, 0] ** 4, grid[:, 0]), 9.8, rtol=1e-4)
    draws = student.sample(np.random.default_rng(0), 200_000)
    assert abs(np.var(draws) / 1.4 - 1.0) < 6.0 * np.sqrt((9.8 / 1.4**2 - 1.0) / 200_000)


NOISE, SHIFT = 0.7, 2.0
INPUTS = np.linspace(0.0, 3.0, 12)[:, None]
Y = np.sin(2.0 * INPUTS[:, 0]) + 1.0


def conjugate(shift=None) -> pm.Model:
    """The mean of the observations is unknown, and its posterior is normal."""
    with pm.Model() as model:
        mean = pm.Normal("shift", 0.0, SHIFT) if shift is None else shift("shift")
        gp = pm.gp.Marginal(mean_func=pm.gp.mean.Constant(mean), cov_func=pm.gp.cov.Matern52(1, 0.8))
        gp.marginal_likelihood("y", INPUTS, Y, NOISE)
    return model


@pytest.fixture(scope="module")
def found():
    return pmgp.importance(conjugate(), draws=2000, random_seed=1, **QUIETLY)


def covariance() -> np.ndarray:
    return pm.gp.cov.Matern52(1, 0.8)(INPUTS).eval(mode=INTERPRETED) + (NOISE**2 + 1e-6) * np.eye(len(Y))


def test_the_evidence_of_a_conjugate_model_is_within_its_error(found):
    truth = multivariate_normal.logpdf(Y, cov=covariance() + SHIFT**2)
    assert abs(found.attrs["log_evidence"] - truth) < 4.0 * found.attrs["standard_error"]
    assert found.attrs["standard_error"] < 0.02


def test_its_posterior_is_within_its_error(found):
    weights = np.linalg.solve(covariance(), np.ones(len(Y)))
    precision = weights.sum() + SHIFT**-2
    shift = found["posterior"]["shift"].to_numpy()[0]
    assert abs(shift.mean() - weights @ Y / precision) < 4.0 * np.sqrt(1.0 / precision / len(shift))
    assert abs(np.var(shift) * precision - 1.0) < 4.0 * np.sqrt(2.0 / len(shift))


def test_weights_without_the_proposals_density_are_rejected(found):
    """The twin, by the test of the evidence."""
    log_weights, theta = found["importance"]["log_weight"].to_numpy(), found["importance"]["theta"].to_numpy()[:, 0]
    scale = theta.std()
    broken = log_weights - 0.5 * ((theta - theta.mean()) / scale) ** 2
    truth = multivariate_normal.logpdf(Y, cov=covariance() + SHIFT**2)
    mean = np.exp(broken - truth)
    assert abs(np.log(mean.mean())) > 20.0 * mean.std() / mean.mean() / np.sqrt(len(mean))


def test_the_trace_has_as_many_draws_as_the_weights_are_worth(found):
    assert found["posterior"].sizes == {"chain": 1, "draw": int(found.attrs["effective_size"])}
    assert found["importance"].sizes == {"sample": 2000, "element": 1}
    assert found.attrs["words"].endswith("): reliable")


def test_the_density_of_marginal_observations_and_its_gradient():
    from pmgp.interface.model.observed_normal import gaussian_observations

    with pm.Model() as model:
        variance, ls = pm.LogNormal("variance", 0.0, 1.0), pm.Gamma("ls", 2.0, 2.0)
        gp = pm.gp.Marginal(cov_func=variance * pm.gp.cov.ExpQuad(1, ls))
        gp.marginal_likelihood("y", INPUTS, Y, pm.HalfNormal("noise", 1.0))
    target = MarginalTarget(model, gaussian_observations(model))
    theta = np.array([0.3, -0.2, -0.5])
    value, slope = target.density(theta)
    names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
    point = {name: np.asarray(element) for name, element in zip(names, theta, strict=True)}
    assert_allclose(value, model.compile_logp(**FAST)(point), rtol=1e-9)
    assert_allclose(value, target.value(theta))
    assert_allclose(value, target.weighed(np.random.default_rng(0), theta).log_joint)
    assert_allclose(slope, central_differences(lambda t: target.density(t)[0], theta, 1e-3), rtol=1e-6)


@pytest.fixture(scope="module")
def problem():
    return ScaledLowRank(20)


def scaled(problem) -> pm.Model:
    with pm.Model(coords={"place": range(20)}) as model:
        scale = pm.LogNormal("scale", 0.0, 1.0)
        pm.Deterministic("root", pm.math.sqrt(scale))
        f = pm.MvNormal("f", np.zeros(20), cov=scale * problem.covariance, dims="place")
        pmgp.BernoulliProbit("y", f, observed=problem.y)
    return model


@pytest.fixture(scope="module")
def latent(problem):
    return pmgp.importance(scaled(problem), draws=400, random_seed=2, **QUIETLY)


def test_the_density_of_latent_values_is_computed_without_its_gradient_too(problem):
    target = target_of(scaled(problem), "auto", "ep", None, None)
    theta = np.array([0.4])
    assert_allclose(target.value(theta), target.density(theta)[0], rtol=1e-12)


def test_a_model_with_latent_values_has_its_evidence(problem, latent):
    assert abs(latent.attrs["log_evidence"] - problem.log_evidence) < 4.0 * latent.attrs["standard_error"]
    assert latent.attrs["standard_error"] < 0.1


def test_it_has_the_posterior_of_theta(problem, latent):
    exact = np.log(problem.posterior_scales(np.random.default_rng(3), 4000))
    drawn = np.log(latent["posterior"]["scale"].to_numpy()[0])
    error = np.sqrt(exact.var() * (1.0 / len(drawn) + 1.0 / len(exact)))
    assert abs(drawn.mean() - exact.mean()) < 4.0 * error
    assert abs(drawn.std() / exact.std() - 1.0) < 4.0 * np.sqrt(0.5 * 3.0 * (1.0 / len(drawn) + 1.0 / len(exact)))


def test_all_variables_are_in_the_trace_with_their_dimensions(latent):
    draws = latent["posterior"]
    assert set(draws.data_vars) == {"scale", "root", "f"}
    assert draws["f"].dims == ("chain", "draw", "place")
    assert_array_equal(draws["place"], range(20))
    assert_allclose(draws["root"] ** 2, draws["scale"])
    assert np.isfinite(draws["f"]).all()


def test_other_processes_give_the_same_draws(problem, latent):
    with pool(2) as executor:
        again = pmgp.importance(scaled(problem), draws=400, random_seed=2, executor=executor, **QUIETLY)
    assert_array_equal(again["importance"]["log_weight"], latent["importance"]["log_weight"])
    assert_array_equal(again["posterior"]["f"], latent["posterior"]["f"])


def test_tails_heavier_than_the_proposals_are_told():
    """A Cauchy prior and next to no observations: Pareto k of the weights is near 6/7."""
    with pm.Model() as model:
        shift = pm.Cauchy("shift", 0.0, 1.0)
        pm.MvNormal("y", shift * np.ones(2), cov=1e12 * np.eye(2), observed=np.zeros(2))
    with pytest.warns(UserWarning, match=r"not reliable.*pmgp\.PseudoMarginal"):
        pmgp.importance(model, draws=2000, random_seed=1, **QUIETLY)


def test_an_improper_prior_has_no_evidence():
    found = pmgp.importance(conjugate(pm.Flat), draws=200, random_seed=1, **QUIETLY)
    assert set(found.attrs) == {"maxima", "pareto_k", "effective_size", "trusted", "words"}


def test_what_cannot_be_done_is_refused():
    model = conjugate()
    with pytest.raises(ValueError, match=r"draws must be an integer of at least 25, .* not 10"):
        pmgp.importance(model, draws=10)
    with pytest.raises(ValueError, match=r"draws must be an integer of at least 25, .* not 60.5"):
        pmgp.importance(model, draws=60.5)
    with pytest.raises(ValueError, match='estimator="none" estimates nothing'):
        pmgp.importance(model, estimator="none")
    with pm.Model() as discrete:
        shift = pm.Poisson("shift", 1.0)
        pm.MvNormal("y", shift * np.ones(2), cov=np.eye(2), observed=np.zeros(2))
    with pytest.raises(pmgp.ModelError, match="hyper-parameters must be continuous; these are not: shift"):
        pmgp.importance(discrete)
    with pm.Model() as neither:
        pm.Normal("y", pm.Normal("shift"), observed=[0.0])
    with pytest.raises(pmgp.ModelError, match="no latent multivariate normal variable"):
        pmgp.importance(neither)


def test_systematic_resampling_has_the_expected_numbers():
    """The number of copies of a draw differs from its expectation by less than one."""
    rng = np.random.default_rng(4)
    log_weights = rng.normal(size=50)
    expected = 80 * np.exp(log_weights) / np.exp(log_weights).sum()
    chosen = resampled(rng, log_weights, 80)
    assert (abs(np.bincount(chosen, minlength=50) - expected) < 1.0).all()
    assert (np.diff(chosen) >= 0).all()


def test_resampling_takes_draws_by_weight():
    weights = np.array([0.5, 0.0, 0.3, 0.2])
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    rng = np.random.default_rng(0)
    counts = np.mean([np.bincount(resampled(rng, log_weights, 4), minlength=4) for _ in range(4000)], axis=0)
    assert_allclose(counts, 4.0 * weights, atol=0.03)


def test_too_few_weights_have_no_tail():
    """ArviZ finds no shape for twenty-five of them."""
    assert trust_in(np.random.default_rng(1).normal(size=25)).pareto_k == np.inf


@pytest.mark.parametrize(("spread", "trusted"), [(1e-3, True), (1.0, False)])
def test_weights_that_hardly_differ_are_trusted_whatever_the_shape_of_their_tail(spread, trusted):
    log_weights = np.log1p(spread * pareto.ppf((np.arange(400) + 0.5) / 400, 0.85**-1))
    found = trust_in(log_weights)
    assert found.limit < found.pareto_k < 1.0
    assert found.reliable == trusted
    assert ("but the weights are nearly equal): reliable" in found.words) == trusted
    without_mean = found._replace(pareto_k=1.1)
    assert not without_mean.reliable
    assert without_mean.words.endswith("): not reliable")


def test_missing_observations_are_drawn_and_change_no_evidence(problem):
    """Given f they are labels with its probabilities; those of the draws differ from these by chance alone."""
    labels = np.where(np.arange(20) < 5, np.nan, problem.y)
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 1.0)
        f = pm.MvNormal("f", np.zeros(20), cov=scale * problem.covariance)
        pmgp.BernoulliProbit("y", f, observed=labels)
    with pm.Model() as without:
        scale = pm.LogNormal("scale", 0.0, 1.0)
        f = pm.MvNormal("f", np.zeros(20), cov=scale * problem.covariance)
        pmgp.BernoulliProbit("y", f[5:], observed=problem.y[5:])
    found, rest = (pmgp.importance(one, draws=400, random_seed=2, **QUIETLY) for one in (model, without))
    error = np.hypot(found.attrs["standard_error"], rest.attrs["standard_error"])
    assert abs(found.attrs["log_evidence"] - rest.attrs["log_evidence"]) < 4.0 * error
    draws = found["posterior"]
    missing, f = draws["y_unobserved"].to_numpy()[0], draws["f"].to_numpy()[0, :, :5]
    assert_array_equal(draws["y"].to_numpy()[0, :, :5], missing)
    probability = norm.cdf(f)
    deviation = np.sqrt((probability * (1.0 - probability)).sum(axis=0))
    assert np.abs((missing - probability).sum(axis=0) / deviation).max() < 4.0
