"""Each kind of model gets its own answer, which can be sampled with as it stands."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pmgp
from pmgp.interface.recommendation import MANY_HYPERPARAMETERS, Recommendation

N, D = 12, MANY_HYPERPARAMETERS
X = np.random.default_rng(5).normal(size=(N, D))
LABELS = np.array([0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0])
REALS = np.random.default_rng(6).normal(size=N)


def probit(f) -> None:
    pmgp.BernoulliProbit("y", f, observed=LABELS)


def student(f) -> None:
    pm.StudentT("y", nu=3, mu=f, sigma=0.3, observed=REALS)


def smooth(f) -> None:
    """Each observation is a mean of a function of all latent values before it."""
    pm.Normal("y", pt.exp(f).cumsum() / N, 0.3, observed=REALS)


def hierarchical(f) -> None:
    middle = pm.Normal("middle", f, 0.3)
    pm.Normal("y", middle, 0.2, observed=REALS)


def hidden_terms(f) -> None:
    """A product of vectors is all that is known: the likelihood factorizes, its terms are hidden."""
    pm.Potential("y", -0.5 * pt.dot(f - REALS, f - REALS))


def process(name: str, variance=1.0, lengthscale=1.0) -> pt.TensorVariable:
    gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(D, ls=lengthscale))
    return gp.prior(name, X=X, reparameterize=False)


def isotropic(observe: Callable) -> pm.Model:
    with pm.Model() as model:
        observe(process("f", pm.Gamma("variance", 2, 1), pm.Gamma("lengthscale", 2, 1)))
    return model


def ard(observe: Callable, d: int = D) -> pm.Model:
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(d, ls=pm.Gamma("lengthscale", 2, 1, shape=d)))
        observe(gp.prior("f", X=X[:, :d], reparameterize=False))
    return model


def fixed(observe: Callable) -> pm.Model:
    with pm.Model() as model:
        observe(process("f"))
    return model


def two_vectors() -> pm.Model:
    with pm.Model() as model:
        variance = pm.Gamma("variance", 2, 1)
        pmgp.BernoulliProbit("y", process("f", variance) + process("g"), observed=LABELS)
    return model


def two_smoothed_vectors() -> pm.Model:
    with pm.Model() as model:
        smooth(process("f", pm.Gamma("variance", 2, 1)) + process("g"))
    return model


CASES = {
    "few hyper-parameters": (lambda: isotropic(probit), ["PseudoMarginal"]),
    "many hyper-parameters": (lambda: ard(probit), ["PseudoMarginal"]),
    "heavy tails": (lambda: isotropic(student), ["PseudoMarginal"]),
    "unknown terms": (lambda: isotropic(hidden_terms), ["PseudoMarginal"]),
    "does not factorize": (lambda: isotropic(smooth), ["Ancillary", "EllipticalSlice"]),
    "does not factorize, many": (lambda: ard(smooth), ["Ancillary", "EllipticalSlice"]),
    "free variables depend on f": (lambda: isotropic(hierarchical), ["Ancillary", "EllipticalSlice"]),
    "known hyper-parameters": (lambda: fixed(probit), ["LatentHMC"]),
    "known, does not factorize": (lambda: fixed(smooth), ["EllipticalSlice"]),
    "two latent vectors": (two_vectors, ["PseudoMarginal"]),
    "two latent vectors, does not factorize": (two_smoothed_vectors, ["EllipticalSlice", "EllipticalSlice"]),
}


def sample(model: pm.Model, recommendation: Recommendation):
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pm.sample(
            8,
            tune=8,
            chains=1,
            cores=1,
            step=recommendation.steps(),
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            random_seed=1,
        )


# One for each answer; that step methods take these models is in the tables of `support/`.
SAMPLED = ("few hyper-parameters", "does not factorize", "known hyper-parameters", "two latent vectors")


@pytest.mark.parametrize("case", CASES)
def test_each_model_gets_its_step_methods(case):
    make, expected = CASES[case]
    assert [call.method.__name__ for call in pmgp.recommend(make()).calls] == expected


@pytest.mark.parametrize("case", SAMPLED)
def test_recommended_step_methods_run(case):
    model = CASES[case][0]()
    recommendation = pmgp.recommend(model)
    posterior = sample(model, recommendation)["posterior"].to_dataset()
    assert set(posterior) >= {rv.name for rv in model.free_RVs}
    assert all(np.isfinite(values).all() for values in posterior.values())


def traits_of(model: pm.Model):
    from pmgp.interface.recommendation import traits

    return traits.traits_of(model, None)


def test_traits_are_those_of_the_likelihood():
    few = traits_of(isotropic(probit))
    assert (few.dimension, few.factorizes, few.sites_known, few.log_concave) == (2, True, True, True)
    assert not traits_of(isotropic(student)).log_concave
    hidden = traits_of(isotropic(hidden_terms))
    assert hidden.factorizes
    assert not hidden.sites_known
    assert hidden.log_concave


def test_reason_and_alternatives_follow_the_likelihood():
    plain = pmgp.recommend(isotropic(probit))
    assert "importance_ess" not in plain.reason
    assert any('"laplace"' in alternative for alternative in plain.alternatives)
    assert "importance_ess" in pmgp.recommend(isotropic(student)).reason
    assert not any('"laplace"' in alternative for alternative in pmgp.recommend(isotropic(hidden_terms)).alternatives)


def test_the_code_makes_what_steps_makes():
    model = ard(smooth)
    recommendation = pmgp.recommend(model)
    with model:
        written = eval(recommendation.code, {"pmgp": pmgp})
    assert [type(step) for step in written] == [type(step) for step in recommendation.steps()]
    assert written[1].operator == recommendation.steps()[1].operator
    assert written[0].scheme == recommendation.steps()[0].scheme


def test_text_and_html_say_all():
    recommendation = pmgp.recommend(fixed(probit))
    text, html = str(recommendation), recommendation._repr_html_()
    for part in (recommendation.name, recommendation.code, recommendation.cost, *recommendation.alternatives):
        assert part in text
    assert recommendation.code in html
    assert "(K^-1 + C)^-1" in html


def test_markup_in_names_is_escaped():
    with pm.Model() as model:
        pmgp.BernoulliProbit("y", process("f<b>") + process("g"), observed=LABELS)
    html = pmgp.recommend(model)._repr_html_()
    assert "f&lt;b&gt;" in html
    assert "<b>" not in html


def regression() -> pm.Model:
    """A process and regression coefficients that are multivariate normal too."""
    with pm.Model() as model:
        coefficients = pm.MvNormal("coefficients", np.zeros(D), cov=np.eye(D))
        student(process("g", pm.Gamma("variance", 2, 1)) + X @ coefficients)
    return model


def test_a_latent_vector_that_is_chosen_is_named_to_the_step_methods():
    recommendation = pmgp.recommend(regression(), latent="g")
    assert [call.settings["latent"] for call in recommendation.calls] == ["g"]
    assert recommendation.name == "Pseudo-marginal chain with trajectories"


def test_two_processes_are_f_together_or_one_is_refused():
    assert "(gp1 + gp2)" in str(pmgp.recommend(two_vectors()))
    with pytest.raises(pmgp.ModelError, match=r"second latent process besides 'g': 'f' .*summed covariance"):
        pmgp.recommend(two_vectors(), latent="g")


def test_the_model_of_the_context_is_taken():
    with fixed(probit) as model:
        assert pmgp.recommend().model is model


def test_models_without_a_latent_process_are_refused():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), observed=0.0)
    with pytest.raises(pmgp.ModelError, match="no latent multivariate normal"):
        pmgp.recommend(model)


def test_a_whitened_process_is_refused_with_a_hint():
    with pm.Model() as model:
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(D, ls=1.0)).prior("f", X=X)
        probit(f)
    with pytest.raises(pmgp.ModelError, match="reparameterize=False"):
        pmgp.recommend(model)


def test_an_unknown_latent_vector_is_refused():
    with pytest.raises(pmgp.ModelError, match="'h' is not a free"):
        pmgp.recommend(two_vectors(), latent="h")


def test_outputs_of_one_process_are_f_together():
    model = pmgp.models.multiclass_classifier(X, np.arange(N) % 3, ["first", "second", "third"])
    assert pmgp.recommend(model).code == "pmgp.PseudoMarginal()"
