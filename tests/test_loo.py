"""Leave-one-out densities with f integrated out: against summation at n = 30, unbiased, and in ArviZ's form."""

from __future__ import annotations

import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import poisson

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.gaussians import DensePrior, SiteApproximation
from pmgp.core.importance import Terms, left_out, log_evidence_left_out
from pmgp.core.likelihoods import BernoulliProbit, LogGaussianCox
from pmgp.core.likelihoods.shared_sites import SharedSites, SharingLikelihood
from pmgp.interface.importance.loo import _observed
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.taking_apart import take_apart
from tests.steps.test_contract import FAST
from tests.truths import ScaledLowRank

N, DRAWS = 30, 500
SETTINGS = {"progressbar": False, "compile_kwargs": FAST, "random_seed": 1}
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "random_seed": 1}


@pytest.fixture(scope="module")
def problem() -> ScaledLowRank:
    return ScaledLowRank(N)


@pytest.fixture(scope="module")
def truth(problem) -> np.ndarray:
    """Log p(y_i|y_-i), the scale integrated out."""
    return problem.log_evidence - problem.log_evidence_left_out


@pytest.fixture(scope="module")
def model(problem) -> pm.Model:
    with pm.Model(coords={"crab": [f"crab {i}" for i in range(N)]}) as model:
        scale = pm.LogNormal("scale", 0.0, 1.0)
        f = pm.MvNormal("f", np.zeros(N), cov=scale * problem.covariance)
        pmgp.BernoulliProbit("y", f, observed=problem.y, dims="crab")
    return model


@pytest.fixture(scope="module")
def idata(model):
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        step = pmgp.PseudoMarginal(compile_kwargs=FAST)
        return pm.sample(DRAWS, tune=300, chains=2, cores=1, step=step, **QUIET)


@pytest.fixture(scope="module")
def found(model, idata):
    return pmgp.loo(idata, model=model, **SETTINGS)


def errors(found) -> np.ndarray:
    """Monte Carlo standard errors of the pointwise values, from the weights' own spread and the draws' dependence."""
    weights = np.exp(found.log_weights - found.log_weights.mean(("chain", "draw")))
    return (az.mcse(weights.to_dataset(name="w"))["w"] / weights.mean(("chain", "draw"))).to_numpy()


def test_it_agrees_with_brute_force(found, truth):
    error = errors(found)
    assert error.max() < 0.05
    assert np.max(np.abs(found.elpd_i - truth) / np.hypot(error, 0.002)) < 4.0
    assert found.elpd == pytest.approx(truth.sum(), abs=0.15)
    # In chains of 4000 draws, whatever moves theta, one label has a k of 0.7 to 0.86, and the next one of at most 0.61.
    assert int((found.pareto_k > found.good_k).sum()) <= 1
    assert float(found.pareto_k.max()) < 1.0


def test_plain_weights_of_f_are_far_less_even(model, idata, found):
    """What integrating the latent value out is for."""
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pm.compute_log_likelihood(idata, progressbar=False)
        plain = az.loo(idata, pointwise=True)
    assert float(plain.pareto_k.mean()) > float(found.pareto_k.mean()) + 0.1


def test_known_hyper_parameters_are_no_obstacle():
    """The probability that two labels of latent values with correlation r, noise included, agree is known."""
    covariance = 3.0 * np.array([[1.0, 0.9], [0.9, 1.0]])
    with pm.Model() as model:
        pmgp.BernoulliProbit("y", pm.MvNormal("f", np.zeros(2), cov=covariance), observed=[1, 1])
    with model:
        idata = pm.sample(50, tune=20, chains=2, cores=1, step=pmgp.EllipticalSlice(compile_kwargs=FAST), **QUIET)
    found = pmgp.loo(idata, model=model, **SETTINGS)
    assert_allclose(found.elpd_i, np.log(0.5 + np.arcsin(2.7 / 4.0) / np.pi), atol=0.01)


def test_a_potential_has_no_observations_to_leave_out():
    with pm.Model() as model:
        f = pm.MvNormal("f", np.zeros(3), cov=pm.HalfNormal("scale") * np.eye(3))
        pm.Potential("weighted", pm.logp(pm.Bernoulli.dist(logit_p=f), np.array([0, 1, 1])))
    draws = az.from_dict({"posterior": {"scale": np.ones((1, 30)), "f": np.zeros((1, 30, 3))}})
    with pytest.raises(pmgp.ModelError, match=r"the likelihood is a potential \(weighted\), which has no observations"):
        pmgp.loo(draws, model=model, **SETTINGS)


def test_labels_that_are_certain_under_a_draw_count_as_well(model, problem):
    """Their log-density is exactly zero there."""
    certain = 50.0 * (2.0 * problem.y - 1.0)
    assert_array_equal(_observed(take_apart(model), certain[None]), np.arange(N))


def test_it_has_arviz_form(found, model, idata, problem):
    assert found.elpd_i.dims == ("crab",)
    assert_array_equal(found.elpd_i["crab"], [f"crab {i}" for i in range(N)])
    assert found.n_samples == 2 * DRAWS
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimated shape parameter")
        fewer = pmgp.loo(idata, model=model, draws=100, **SETTINGS)
    assert fewer.n_samples == 100
    table = az.compare({"all": found, "few": fewer})
    assert set(table.index) == {"all", "few"}
    assert found.elpd == pytest.approx(fewer.elpd, abs=0.3)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
def test_the_seed_repeats_it(model, idata):
    one, two = (pmgp.loo(idata, model=model, draws=30, **SETTINGS) for _ in range(2))
    assert_array_equal(one.elpd_i, two.elpd_i)


# The estimates of p(y_-i|theta)


@pytest.fixture(scope="module", params=[ExpectationPropagation(), Laplace(sweeps=0)], ids=["ep", "laplace"])
def at_scale_one(request, problem):
    prior = DensePrior(np.zeros(N), np.asfortranarray(problem.covariance)).factorized()
    likelihood = BernoulliProbit(problem.y)
    index = int(np.argmin(np.abs(problem.grid)))
    return request.param.fit(prior, likelihood), likelihood, problem.log_likelihood_left_out[:, index]


def relative_estimates(q, likelihood, truths, draws: int = 4, repeats: int = 600) -> np.ndarray:
    rng = np.random.default_rng(3)
    particles = [ImportanceSampling(draws).estimate(rng, q, likelihood).particles for _ in range(repeats)]
    terms = terms_of(likelihood, q.size)
    return np.exp(np.array([log_evidence_left_out(q, terms, one) for one in particles]) - truths)


def terms_of(likelihood, size: int) -> Terms:
    if isinstance(likelihood, SharingLikelihood):
        shared = likelihood.shared
        return Terms(lambda f: likelihood.inner.log_density(shared.predictors(f)), shared.counted_at)
    return Terms(likelihood.log_density, np.arange(size))


def distance(estimates: np.ndarray) -> float:
    return float(np.max(np.abs(estimates.mean(axis=0) - 1.0) / (estimates.std(axis=0) / np.sqrt(len(estimates)))))


def test_they_are_unbiased(at_scale_one):
    """The largest of thirty correlated distances is below 4 standard errors."""
    assert distance(relative_estimates(*at_scale_one)) < 4.0


@pytest.fixture(scope="module")
def shared_sites():
    """Six labels at three places, of which one label is unlikely; p(y_-j|theta) from a grid of Gauss-Hermite nodes."""
    where, y = np.array([2, 0, 2, 1, 2, 0]), np.array([1, 0, 1, 1, 0, 1])
    covariance = 4.0 * np.exp(-0.5 * np.square(np.arange(3.0)[:, None] - np.arange(3.0)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    mass = np.prod(np.stack(np.meshgrid(weights, weights, weights, indexing="ij"), axis=-1).reshape(-1, 3), axis=1)
    densities = BernoulliProbit(y).log_density((grid @ np.linalg.cholesky(covariance).T)[:, where])
    truths = [np.log(mass @ np.exp(np.delete(densities, j, axis=1).sum(axis=1)) / mass.sum()) for j in range(6)]
    likelihood = SharingLikelihood(BernoulliProbit(y), SharedSites(where, 3))
    q = ExpectationPropagation().fit(DensePrior(np.zeros(3), np.asfortranarray(covariance)).factorized(), likelihood)
    return q, likelihood, np.array(truths)


def test_they_are_unbiased_where_a_value_has_several_observations(shared_sites):
    assert distance(relative_estimates(*shared_sites)) < 4.0


def test_they_are_unbiased_for_observations_that_are_left_out_without_a_move():
    """Sixty counts of two values: one of them, an outlier, still needs a move."""
    rng = np.random.default_rng(7)
    where = np.repeat([0, 1], 30)
    y = np.append(rng.poisson(np.exp([0.3, 0.8])[where[:-1]]), 14)
    covariance = np.array([[1.0, 0.6], [0.6, 1.0]])
    likelihood = SharingLikelihood(LogGaussianCox(y), SharedSites(where, 2))
    # A fine grid, as the posterior is narrow.
    each = np.linspace(-5.0, 5.0, 401)
    whitened = np.stack(np.meshgrid(each, each, indexing="ij"), axis=-1).reshape(-1, 2)
    densities = LogGaussianCox(y).log_density((whitened @ np.linalg.cholesky(covariance).T)[:, where])
    mass = -0.5 * np.square(whitened).sum(axis=1)
    truths = logsumexp(densities.sum(axis=1)[:, None] - densities + mass[:, None], axis=0) - logsumexp(mass)
    q = ExpectationPropagation().fit(DensePrior(np.zeros(2), np.asfortranarray(covariance)).factorized(), likelihood)
    differs = left_out._left(q, terms_of(likelihood, 2), left_out.cavities(q)).differs
    assert differs[-1]
    assert not differs[:-1].all()
    estimates = relative_estimates(q, likelihood, truths)
    assert distance(estimates) < 4.0
    assert estimates.std(axis=0).max() < 0.5


def test_they_are_near_where_terms_are_huge_at_moved_values():
    """With a wide prior a moved value may give a count of zero a log-density of -1e17, beside which others vanish."""
    y, deviation = np.array([0, 0, 2, 40]), 20.0
    q = ExpectationPropagation().fit(
        DensePrior(np.zeros(4), np.asfortranarray(deviation**2 * np.eye(4))).factorized(), LogGaussianCox(y)
    )
    nodes = np.linspace(-8.0 * deviation, 8.0 * deviation, 200_001)
    prior = np.exp(-0.5 * np.square(nodes / deviation)) / (deviation * np.sqrt(2.0 * np.pi))
    densities = np.exp(poisson.logpmf(y[:, None], np.exp(np.minimum(nodes, 300.0))))
    evidence = np.log((densities * prior).sum(axis=1) * (nodes[1] - nodes[0]))
    found = relative_estimates(q, LogGaussianCox(y), evidence.sum() - evidence)
    assert np.abs(np.log(found.mean(axis=0))).max() < 0.3


def test_a_whole_site_in_place_of_an_observation_fails(shared_sites):
    """The broken twin: all observations of the value are left out together."""
    q, likelihood, truths = shared_sites

    together = Terms(likelihood.log_density, np.arange(3))
    rng = np.random.default_rng(3)
    particles = [ImportanceSampling(4).estimate(rng, q, likelihood).particles for _ in range(600)]
    found = np.array([log_evidence_left_out(q, together, one) for one in particles])[:, likelihood.shared.where]
    assert distance(np.exp(found - truths)) > 8.0


@pytest.mark.parametrize("broken", ["others stay", "density stays"])
def test_moved_particles_that_are_weighed_wrongly_fail(at_scale_one, broken, monkeypatch):
    """Broken twins: the other latent values not moved along; the cavity in place of q without its density's ratio."""
    if broken == "others stay":
        monkeypatch.setattr(SiteApproximation, "regressions", lambda q, variance: np.eye(q.size))
    else:
        found = left_out.cavities
        monkeypatch.setattr(
            left_out, "cavities", lambda q: found(q)._replace(marginal_variance=2.0 * found(q).marginal_variance)
        )
    assert distance(relative_estimates(*at_scale_one)) > 8.0


# Observations that are not one for each latent value


def chain_of(model, **values) -> xr.DataTree:
    variables = {
        name: (("chain", "draw", *[f"{name}_dim_{i}" for i in range(np.ndim(v) - 1)]), np.asarray(v)[None])
        for name, v in values.items()
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})


def test_observations_of_one_latent_value_are_left_out_one_by_one():
    """Two measurements at the first place and none at the last, with f exactly from its posterior given the scale."""
    index, y = np.array([2, 0, 0, 1]), np.array([0.3, -0.2, 0.4, 1.0])
    covariance = 0.3 * np.eye(4) + 0.7
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 0.5)
        f = pm.MvNormal("f", np.zeros(4), cov=covariance)
        pm.Normal("y", f[index], scale, observed=y)
    rng = np.random.default_rng(0)
    noise = 0.5 + 0.01 * rng.uniform(size=200)
    selection = np.eye(4)[index]
    draws = []
    for sigma in noise:
        posterior = np.linalg.inv(np.linalg.inv(covariance) + selection.T @ selection / sigma**2)
        draws.append(rng.multivariate_normal(posterior @ selection.T @ y / sigma**2, posterior))
    found = pmgp.loo(chain_of(model, scale=noise, f=np.array(draws)), model=model, **SETTINGS)
    assert found.elpd_i.dims == ("y_dim_0",)
    marginal = selection @ covariance @ selection.T + 0.505**2 * np.eye(4)
    complete = normal(y, marginal)
    expected = [complete - normal(y[k], marginal[np.ix_(k, k)]) for k in (np.delete(np.arange(4), j) for j in range(4))]
    assert_allclose(found.elpd_i, expected, atol=0.05)


def test_an_observation_that_knows_more_than_others_of_its_value_takes_more_with_it():
    """Two measurements at one place, one of which is fifty times as precise: an equal share would be far too small."""
    index, noise, y = np.array([0, 0, 1, 2]), np.array([0.02, 1.0, 1.0, 1.0]), np.array([0.5, -0.2, 0.4, 1.0])
    covariance, selection = 0.3 * np.eye(3) + 0.7, np.eye(3)[np.array([0, 0, 1, 2])]
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 0.5)
        f = pm.MvNormal("f", np.zeros(3), cov=covariance)
        pm.Normal("y", f[index], scale * noise, observed=y)
    rng, draws, scales = np.random.default_rng(0), [], 1.0 + 0.01 * np.random.default_rng(1).uniform(size=200)
    for one in scales:
        weighted = selection.T / (one * noise) ** 2
        posterior = np.linalg.inv(np.linalg.inv(covariance) + weighted @ selection)
        draws.append(rng.multivariate_normal(posterior @ weighted @ y, posterior))
    found = pmgp.loo(chain_of(model, scale=scales, f=np.array(draws)), model=model, **SETTINGS)
    marginal = selection @ covariance @ selection.T + np.diag(np.square(1.005 * noise))
    complete = normal(y, marginal)
    expected = [complete - normal(y[k], marginal[np.ix_(k, k)]) for k in (np.delete(np.arange(4), j) for j in range(4))]
    assert_allclose(found.elpd_i, expected, atol=0.02)


def test_models_with_other_groups_have_the_same_observations():
    """So that `arviz.compare` pairs them: the groups that the counts were drawn from are better than others."""
    rng = np.random.default_rng(5)
    groups, rows = (
        {"true": np.repeat(np.arange(6), 5), "other": np.tile(np.arange(5), 6)},
        [f"row {k}" for k in range(30)],
    )
    y = rng.poisson(np.exp(np.array([-1.0, 0.0, 1.0, 2.0, 0.5, 1.5]))[groups["true"]])
    found = {}
    for name, group in groups.items():
        with pm.Model(coords={"row": rows}) as model:
            u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), shape=int(group.max()) + 1)
            pm.Poisson("y", pm.math.exp(u[group]), observed=y, dims="row")
        with model:
            step = pmgp.PseudoMarginal()
            idata = pm.sample(200, tune=200, chains=1, step=step, random_seed=1, progressbar=False)
        found[name] = pmgp.loo(idata, model=model, random_seed=1, progressbar=False)
        assert list(found[name].elpd_i["row"].values) == rows
    table = az.compare(found)
    assert table.index[0] == "true"
    assert (
        table["elpd_diff"]["other"] > 2.0 * table["dse"]["other"]
        or table["elpd_diff"]["other"] < -2.0 * table["dse"]["other"]
    )


def test_results_are_in_the_order_of_the_observations_whatever_that_of_the_latent_values():
    """`arviz.compare` pairs the results of two models by position."""
    index, y = np.array([3, 1, 0, 2]), np.array([0.3, -0.2, 0.4, 2.0])
    draws = np.random.default_rng(2).normal(size=(200, 4)), np.full(200, 0.5)
    found = []
    for in_order in (True, False):
        with pm.Model(coords={"row": list("abcd")}) as model:
            scale = pm.LogNormal("scale", 0.0, 0.5)
            f = pm.MvNormal("f", np.zeros(4), cov=np.eye(4))
            pm.Normal("y", f if in_order else f[index], scale, observed=y, dims="row")
        # The same latent values belong to the observations of both.
        values = draws[0] if in_order else draws[0][:, np.argsort(index)]
        idata = chain_of(model, scale=draws[1], f=values)
        idata["observed_data"] = xr.DataTree(xr.Dataset({"y": ("row", y)}, {"row": list("abcd")}))
        found.append(pmgp.loo(idata, model=model, **SETTINGS).elpd_i)
    assert_array_equal(found[0]["row"], found[1]["row"])
    assert_allclose(found[0], found[1], atol=0.02)


@pytest.mark.parametrize("columns", [3, 1])
def test_elements_of_a_table_are_left_out_one_by_one(columns):
    rng = np.random.default_rng(3)
    y = rng.normal(size=(4, columns))
    with pm.Model() as model:
        scale, tau = pm.LogNormal("scale", 0.0, 0.5), pm.HalfNormal("tau")
        x, z = pm.Normal("x", 0.0, tau, shape=4), pm.Normal("z", 0.0, tau, shape=columns)
        pm.Normal("y", x[:, None] + z, scale, observed=y)
    near_one, x, z = np.exp(0.1 * rng.normal(size=(2, 40))), rng.normal(size=(40, 4)), rng.normal(size=(40, columns))
    idata = chain_of(model, scale=near_one[0], tau=near_one[1], x=x, z=z)
    idata["observed_data"] = xr.DataTree(xr.Dataset({"y": (("row", "column"), y)}))
    found = pmgp.loo(idata, model=model, **SETTINGS)
    assert found.elpd_i.dims == ("y_element",)
    assert_array_equal(found.elpd_i["y_element"], np.arange(y.size))


FAMILIES = {
    "Normal": lambda eta, y: pm.Normal("y", eta, 0.4, observed=y),
    "Poisson": lambda eta, y: pm.Poisson("y", pm.math.exp(eta), observed=y),
    # Their log-density looks at eta or -eta, by the label.
    "logit": lambda eta, y: pmgp.BernoulliLogit("y", eta, observed=np.minimum(y, 1.0)),
    "probit": lambda eta, y: pm.Bernoulli("y", p=pm.math.invprobit(eta), observed=np.minimum(y, 1.0)),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("slopes", [[1, 1, 1, 1, 1], [1, 1, 2, 1, 1]])
def test_observations_of_groups_have_their_own_coordinates(family, slopes):
    """With different slopes, two predictors are multiples of the same effect."""
    group, y = np.array([2, 0, 2, 0, 1]), np.array([1.0, 2.0, 0.0, 1.0, 3.0])
    with pm.Model() as model:
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), shape=4)
        FAMILIES[family](np.array(slopes) * u[group], y)
    draws = {"tau": np.linspace(0.5, 2.0, 40)[None], "u": np.random.default_rng(4).normal(size=(1, 40, 4))}
    seen = {"y": xr.DataArray(model.rvs_to_values[model["y"]].eval(), {"child": list("abcde")}, ("child",))}
    idata = az.from_dict({"posterior": draws})
    idata["observed_data"] = xr.DataTree(xr.Dataset(seen))
    found = pmgp.loo(idata, model=model, **SETTINGS).elpd_i
    assert list(found["child"].to_numpy()) == list("abcde")


def test_observations_of_several_variables_have_their_names():
    with pm.Model() as model:
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), shape=5)
        pm.Normal("second", u[[4, 2]], 0.5, observed=[0.1, 3.0])
        pm.Poisson("first", pm.math.exp(u[[3, 0, 1]]), observed=[1, 0, 2])
    rng = np.random.default_rng(4)
    draws = {"tau": np.linspace(0.5, 2.0, 40)[None], "u": rng.normal(size=(1, 40, 5))}
    found = pmgp.loo(az.from_dict({"posterior": draws}), model=model, **SETTINGS).elpd_i
    assert list(found["observation"].to_numpy()) == ["second[0]", "second[1]", "first[0]", "first[1]", "first[2]"]
    # The measurement of 3 is the least expected.
    assert found.isel(observation=int(found.argmin()))["observation"] == "second[1]"


def normal(y: np.ndarray, covariance: np.ndarray) -> float:
    return -0.5 * float(y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2.0 * np.pi * covariance)[1])


def test_what_cannot_be_left_out_is_refused(model, idata):
    with pytest.raises(ValueError, match="particles must be an even number, at least 2, not 3"):
        pmgp.loo(idata, model=model, particles=3, **SETTINGS)
    with pytest.raises(ValueError, match=r"particles must be an even number, at least 2, not 4\.0"):
        pmgp.loo(idata, model=model, particles=4.0, **SETTINGS)
    with pytest.raises(ValueError, match="the posterior has no draws of f"):
        pmgp.loo(chain_of(model, scale=np.ones(9)), model=model, **SETTINGS)
    with pytest.raises(ValueError, match="the posterior has 2 values of 'f', but the model has 30 of them"):
        pmgp.loo(chain_of(model, scale=np.ones(30), f=np.ones((30, 2))), model=model, **SETTINGS)
    with pytest.raises(ValueError, match="9 draws are too few to judge the weights; at least 25 are needed"):
        pmgp.loo(chain_of(model, scale=np.ones(9), f=np.ones((9, N))), model=model, **SETTINGS)
    wrong = idata["posterior"].to_dataset().copy(deep=True)
    wrong["f"][0, 3] = np.nan
    with pytest.raises(ValueError, match=r"1 of \d+ draws of 'f' are not finite, the first of them in place 3, chain"):
        pmgp.loo(xr.DataTree.from_dict({"posterior": wrong}), model=model, draws=None, **SETTINGS)
    with pytest.raises(
        ValueError, match=r"must have the dimensions 'chain' and 'draw'; it has .*idata.sel\(chain=\[0\]"
    ):
        pmgp.loo(idata.sel(chain=0), model=model, **SETTINGS)
    with pytest.raises(ValueError, match=r"or None for all, not 100\.0"):
        pmgp.loo(idata, model=model, draws=100.0, **SETTINGS)
    with pytest.raises(ValueError, match="draws must be an integer of at least 1, or None for all, not 0"):
        pmgp.loo(idata, model=model, draws=0, **SETTINGS)


def test_observations_are_those_of_the_draws(model, idata, problem):
    stored = idata.copy()
    stored["observed_data"] = xr.Dataset({"y": ("observation", 1 - model.rvs_to_values[model["y"]].eval())})
    with pytest.raises(ValueError, match="other observations of 'y' than those that the draws were made with"):
        pmgp.loo(stored, model=model, progressbar=False)


def test_terms_of_several_latent_values_are_refused():
    with pm.Model() as joint:
        scale = pm.LogNormal("scale", 0.0, 0.5)
        f = pm.MvNormal("f", np.zeros(3), cov=scale * np.eye(3))
        pm.Potential("joint", -0.5 * pt.dot(f, f))
    with pytest.raises(ModelError, match="it is not known which value of 'f' belongs to an observation"):
        pmgp.loo(chain_of(joint, scale=np.ones(9), f=np.ones((9, 3))), model=joint, **SETTINGS)


def test_data_that_were_lengthened_before_sampling_are_those_of_the_draws():
    rng = np.random.default_rng(3)
    places, labels = rng.normal(size=(12, 1)), rng.integers(0, 2, 12)

    def built(number):
        with pm.Model() as model:
            gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern32(1, ls=pm.Gamma("lengthscale", 2, 2)))
            f = gp.prior("f", X=pm.Data("X", places[:number]), reparameterize=False)
            pm.Bernoulli("y", logit_p=f, observed=pm.Data("labels", labels[:number]))
        return model

    def drawn(number):
        values = {"lengthscale": np.full((1, 40), 1.0), "f": np.random.default_rng(4).normal(size=(1, 40, number))}
        return az.from_dict({"posterior": values})

    model, longer = built(6), built(12)
    pmgp.loo(drawn(6), model=model, **SETTINGS)
    with model:
        pm.set_data({"X": places, "labels": labels})
    found, expected = (pmgp.loo(drawn(12), model=one, **SETTINGS) for one in (model, longer))
    assert found.elpd == pytest.approx(expected.elpd, rel=1e-9)
    with pytest.raises(ValueError, match="the posterior has 6 values of 'f', but the model has 12"):
        pmgp.loo(drawn(6), model=model, **SETTINGS)
