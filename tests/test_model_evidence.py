"""The evidence of a model, theta integrated out: against summation, over all labelings, in repetition, and in words."""

from __future__ import annotations

import itertools
import re
import warnings

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from pymc.distributions.transforms import Interval
from scipy.special import logsumexp
from scipy.stats import binom

import pmgp
from pmgp.core.importance import StudentMixture, fitted, log_mean
from pmgp.interface.importance.proper_prior import refuse_improper
from pmgp.interface.importance.theta_draws import theta_draws
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError
from pmgp.interface.model.latent_variable import find_latents
from tests.steps.test_contract import FAST
from tests.truths import ScaledLowRank, low_rank_problem

SETTINGS = {"progressbar": False, "compile_kwargs": FAST}


def posterior(**values: np.ndarray) -> xr.DataTree:
    """Draws as a chain would have given them: (draws, ...) for each variable."""
    variables = {
        name: (("chain", "draw", *[f"{name}_{i}" for i in range(np.ndim(v) - 1)]), np.asarray(v)[None])
        for name, v in values.items()
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})


@pytest.fixture(scope="module")
def problem() -> ScaledLowRank:
    return ScaledLowRank(20)


@pytest.fixture(scope="module")
def model(problem) -> pm.Model:
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 1.0)
        pmgp.BernoulliProbit("y", pm.MvNormal("f", np.zeros(20), cov=scale * problem.covariance), observed=problem.y)
    return model


@pytest.fixture(scope="module")
def idata(problem):
    return posterior(scale=problem.posterior_scales(np.random.default_rng(0), 400))


@pytest.mark.parametrize("approximation", ["ep", "laplace"])
def test_it_is_within_its_error_of_the_truth(problem, model, idata, approximation):
    found = pmgp.evidence(idata, model=model, approximation=approximation, random_seed=1, **SETTINGS)
    assert abs(found.log_evidence - problem.log_evidence) < 4.0 * found.standard_error
    assert found.standard_error < 0.03
    assert found.pareto_k <= found.trust.limit
    assert found.trust.words.endswith("): reliable")
    assert found.trust.effective_size > 500


def test_the_standard_error_covers_in_repetition(problem, model):
    """Each repetition has a chain of its own; the bounds are those of a binomial, passed once in a thousand times."""
    truth, inside = problem.log_evidence, 0
    rng = np.random.default_rng(2)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*: not reliable")
        for seed in range(100):
            idata = posterior(scale=problem.posterior_scales(rng, 100))
            found = pmgp.evidence(idata, model=model, draws=100, random_seed=seed, **SETTINGS)
            inside += abs(found.log_evidence - truth) < found.standard_error
    low, high = binom.ppf([0.0005, 0.9995], 100, 0.683)
    assert low <= inside <= high


@pytest.mark.parametrize("omitted", ["proposal", "Jacobian"])
def test_without_one_of_the_densities_it_fails(problem, model, idata, omitted, monkeypatch):
    """Broken twins: what the truth above rejects."""
    log_prior = LatentGaussianModel.log_prior
    if omitted == "proposal":
        monkeypatch.setattr(StudentMixture, "log_density", lambda self, theta: np.zeros(len(theta)))
    else:
        monkeypatch.setattr(LatentGaussianModel, "log_prior", lambda self, theta: log_prior(self, theta) - theta.sum())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*: not reliable")
        found = pmgp.evidence(idata, model=model, random_seed=1, **SETTINGS)
    assert abs(found.log_evidence - problem.log_evidence) > 8.0 * found.standard_error


def test_the_evidence_of_all_labelings_sums_to_one():
    """One proposal serves for all of them: the draws it is fitted to decide its precision alone."""
    X = np.linspace(-1.0, 1.0, 4)[:, None]
    rng = np.random.default_rng(4)
    idata = posterior(lengthscale=rng.gamma(2.0, 1.0, 200), variance=rng.gamma(2.0, 2.0, 200))
    with pm.Model() as model:
        labels = pm.Data("labels", np.zeros(4, dtype=int))
        kernel = pm.Gamma("variance", 2, 0.5) * pm.gp.cov.ExpQuad(1, ls=pm.Gamma("lengthscale", 2, 1))
        f = pm.gp.Latent(cov_func=kernel).prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=labels)
    found = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*: not reliable")
        for seed, one in enumerate(itertools.product([0, 1], repeat=4)):
            pm.set_data({"labels": np.array(one)}, model=model)
            found.append(pmgp.evidence(idata, model=model, draws=200, random_seed=seed, **SETTINGS))
    probabilities = np.exp([one.log_evidence for one in found])
    error = np.sqrt(np.square(probabilities * [one.standard_error for one in found]).sum())
    assert error < 0.02
    assert abs(probabilities.sum() - 1.0) < 4.0 * error


def test_the_seed_repeats_it(model, idata):
    with model:
        one, two, other = (pmgp.evidence(idata, draws=100, random_seed=s, **SETTINGS) for s in (1, 1, 2))
    assert_array_equal(one.log_weights, two.log_weights)
    assert one.log_evidence != other.log_evidence


def test_the_approximations_own_evidence_can_be_integrated(problem, model, idata):
    found = pmgp.evidence(idata, model=model, estimator="none", random_seed=1, **SETTINGS)
    assert found.log_evidence == pytest.approx(problem.log_evidence, abs=0.05)


def test_draws_that_missed_the_posterior_are_told(model):
    rng = np.random.default_rng(0)
    stuck = posterior(scale=np.exp(-9.0 + 0.001 * rng.standard_normal(200)))
    with pytest.warns(UserWarning, match="the evidence and its standard error: effective sample size .*: not reliable"):
        found = pmgp.evidence(stuck, model=model, draws=100, random_seed=1, **SETTINGS)
    assert not found.trust.reliable


def test_theta_of_a_hierarchical_prior_is_transformed_by_its_own_bounds():
    rng = np.random.default_rng(1)
    low, ratio = rng.uniform(1.0, 2.0, 50), rng.uniform(0.2, 0.8, (50, 2))
    with pm.Model() as model:
        lower = pm.Uniform("lower", 0.5, 3.0)
        pm.Uniform("lengthscale", lower, lower + 1.0, shape=2)
        f = pm.MvNormal("f", np.zeros(3), cov=np.eye(3))
        pmgp.BernoulliProbit("y", f, observed=[0, 1, 1])
    draws = posterior(lower=low, lengthscale=low[:, None] + ratio, f=rng.normal(size=(50, 3)))["posterior"].to_dataset()
    found = theta_draws(draws, model, [model["f"]])
    assert_allclose(found[:, 0], np.log((low - 0.5) / (3.0 - low)), rtol=1e-8)
    assert_allclose(found[:, 1:], np.log(ratio / (1.0 - ratio)), rtol=1e-8)


def test_known_hyper_parameters_leave_the_latent_values_alone_to_be_integrated_out():
    """Data that `pymc.set_data` has changed are read again."""
    prior, y, truth = low_rank_problem(20)
    with pm.Model() as model:
        labels = pm.Data("labels", np.ones(20, dtype=int))
        pmgp.BernoulliProbit("y", pm.MvNormal("f", np.zeros(20), cov=prior.covariance), observed=labels)
    idata = posterior(f=np.zeros((30, 20)))
    pmgp.evidence(idata, model=model, draws=100, random_seed=1, **SETTINGS)
    pm.set_data({"labels": y}, model=model)
    found = pmgp.evidence(idata, model=model, random_seed=1, **SETTINGS)
    assert abs(found.log_evidence - truth) < 4.0 * found.standard_error < 0.1


def test_in_no_dimensions_the_only_point_has_the_density_one():
    rng = np.random.default_rng(1)
    proposal = fitted(rng, np.empty((5, 0)))
    drawn = proposal.sample(rng, 3)
    assert drawn.shape == (3, 0)
    assert_array_equal(proposal.log_density(drawn), np.zeros(3))


@pytest.mark.parametrize("size", [40, 4000])
def test_the_proposal_is_a_density_and_has_the_moments_of_its_draws(size):
    """On two separate groups of draws; a t with five degrees of freedom has the variance 5/3 of its scale."""
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(size, 2)) * [1.0, 0.7] + np.where(rng.uniform(size=(size, 1)) < 0.3, 6.0, 0.0)
    mixture = fitted(rng, draws)
    assert mixture.shares.sum() == pytest.approx(1.0)
    axes = [np.linspace(-80.0, 80.0, 801), np.linspace(-80.0, 80.0, 801)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    area = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    assert np.exp(logsumexp(mixture.log_density(grid))) * area == pytest.approx(1.0, abs=2e-3)
    drawn = mixture.sample(rng, 20_000)
    assert_allclose(drawn.mean(axis=0), draws.mean(axis=0), atol=0.5)
    # The self-normalized estimate of a known integral: draws and density belong together.
    standard = log_mean(-0.5 * np.square(drawn).sum(axis=1) - np.log(2.0 * np.pi) - mixture.log_density(drawn))
    assert abs(standard.value) < 4.0 * standard.standard_error


# What is refused


def labels_with(prior) -> pm.Model:
    with pm.Model() as model:
        scale = prior()
        pmgp.BernoulliProbit("y", pm.MvNormal("f", np.zeros(3), cov=scale * np.eye(3)), observed=[0, 1, 1])
    return model


def test_an_improper_prior_is_refused():
    model = labels_with(lambda: pm.HalfFlat("scale"))
    with pytest.raises(ModelError, match="the prior of scale is improper"):
        pmgp.evidence(posterior(scale=np.arange(1.0, 50.0)), model=model, **SETTINGS)


def with_angle(**given) -> pm.Model:
    """Three labels whose probability is a half, whatever the angle."""
    with labels_with(lambda: 1.0) as model:
        pm.VonMises("angle", 0.0, 2.0, **given)
    return model


def test_an_angle_has_one_period():
    model = with_angle(default_transform=Interval(-np.pi, np.pi))
    angles = np.random.default_rng(0).vonmises(0.0, 2.0, 300)
    found = pmgp.evidence(posterior(angle=angles), model=model, random_seed=1, **SETTINGS)
    assert found.log_evidence == pytest.approx(3.0 * np.log(0.5), abs=0.05)


def test_an_angle_without_end_is_refused():
    """PyMC's circular transformation maps the whole line onto the circle: on the line there is no integral."""
    message = "circular transformation of angle repeats the density"
    with pytest.raises(ModelError, match=message):
        pmgp.evidence(posterior(angle=np.linspace(-1.0, 1.0, 50)), model=with_angle(), **SETTINGS)
    with pytest.raises(ModelError, match=message):
        pmgp.importance(with_angle(), progressbar=False)


def test_a_discrete_hyper_parameter_is_refused():
    model = labels_with(lambda: 1.0 + pm.Poisson("number", 3.0))
    with pytest.raises(ModelError, match="hyper-parameters must be continuous; these are not: number"):
        pmgp.evidence(posterior(number=np.arange(50)), model=model, **SETTINGS)


def test_a_transformation_that_confines_a_variable_is_told():
    with pm.Model() as model:
        ordered = pm.distributions.transforms.ordered
        thresholds = pm.Normal("thresholds", 0, 1, shape=2, transform=ordered, initval=[-0.5, 0.5])
        f = pm.MvNormal("f", np.zeros(3), cov=pm.LogNormal("scale") * np.eye(3))
        pmgp.OrdinalProbit("y", f, thresholds=thresholds, observed=[0, 1, 2])
    rng = np.random.default_rng(3)
    idata = posterior(scale=rng.lognormal(size=200), thresholds=np.sort(rng.normal(size=(200, 2)), axis=1))
    with pytest.warns(UserWarning, match=r"confines it to a part .* probability 0\.[45].*, add 0\.[67]"):
        found = pmgp.evidence(idata, model=model, draws=100, random_seed=1, **SETTINGS)
    assert np.isfinite(found.log_evidence)


def test_settings_and_draws_out_of_range_are_refused(model, idata):
    with pytest.raises(ValueError, match=r"draws must be an integer of at least 100 \(got 5\)"):
        pmgp.evidence(idata, model=model, draws=5, **SETTINGS)
    with pytest.raises(ValueError, match=r"draws must be an integer of at least 100 \(got 150\.0\)"):
        pmgp.evidence(idata, model=model, draws=150.0, **SETTINGS)
    with pytest.raises(ValueError, match=r"2 of 3 draws of 'scale' are not numbers, or outside .* in place 1, chain"):
        pmgp.evidence(posterior(scale=np.array([1.0, np.nan, -2.0])), model=model, **SETTINGS)
    with pytest.raises(ValueError, match=r"draws of 'scale' of shape \(2,\), but the model's has shape \(\)"):
        pmgp.evidence(posterior(scale=np.ones((9, 2))), model=model, **SETTINGS)
    with pytest.raises(ValueError, match="the posterior has no draws of scale"):
        pmgp.evidence(posterior(other=np.ones(10)), model=model, **SETTINGS)
    with pytest.raises(ValueError, match="no group 'posterior'"):
        pmgp.evidence(xr.DataTree(), model=model, **SETTINGS)
    with pytest.raises(ValueError, match="an object of type ndarray has no group 'posterior'"):
        pmgp.evidence(np.ones((3, 2)), model=model, **SETTINGS)
    with pytest.raises(ValueError, match="1 different draws of 1 hyper-parameters"):
        pmgp.evidence(posterior(scale=np.ones(10)), model=model, **SETTINGS)
    with pytest.raises(ValueError, match="unknown estimator 'guess'"):
        pmgp.evidence(idata, model=model, estimator="guess", **SETTINGS)


@pytest.mark.parametrize(("bounds", "told"), [((1.0, 2.0), True), (None, False)])
def test_an_interval_within_the_bounds_of_a_uniform_prior_is_told(bounds, told):
    settings = {} if bounds is None else {"default_transform": pm.distributions.transforms.Interval(*bounds)}
    model = labels_with(lambda: pm.Uniform("scale", 0.1, 5.9, **settings))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        refuse_improper(model, find_latents(model, None))
    assert len(caught) == told
    assert all(re.search(r"support that has probability 0\.1[67]", str(one.message)) for one in caught)
