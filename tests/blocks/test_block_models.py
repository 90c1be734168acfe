"""PyMC models with several processes: taken apart, refused in words, and sampled exactly."""

from __future__ import annotations

import pickle
import re
from functools import cache

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import gamma, norm, qmc

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace, families
from pmgp.core.gaussians import BlockPrior
from pmgp.core.likelihoods import MultinomialLogit
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.screen import ScreenDensity
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError
from pmgp.interface.model.latent_prior import LatentPrior
from pmgp.interface.model.model_likelihood import ClosedFormLikelihood, GraphLikelihood
from pmgp.interface.model.taking_apart import take_apart
from tests.finite_differences import central_differences

N, CLASSES = 8, 3
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 1))
LABELS = np.array([0, 2, 1, 2, 2, 0, 1, 0])
REALS = RNG.normal(size=N)
FAST = {"mode": INTERPRETED}


def process(name: str, scale=1.0, **settings):
    return pm.gp.Latent(cov_func=scale * pm.gp.cov.ExpQuad(1, ls=0.7)).prior(
        name, X=X, reparameterize=False, **settings
    )


def processes(order=(0, 1, 2)):
    scale = pm.Gamma("scale", 2, 1)
    found = [process(f"f{c}", scale) for c in range(CLASSES)]
    return [found[c] for c in order]


def softmax_of_several():
    pmgp.MultinomialLogit("y", processes(), observed=LABELS)


def softmax_in_another_order():
    pmgp.MultinomialLogit("y", processes((2, 0, 1)), observed=LABELS)


def softmax_of_a_batch():
    f = process("f", pm.Gamma("scale", 2, 1), n_outputs=CLASSES)
    pmgp.MultinomialLogit("y", f.T, observed=LABELS)


def categorical():
    pm.Categorical("y", logit_p=pt.stack(processes(), axis=-1), observed=LABELS)


def softmax_of_a_function():
    pmgp.MultinomialLogit("y", [2.0 * f for f in processes()], observed=LABELS)


def heteroscedastic():
    mean, log_scale = processes()[:2]
    pm.Normal("y", mean, pm.math.exp(log_scale), observed=REALS)


def additive():
    first, second = process("a", pm.Gamma("scale", 2, 1)), process("b")
    pm.Poisson("y", pm.math.exp(first + second), observed=LABELS)


def split(build, **settings) -> LatentGaussianModel:
    with pm.Model() as model:
        build()
    return take_apart(model, compile_kwargs=FAST, **settings)


@pytest.mark.parametrize("build", [softmax_of_several, softmax_of_a_batch])
def test_softmax_of_processes_is_the_closed_form(build):
    parts = split(build)
    assert isinstance(parts.model_likelihood, ClosedFormLikelihood)
    f = RNG.normal(size=(4, CLASSES * N))
    expected = MultinomialLogit(LABELS).log_likelihood(f)
    assert_allclose(parts.likelihood(parts.initial_theta).log_likelihood(f), expected)


def test_one_covariance_of_several_processes_is_computed_once():
    for build in (softmax_of_several, softmax_of_a_batch):
        prior = split(build).prior(np.zeros(1))
        assert isinstance(prior, BlockPrior)
        assert prior.parts[0] is prior.parts[1] is prior.parts[2]
    prior = split(additive).prior(np.zeros(1))
    assert prior.parts[0] is not prior.parts[1]


def test_the_order_of_the_classes_is_that_of_the_likelihood():
    parts = split(softmax_in_another_order)
    assert isinstance(parts.model_likelihood, ClosedFormLikelihood)
    f = RNG.normal(size=(CLASSES, N))
    expected = MultinomialLogit(LABELS).log_likelihood(f[[2, 0, 1]].ravel())
    assert_allclose(parts.likelihood(np.zeros(1)).log_likelihood(f.ravel()), expected)


@pytest.mark.parametrize(("build", "factor"), [(categorical, 1.0), (softmax_of_a_function, 2.0)])
def test_other_graphs_have_the_derivatives_of_the_closed_form(build, factor):
    parts = split(build)
    assert isinstance(parts.model_likelihood, GraphLikelihood)
    graph, closed = parts.likelihood(np.zeros(1)), MultinomialLogit(LABELS)
    f = RNG.normal(size=CLASSES * N)
    assert_allclose(graph.log_likelihood(f), closed.log_likelihood(factor * f))
    gradient, curvature = graph.derivatives(f)
    own_gradient, own_curvature = closed.derivatives(factor * f)
    assert_allclose(gradient, factor * own_gradient, atol=1e-12)
    assert_allclose(curvature.blocks, factor**2 * own_curvature.blocks, atol=1e-8)
    assert_allclose(graph.fisher_information(f), factor**2 * closed.fisher_information(factor * f), atol=1e-8)


def test_derivatives_of_a_heteroscedastic_model():
    """The curvature has the sizes of the Hessian's eigenvalues, which are not all of one sign here."""
    likelihood = split(heteroscedastic_of_two).likelihood(np.zeros(1))
    f = RNG.normal(size=2 * N)
    gradient, curvature = likelihood.derivatives(f)
    assert_allclose(gradient, central_differences(likelihood.log_likelihood, f, 1e-3), atol=1e-8)
    assert_allclose(gradient, likelihood.gradient(f), atol=1e-12)
    hessian = -central_differences(likelihood.gradient, f, 1e-3).reshape(2, N, 2, N)
    blocks = np.einsum("cidi->icd", hessian)
    # Eigenvalues do not depend on the units of the two vectors: each one's curvature is one on average.
    unit = np.sqrt(np.abs(np.einsum("icc->ic", blocks)).mean(axis=0))
    values, vectors = np.linalg.eigh(blocks / np.outer(unit, unit))
    assert (values < 0.0).any()
    expected = np.outer(unit, unit) * ((vectors * np.abs(values)[:, None, :]) @ vectors.swapaxes(1, 2))
    assert_allclose(curvature.blocks, expected, atol=1e-6)


def heteroscedastic_of_two():
    mean, log_scale = process("mean", pm.Gamma("scale", 2, 1)), process("log_scale")
    pm.Normal("y", mean, pm.math.exp(log_scale), observed=REALS)


def test_values_of_the_variables_go_to_one_vector_and_back():
    for build, shapes in ((softmax_of_several, {f"f{c}": (N,) for c in range(3)}), (softmax_of_a_batch, {"f": (3, N)})):
        parts = split(build)
        f = RNG.normal(size=CLASSES * N)
        values = parts.unravel_latent(f, parts.initial_theta)
        assert {name: value.shape for name, value in values.items()} == shapes
        assert np.array_equal(parts.ravel_latent(values), f)


FOREIGN = re.escape("labels of classes must be whole numbers among 0 to 2, one for each latent vector, found 3;")


def test_labels_that_are_no_classes_are_named():
    with pm.Model(), pytest.raises(ValueError, match=FOREIGN):
        pmgp.MultinomialLogit("y", processes(), observed=LABELS + 1)


def test_data_that_are_no_classes_are_named():
    with pm.Model() as model:
        pmgp.MultinomialLogit("y", processes(), observed=pm.Data("labels", LABELS + 1))
    with pytest.raises(ValueError, match=FOREIGN):
        pmgp.PseudoMarginal(model=model)


def test_indicators_are_named():
    message = re.escape("labels of classes must be a vector, not of shape (8, 3): for indicators")
    with pm.Model(), pytest.raises(ValueError, match=message):
        pmgp.MultinomialLogit("y", processes(), observed=np.eye(3, dtype=int)[LABELS])


def test_one_process_is_no_softmax():
    with pm.Model(), pytest.raises(ValueError, match="at least 2 classes, not 1"):
        pmgp.MultinomialLogit("y", processes()[:1], observed=np.zeros(N, dtype=int))


def test_what_takes_one_process_says_so():
    with pm.Model() as model:
        softmax_of_several()
    with pytest.raises(ModelError, match=r"several latent vectors \(f0, f1, f2\)"):
        _ = take_apart(model, compile_kwargs=FAST).latent


def test_the_pseudo_marginal_chain_is_recommended():
    with pm.Model() as model:
        softmax_of_several()
    recommendation = pmgp.recommend(model)
    assert "pmgp.PseudoMarginal()" in str(recommendation)
    assert "f0, f1, f2 are integrated out together" in str(recommendation)


def test_named_processes_leave_the_others_to_theta():
    """As for one: two of three are f, which is refused for schemes of theta and fine for f alone."""
    with pm.Model() as model:
        softmax_of_several()
    with pytest.raises(ModelError, match="second latent process besides 'f0, f2': 'f1'"):
        pmgp.PseudoMarginal(latent=["f0", "f2"], model=model, compile_kwargs=FAST)
    with model:
        step = pmgp.EllipticalSlice([model["f0"], model["f2"]], compile_kwargs=FAST)
    assert [value.name for value in step.vars] == ["f0", "f2"]


def rank_one_posterior(x: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean of the scale, and of the probability of the first class at x = 1, by sums over scales and slopes.

    For f_c = sqrt(scale) u_c x with u_c standard normal, up to the jitter of gp.prior. The softmax knows nothing but
    u_1 - u_0 and u_2 - u_0, whose covariance is I + 1.
    """
    scales, axis = np.linspace(0.02, 25.0, 200), np.linspace(-6.5, 6.5, 45)
    differences = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    u = np.pad(differences, ((0, 0), (1, 0)))
    weight = -0.5 * (differences @ np.linalg.inv(np.eye(2) + 1.0) * differences).sum(axis=1)
    likelihood = MultinomialLogit(labels, 3)
    logs, probabilities = [], []
    for scale in scales:
        f = np.sqrt(scale) * (u[:, :, None] * x).reshape(len(u), -1)
        terms = likelihood.log_likelihood(f) + weight
        logs.append(logsumexp(terms) + gamma(2.0).logpdf(scale))
        odds = np.exp(np.sqrt(scale) * u)
        probabilities.append(np.exp(terms - logsumexp(terms)) @ (odds[:, 0] / odds.sum(axis=1)))
    share = np.exp(np.array(logs) - logsumexp(logs))
    return float(share @ scales), float(share @ np.array(probabilities))


def linear_model() -> pm.Model:
    with pm.Model() as model:
        scale = pm.Gamma("scale", 2, 1)
        x = np.append(X, 1.0)[:, None]
        f = [
            pm.gp.Latent(cov_func=scale * pm.gp.cov.Linear(1, c=0.0)).prior(f"f{c}", X=x, reparameterize=False)
            for c in range(CLASSES)
        ]
        pmgp.MultinomialLogit("y", f, observed=np.append(LABELS, 1))
    return model


@pytest.fixture(scope="module")
def truth() -> tuple[float, float]:
    return rank_one_posterior(np.append(X, 1.0), np.append(LABELS, 1))


def distances(idata, truth: tuple[float, float]) -> list[float]:
    """Return the distances of the two means from the truth, in Monte Carlo standard errors."""
    f = np.stack([idata.posterior[f"f{c}"].values[..., -1] for c in range(CLASSES)])
    probability = np.exp(f[0] - logsumexp(f, axis=0))
    found = (idata.posterior["scale"].values, probability)
    return [abs(x.mean() - t) / float(az.mcse(x, method="mean")) for x, t in zip(found, truth, strict=True)]


@pytest.mark.parametrize("settings", [{}, {"approximation": "laplace", "estimator": "annealed"}], ids=str)
def test_the_pseudo_marginal_chain_has_the_posterior_of_sums(settings, truth):
    with linear_model():
        step = pmgp.PseudoMarginal(**settings)
        idata = pm.sample(700, tune=300, chains=2, cores=1, step=step, progressbar=False, random_seed=4)
    assert max(distances(idata, truth)) < 4.0


EXACT = {"laplace": Laplace(tolerance=1e-18), "ep": ExpectationPropagation(1e-10, max_sweeps=200)}


@pytest.mark.parametrize(
    ("build", "method"), [(softmax_of_several, "laplace"), (softmax_of_several, "ep"), (additive, "laplace")]
)
def test_the_gradient_of_the_screen(build, method):
    """The processes share a covariance, or two have one each; the gradient is compiled for trajectories."""
    parts = split(build)
    parts.compile_theta_gradient()
    density = ScreenDensity(Evaluator(parts, EXACT[method]), None)
    theta = np.full(parts.dimension, 0.3)
    expected = central_differences(lambda at: density.at(at).log_density, theta, 1e-3)
    assert_allclose(density.gradient(theta), expected, rtol=1e-4, atol=1e-5)


def test_noise_that_double_precision_does_not_resolve_is_refused_in_words():
    """Expectation propagation gave evidences of 1e8 and 5e10 there."""
    X = np.arange(5.0)[:, None]
    with pm.Model() as model:
        noise = pm.HalfNormal("noise")
        gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern32(1, ls=1.0))
        f, g = (gp.prior(name, X=X, reparameterize=False) for name in "fg")
        pm.Normal("y", f, noise, observed=np.sin(X[:, 0]))
        pm.Poisson("counts", pt.exp(g), observed=[0, 1, 2, 1, 0])
    for method in ("ep", "laplace"):
        settings = {"latent": ["f", "g"], "approximation": method, "estimator": "none", "random_seed": 1}
        assert pmgp.marginal.log_likelihood(model, {"noise": 1e-2}, **settings).value == pytest.approx(-11.5, abs=0.1)
        for noise in (1e-4, 1e-6):
            with pytest.raises(ValueError, match=r"cannot start: .* noise is too small for double precision"):
                pmgp.marginal.log_likelihood(model, {"noise": noise}, **settings)


UNIT = np.exp(-0.5 * np.square(np.subtract.outer([0.0, 0.7, 1.9, 2.6], [0.0, 0.7, 1.9, 2.6]))) + 1e-6 * np.eye(4)
MEASURED = np.array([0.2, 1.1, -0.4, 0.6])


@cache
def spiked():
    """Processes for the mean and the log-scale of four measurements: p(f, g|y) has a spike at f = y without noise."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        f, g = (pm.MvNormal(name, np.zeros(4), scale**2 * UNIT) for name in "fg")
        pm.Normal("y", f, pm.math.exp(g - 1.0), observed=MEASURED)
    return take_apart(model, compile_kwargs=FAST)


def evidence_of_spiked(scale):
    """Log p(y) by quasi-Monte Carlo over g, given which f is normal."""
    uniform = qmc.Sobol(4, rng=np.random.default_rng(1)).random_base2(13)
    log_scale = scale * norm.ppf(uniform) @ np.linalg.cholesky(UNIT).T - 1.0
    covariance = scale**2 * UNIT + np.exp(2.0 * log_scale)[:, :, None] * np.eye(4)
    square = np.einsum("i,kij,j->k", MEASURED, np.linalg.inv(covariance), MEASURED)
    logs = -0.5 * (square + np.linalg.slogdet(covariance)[1] + 4 * np.log(2 * np.pi))
    return logsumexp(logs) - np.log(len(logs))


@pytest.mark.parametrize("approximation", [ExpectationPropagation(), Laplace()], ids=["ep", "laplace"])
def test_a_spike_beside_the_mass_is_no_approximation(approximation):
    for scale in (1.5, 1.8, 2.5):
        theta = np.log([scale])
        q = approximation.fit(spiked().prior(theta), spiked().likelihood(theta))
        assert q.resolved
        assert abs(q.log_evidence - evidence_of_spiked(scale)) < 1.0


def test_a_prior_of_no_variance_is_approximated_by_itself():
    """With three processes: eigenvalues of matrices of NaN end in an error then, and not with two."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        f, g, h = (pm.MvNormal(name, np.zeros(4), scale**2 * UNIT) for name in "fgh")
        pm.Normal("y", f + h, pm.math.exp(g - 1.0), observed=MEASURED)
    parts, theta = take_apart(model, compile_kwargs=FAST), np.log([1e-170])
    q = ExpectationPropagation().fit(parts.prior(theta), parts.likelihood(theta))
    assert q.log_evidence == pytest.approx(norm.logpdf(MEASURED, scale=np.exp(-1.0)).sum())


def test_from_the_mode_the_sweeps_end_in_the_spike(monkeypatch):
    monkeypatch.setattr(families, "propagated_from_prior", lambda *_: None)
    theta = np.log([2.5])
    parts = spiked().prior(theta), spiked().likelihood(theta)
    spike = ExpectationPropagation().fit(*parts)
    assert not spike.resolved
    monkeypatch.undo()
    assert ExpectationPropagation().fit(*parts, ExpectationPropagation().start_from(spike)).resolved


def test_the_local_metric_is_refused_where_it_is_not_known():
    with pm.Model() as model:
        heteroscedastic_of_two()
    with pytest.raises(ModelError, match=re.escape('pmgp.MultinomialLogit; use metric="fixed"')):
        pmgp.steps.LatentRMHMC(metric="local", model=model, compile_kwargs=FAST)
    assert pmgp.steps.LatentRMHMC(model=model, compile_kwargs=FAST).operator.metric == "fixed"


def test_trajectories_with_a_metric_have_the_posterior_of_sums(truth):
    """Sampler (e) of the article; (a) to (f) have Geweke's test (`test_article_samplers.py`)."""
    with linear_model():
        steps = [pmgp.steps.LatentRMHMC(metric="fixed", max_leapfrog=4), pmgp.steps.Ancillary()]
        idata = pm.sample(700, tune=300, chains=2, cores=1, step=steps, progressbar=False, random_seed=6)
    assert max(distances(idata, truth)) < 4.0


THETA = {
    "surrogate": lambda: pmgp.steps.Surrogate(),
    "joint": lambda: pmgp.steps.JointUpdate(),
}


@pytest.mark.parametrize("name", list(THETA))
def test_schemes_beside_f_have_the_posterior_of_sums(name, truth):
    with linear_model():
        steps = [THETA[name](), pmgp.EllipticalSlice(moves=3)]
        idata = pm.sample(1000, tune=300, chains=2, cores=1, step=steps, progressbar=False, random_seed=5)
    assert max(distances(idata, truth)) < 4.0


def test_a_pickled_step_goes_on_as_the_first_one():
    with linear_model() as model:
        step = pmgp.PseudoMarginal(compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(0), 20, 100)
    point = model.initial_point()
    for _ in range(20):
        point, _ = step.step(point)
    step.stop_tuning()
    copy = pickle.loads(pickle.dumps(step))
    copy.sampling_state = step.sampling_state
    own, other = step.step(point)[0], copy.step(point)[0]
    assert set(own) == {"scale_log__", "f0", "f1", "f2"}
    for name, value in own.items():
        assert np.array_equal(value, other[name])


def test_what_all_processes_share_is_computed_once_and_differentiated_once(monkeypatch):
    """With the sum of what each of them does with it."""
    parts = split(softmax_of_several)
    prior, theta, rng = parts.latent_prior, parts.initial_theta, np.random.default_rng(0)
    by_covariance = [np.tril(x) for x in rng.normal(size=(CLASSES, N, N))]
    by_mean = rng.normal(size=(CLASSES, N))
    expected = sum(prior.parts[0].pullback(theta, *bars) for bars in zip(by_covariance, by_mean, strict=True))
    calls = []

    def counting(own):
        def counted(self, *known):
            calls.append(own.__name__)
            return own(self, *known)

        return counted

    for name in ("__call__", "pullback"):
        monkeypatch.setattr(LatentPrior, name, counting(getattr(LatentPrior, name)))
    prior(theta)
    assert_allclose(prior.pullback(theta, np.array(by_covariance), by_mean.ravel()), expected)
    assert calls == ["__call__", "pullback"]
