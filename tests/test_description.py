"""`pmgp.describe`: it names the parts of every model, and never raises."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.interface import description
from pmgp.interface.model import structure
from pmgp.interface.model.latent_variable import find_latents
from tests.support.models import COUNTS, COVARIANCES, LABELS, X, classifier, hsgp, latent, three_processes


@pytest.mark.parametrize("build", COVARIANCES.values(), ids=COVARIANCES)
def test_every_model_is_described_with_each_of_its_free_variables(build):
    model = build()
    lines = str(pmgp.describe(model)).splitlines()
    for rv in model.free_RVs:
        assert any(line.split()[0] == rv.name for line in lines)


def test_a_plain_model():
    found = pmgp.describe(classifier())
    assert list(found.latent_vectors) == ["f"]
    assert found.latent_vectors["f"].startswith("vector of 8; inputs: a constant (8, 2)")
    assert found.hyperparameters == {
        "lengthscale": "number; Gamma; transform log; acts on the covariance of f",
    }
    assert found.likelihood == {"y": "BernoulliProbit"}
    assert found.computation == {
        "covariance": "in blocks of rows, by NumPy",
        "likelihood": "closed form",
        "approximation": "ExpectationPropagation",
        "estimator": "ImportanceSampling or OrthantSampling",
    }
    assert found.refused is None


def test_hyperparameters_act_on_their_own_process_or_on_the_likelihood():
    found = pmgp.describe(three_processes())
    assert found.hyperparameters["lengthscale_one"].endswith("acts on the covariance of f_one")
    with classifier() as model:
        pm.Normal("counts", model["f"], pm.HalfNormal("noise"), observed=range(8))
    found = pmgp.describe(model)
    assert found.hyperparameters["noise"].endswith("acts on counts")
    assert found.computation["likelihood"] == "from its graph"


def test_a_potential_that_depends_on_f_is_a_part_of_the_likelihood():
    with classifier() as model:
        pm.Potential("cut", -pm.math.log1pexp(model["f"]))
        pm.Potential("prior", -model["lengthscale"])
    assert pmgp.describe(model).likelihood == {"y": "BernoulliProbit", "cut": "potential"}


def counted(size: int, likelihood) -> pm.Model:
    """Counts with a walk and coefficients that have a known prior."""
    with pm.Model() as model:
        s = pm.GaussianRandomWalk("s", sigma=pm.HalfNormal("sigma"), init_dist=pm.Normal.dist(0, 1), shape=12)
        likelihood(s, pm.Normal("beta", 0, 1, shape=size))
    return model


def inside(s, beta):
    basis = np.cos(np.outer(np.arange(12), np.arange(beta.type.shape[0])))
    pm.Poisson("y", pm.math.exp(s + basis @ beta), observed=[1] * 12)


def beside(s, beta):
    pm.Normal("y", s, pm.math.exp(beta[:12]), observed=np.ones(12))


def averaged(s, beta):
    pm.Normal("y", s, pm.math.exp(beta).mean(), observed=np.ones(12))


@pytest.mark.parametrize(
    ("size", "likelihood", "hint"),
    [(20, inside, True), (4, inside, False), (20, beside, True), (20, averaged, False)],
)
def test_long_normal_vectors_that_could_be_integrated_out_are_named(size, likelihood, hint):
    found = pmgp.describe(counted(size, likelihood))
    assert found.computation.get("hint", "").startswith("latent=['s', 'beta'] integrates out beta too") == hint
    assert found.refused is None


def test_missing_observations_are_no_hyperparameters():
    with pm.Model() as model:
        pm.Poisson("y", mu=pm.math.exp(latent()), observed=np.ma.masked_array(COUNTS, mask=LABELS == 1))
    found = pmgp.describe(model)
    assert list(found.hyperparameters) == ["lengthscale"]
    assert list(found.likelihood) == ["y_observed"]
    assert found.missing["y_unobserved"].startswith("vector of 4")
    assert found.refused is None


def test_distributions_of_ours_keep_their_names_with_missing_observations():
    with pm.Model() as model:
        pmgp.BernoulliProbit("y", latent(), observed=np.ma.masked_array(LABELS, mask=COUNTS > 3))
    found = pmgp.describe(model)
    assert found.likelihood["y_observed"].startswith("BernoulliProbit")
    assert "BernoulliProbit" in found.missing["y_unobserved"]


def test_what_only_a_prior_depends_on_acts_on_that_prior():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        lengthscale = pm.Gamma("lengthscale", 3, scale)
        gp = pm.gp.Latent(
            mean_func=pm.gp.mean.Constant(pm.Normal("level")), cov_func=pm.gp.cov.ExpQuad(2, ls=lengthscale)
        )
        pmgp.BernoulliProbit("y", gp.prior("f", X=pm.Data("X", X), reparameterize=False), observed=LABELS)
    found = pmgp.describe(model)
    assert found.latent_vectors["f"] == "vector of 8; inputs: X (8, 2)"
    acts_on = {name: text.split("acts on ")[1] for name, text in found.hyperparameters.items()}
    assert acts_on == {"scale": "lengthscale", "lengthscale": "the covariance of f", "level": "the mean of f"}


def test_a_refused_model_is_described_with_the_reason():
    found = pmgp.describe(hsgp())
    assert "HSGP" in found.refused
    assert found.computation == {}
    assert "lengthscale" in str(found)


def test_a_model_is_inspected_once(monkeypatch):
    inspected = []

    def counting(*arguments):
        inspected.append(arguments)
        return find_latents(*arguments)

    for module in (structure, description):
        monkeypatch.setattr(module, "find_latents", counting)
    pmgp.describe(classifier())
    assert len(inspected) == 1


def test_a_model_whose_parts_cannot_be_separated_is_described_with_its_latent_vector():
    with classifier() as model:
        pm.Normal("child", model["f"].sum())
        pm.Potential("cut", -pm.math.log1pexp(model["f"]))
    found = pmgp.describe(model)
    assert "child depend on" in found.refused
    assert list(found.latent_vectors) == ["f"]
    assert list(found.hyperparameters) == ["lengthscale", "child"]
    assert found.likelihood == {"y": "BernoulliProbit", "cut": "potential"}


def test_named_latent_variables_are_f():
    """A normal variable with a known deviation is a hyper-parameter unless it is named."""
    with pm.Model() as model:
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), shape=4)
        level = pm.Normal("level", 0.0, 10.0)
        pm.Poisson("y", pm.math.exp(level + u[np.arange(8) % 4]), observed=COUNTS)
    assert list(pmgp.describe(model, latent=["u"]).hyperparameters) == ["tau", "level"]
    both = pmgp.describe(model, latent=["u", "level"])
    assert list(both.hyperparameters) == ["tau"]
    assert {"u", "level"} <= set(both.latent_vectors)
    maxima = [pmgp.find_map(model, latent=names) for names in (["u"], ["u", "level"])]
    assert set(maxima[0].point) >= {"tau", "level"}
    # With the level integrated out, its prior is part of the evidence.
    assert maxima[0].log_evidence > maxima[1].log_evidence
