"""What is expected of observations at new inputs, by `pmgp.predict`; and which step method suits such a model."""

from __future__ import annotations

import arviz
import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm

import pmgp
from tests.sparse.problems import COUNTS, LABELS, X, gaussian, hyperparameters, probit, sparse, sparse_gaussian
from tests.sparse.test_sites import classes

NEW = np.array([[0.3], [2.2], [7.0]])
CLASSES = np.digitize(COUNTS, [1, 3])


def posterior_of(model, number):
    """Values at random, positive where they have to be."""
    rng = np.random.default_rng(2)
    shapes = {rv.name: (1, number, *rv.type.shape) for rv in model.free_RVs}
    positive = {rv.name for rv, transform in model.rvs_to_transforms.items() if transform is not None}
    values = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return arviz.from_dict({"posterior": {k: np.exp(0.3 * v) if k in positive else v for k, v in values.items()}})


def drawn(model, process, number=3):
    """Draws in the place of a posterior, and predictions from them."""
    idata = posterior_of(model, number)
    with model:
        latent = process.predict(idata, NEW)
        return idata, pmgp.predict(idata, NEW), latent


@pytest.fixture(scope="module")
def labels():
    model, process = sparse(X[::3], dist=probit, observed=LABELS)
    return model, process, *drawn(model, process)


def test_probabilities_are_the_averages_of_a_closed_form(labels):
    model, process, idata, predicted, _ = labels
    with model:
        ones = process.predict(idata, NEW, observed=np.ones(3, dtype=int))
    # That goes by quadrature with twenty nodes.
    np.testing.assert_allclose(predicted["probability"], np.exp(ones["log_density"]), atol=2e-3)
    assert predicted["probability"].dims == ("point",)


def test_moments_are_those_of_the_process(labels):
    *_, predicted, latent = labels
    for name in ("latent_mean", "latent_variance"):
        np.testing.assert_allclose(predicted[name], latent[name])


def test_one_draw_gives_the_formula():
    model, process = sparse(X[::3], dist=probit, observed=LABELS)
    *_, predicted, latent = drawn(model, process, number=1)
    mean, variance = (latent[name].to_numpy() for name in ("latent_mean", "latent_variance"))
    np.testing.assert_allclose(predicted["probability"], norm.cdf(mean / np.sqrt(1.0 + variance)), rtol=1e-10)


@pytest.mark.parametrize(("link", "v"), [(pmgp.BernoulliProbit, 20.0), (pmgp.BernoulliLogit, 60.0)])
def test_a_probability_that_rounds_to_one_leaves_a_finite_log_loss(link, v):
    model, _ = sparse(X[::3], dist=lambda f: link.dist(f), observed=LABELS)
    idata = posterior_of(model, 2)
    idata["posterior"]["f_rotated_"] = idata["posterior"]["f_rotated_"] * 0.0 + v
    with model:
        predicted = pmgp.predict(idata, X[:1])
    assert predicted["probability"] == 1.0
    assert pmgp.scores.log_loss([0], predicted["probability"]) == np.inf
    loss = pmgp.scores.log_loss([0], predicted["probability"], predicted["complement"])
    assert 36.0 < loss < np.inf


def test_counts_have_their_mean():
    model, process = sparse(X[::3])
    *_, predicted, latent = drawn(model, process, number=1)
    expected = np.exp(latent["latent_mean"] + latent["latent_variance"] / 2)
    np.testing.assert_allclose(predicted["mean"], expected, rtol=1e-9)


@pytest.mark.parametrize("variance", [1.0, 100.0])
def test_general_likelihoods_have_their_mean_for_any_variance(variance):
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=variance * pm.gp.cov.Matern52(1, ls=pm.LogNormal("lengthscale", 0.0, 0.5)))
        f = process.prior("f", X=X, Xu=X[::3])
        process.observe("y", f, dist=lambda f: pm.Binomial.dist(4, pm.math.invprobit(f)), observed=COUNTS.clip(max=4))
    *_, predicted, latent = drawn(model, process, number=1)
    expected = 4.0 * norm.cdf(latent["latent_mean"] / np.sqrt(1.0 + latent["latent_variance"]))
    np.testing.assert_allclose(predicted["mean"], expected, atol=4e-6)


def test_classes_have_probabilities():
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=X[::3], n_outputs=3)
        process.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=CLASSES)
    idata, predicted, _ = drawn(model, process)
    assert predicted["probabilities"].dims == ("point", "category")
    np.testing.assert_allclose(predicted["probabilities"].sum("category"), 1.0, atol=1e-3)
    with model:
        ones = process.predict(idata, NEW, observed=np.ones(3, dtype=int))
    np.testing.assert_allclose(predicted["probabilities"][:, 1], np.exp(ones["log_density"]), rtol=1e-10)


def test_parameters_of_each_observation_are_not_known_at_new_inputs():
    """Though there are as many new inputs."""
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=X[::3])
        process.observe("y", f, np.arange(1.0, 11.0), dist=pmgp.likelihoods.LogGaussianCox.dist, observed=COUNTS)
    idata = posterior_of(model, 2)
    with model, pytest.warns(UserWarning, match="a parameter with a value for each observation"):
        predicted = pmgp.predict(idata, X + 0.1)
    assert set(predicted) == {"latent_mean", "latent_variance"}


def test_what_is_for_other_processes_is_refused(labels):
    model, _, idata, *_ = labels
    for name, value in {"latent": "f", "at": {"x": 1.0}, "block_size": 2}.items():
        with model, pytest.raises(ValueError, match=f"{name} cannot be given for a process on inducing inputs"):
            pmgp.predict(idata, NEW, **{name: value})


def test_several_processes_are_sampled_together_and_asked_one_by_one():
    with pm.Model() as model:
        for name in ("first", "second"):
            process = pmgp.gp.Sparse(cov_func=pm.gp.cov.Matern52(1, ls=pm.Gamma(f"scale_{name}", 2, 2)))
            f = process.prior(name, X=X, Xu=X[::3])
            process.observe(f"y_{name}", f, 1.0, dist=gaussian, observed=np.ones(10))
    assert pmgp.recommend(model).code == "pmgp.steps.SparseHMC()"
    idata = pmgp.sample(model, draws=10, tune=10, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True)
    for name in ("first_rotated_", "second_rotated_", "scale_first", "scale_second"):
        assert float(idata["posterior"][name].std("draw").min()) > 0.0
    with pytest.raises(pmgp.ModelError, match=r"several processes on inducing inputs .* call the methods of each"):
        pmgp.predict(idata, NEW, model=model)
    assert set(process.predict(idata, NEW, model=model)) >= {"latent_mean", "latent_variance"}


@pytest.mark.parametrize("refused", [pmgp.PseudoMarginal, pmgp.find_map])
def test_what_integrates_f_out_names_what_samples_the_inducing_values(refused):
    with pytest.raises(pmgp.ModelError, match=r"inducing inputs of a pmgp\.gp\.Sparse.*pmgp\.sample chooses a step"):
        refused(model=sparse_gaussian(X[::3]))


def test_a_step_method_is_recommended_and_said_to_approximate():
    found = pmgp.recommend(sparse_gaussian(X[::3]))
    assert found.code == "pmgp.steps.SparseGibbs()"
    assert "4 inducing inputs represent the process at 10 points" in found.reason
    assert "approximation of the posterior" in found.reason
    assert "pmgp.gp.optimize_inducing(gp, inducing=False).initvals(chains)" in found.alternatives[-1]
    assert "several outputs" not in found.reason
    [step] = found.steps()
    assert isinstance(step, pmgp.steps.SparseGibbs)


def test_for_several_outputs_an_approximation_to_follow_is_named():
    found = pmgp.recommend(classes()[0])
    assert found.code == "pmgp.steps.SparseGibbs()"
    assert "pmgp.steps.SparseGibbs(approximation=pmgp.gp.optimize_inducing(gp, inducing=False))" in found.reason


def test_many_points_bring_a_word_on_the_approximation(monkeypatch):
    def exact():
        with pm.Model() as model:
            process = pm.gp.Latent(cov_func=hyperparameters())
            f = process.prior("f", X=X, reparameterize=False)
            pmgp.BernoulliProbit("y", f, observed=LABELS)
        return pmgp.recommend(model)

    few = exact()
    monkeypatch.setattr("pmgp.interface.recommendation.choice.MANY_POINTS", 10)
    many = exact()
    assert many.code == few.code
    assert not any("Sparse" in alternative for alternative in few.alternatives)
    assert "pmgp.gp.Sparse with about 10 inducing inputs" in many.alternatives[0]
    assert "It is an approximation" in many.alternatives[0]
    assert many.alternatives[2:] == few.alternatives


def test_a_run_in_one_call_takes_it(tmp_path):
    model, process = sparse(X[::3])
    settings = {"tune": 5, "chains": 1, "cores": 1, "random_seed": 1, "progressbar": False, "out": tmp_path / "run"}
    idata = pmgp.sample(model, draws=5, compute_convergence_checks=False, **settings)
    assert "theta_acceptance" in idata["sample_stats"]
    longer = pmgp.resume(tmp_path / "run", model, draws=8, progressbar=False, compute_convergence_checks=False)
    np.testing.assert_array_equal(longer["posterior"]["lengthscale"][:, :5], idata["posterior"]["lengthscale"])
    assert process.size == 4
