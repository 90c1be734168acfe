"""Models as new users write them, refused with the true cause: what is wrong is named, and nothing else is blamed."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.exceptions import ImputationWarning, SamplingError
from pytensor.compile.ops import wrap_py

import pmgp
from pmgp.core.transitions.mixture import IndependenceMixture
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.steps import transitions
from tests.steps.test_contract import FAST

N = 12
RNG = np.random.default_rng(21)
X = RNG.normal(size=(N, 2))
LABELS = np.arange(N) % 2
COUNTS = RNG.poisson(1.0, size=N)
REALS = RNG.normal(size=N)


def process(name="f", X=X, lengthscale=None, columns=2, **settings):
    lengthscale = pm.Gamma("lengthscale", 2, 1) if lengthscale is None else lengthscale
    gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(columns, ls=lengthscale))
    return gp.prior(name, X=X, **{"reparameterize": False} | settings)


def with_value(row: int, column: int, value: float) -> np.ndarray:
    changed = X.copy()
    changed[row, column] = value
    return changed


def labels_of_another_code():
    pm.Bernoulli("y", logit_p=process(), observed=2 * LABELS)


def negative_counts():
    pm.Poisson("y", mu=pt.exp(process()), observed=np.where(np.arange(N) == 7, -3, COUNTS))


def zero_amounts():
    pm.Gamma("y", alpha=2.0, beta=pt.exp(process()), observed=np.where(np.arange(N) < 7, -1.0, 1.0))


def inputs_with_nan():
    pm.Bernoulli("y", logit_p=process(X=with_value(3, 1, np.nan)), observed=LABELS)


def data_with_infinity():
    pm.Bernoulli("y", logit_p=process(X=pm.Data("inputs", with_value(3, 1, np.inf))), observed=LABELS)


def closed_form_with_nan():
    pmgp.BernoulliProbit("y", process(X=with_value(5, 0, np.nan)), observed=LABELS)


def too_few_labels():
    pm.Bernoulli("y", logit_p=process(), observed=LABELS[1:])


def too_few_labels_as_data():
    pm.Bernoulli("y", logit_p=process(X=pm.Data("X", X)), observed=pm.Data("labels", LABELS[1:]))


def too_few_labels_of_a_closed_form():
    pmgp.BernoulliProbit("y", process(X=pm.Data("X", X)), observed=pm.Data("labels", LABELS[1:]))


def a_column_of_labels():
    pm.Bernoulli("y", logit_p=process(), observed=LABELS[:, None])


def a_column_of_labels_as_data():
    pm.Bernoulli("y", logit_p=process(X=pm.Data("X", X)), observed=pm.Data("labels", LABELS[:, None]))


def a_column_of_labels_of_a_closed_form():
    pmgp.BernoulliProbit("y", process(X=pm.Data("X", X)), observed=LABELS[:, None])


def basis_functions():
    gp = pm.gp.HSGP(m=[5, 5], c=1.5, cov_func=pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 2, 1)))
    pm.Bernoulli("y", logit_p=gp.prior("f", X=X), observed=LABELS)


def a_kronecker_covariance():
    kernels = [pm.gp.cov.ExpQuad(1, ls=pm.Gamma("lengthscale", 2, 1)), pm.gp.cov.ExpQuad(1, ls=1.0)]
    grid = [np.arange(3.0)[:, None], np.arange(4.0)[:, None]]
    pm.Normal("y", pm.gp.LatentKron(cov_funcs=kernels).prior("f", Xs=grid), 1.0, observed=REALS)


def an_observed_process(y=REALS):
    gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 2, 1)))
    gp.marginal_likelihood("y", X=pm.Data("X", X), y=y, sigma=0.3)


def a_student_t_process():
    gp = pm.gp.TP(scale_func=pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 2, 1)), nu=5)
    pm.Normal("y", gp.prior("f", X=X, reparameterize=False), 0.3, observed=REALS)


def a_conditional():
    gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 2, 1)))
    pm.Bernoulli("y", logit_p=gp.prior("f", X=X, reparameterize=False), observed=LABELS)
    gp.conditional("new", X[:3] + 1.0)


def an_ordered_process():
    f = process(transform=pm.distributions.transforms.ordered, initval=0.1 * np.arange(N))
    pm.Normal("y", f, 0.3, observed=REALS)


def ordered_effects_of_groups():
    factor, _, _ = pm.LKJCholeskyCov("factor", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1))
    ordered = {"transform": pm.distributions.transforms.ordered, "initval": np.tile([0.0, 1.0], (4, 1))}
    effects = pm.MvNormal("effects", np.zeros(2), chol=factor, shape=(4, 2), **ordered)
    pm.Poisson("y", pt.exp(effects[np.arange(N) % 4, 0]), observed=COUNTS)


def a_part_of_the_data():
    pm.Normal("y", process(), 0.3, observed=REALS, total_size=50)


def a_part_of_the_data_in_closed_form():
    pmgp.BernoulliProbit("y", process(), observed=LABELS, total_size=50)


def a_noisy_copy():
    pm.Normal("y", pm.Normal("copy", process(), 0.3), 0.3, observed=REALS)


def forgotten_observations():
    pm.Poisson("y", pm.math.exp(process()))


def observations_of_others():
    """An observation depends on one process here, and on functions of the other one everywhere before."""
    lengthscale = pm.Gamma("lengthscale", 2, 1)
    first, second = (process(name, lengthscale=lengthscale) for name in "ab")
    pm.Poisson("y", mu=pt.exp(first) + pt.exp(second).cumsum(), observed=COUNTS)


def a_process_about_another():
    first = process("a")
    covariance = np.eye(N)
    second = pm.MvNormal("b", first, cov=covariance)
    pm.Poisson("y", mu=pt.exp(second), observed=COUNTS)


@wrap_py(itypes=[pt.dvector], otypes=[pt.dvector])
def without_gradient(f):
    return np.exp(f)


def an_operation_without_gradient():
    pm.Poisson("y", mu=without_gradient(process()), observed=COUNTS)


def a_function_without_gradient():
    pm.Rice("y", nu=pm.math.exp(process()), sigma=1.0, observed=COUNTS + 1.0)


def one_group():
    pm.Poisson("y", pt.exp(pm.Normal("u", 0.0, pm.HalfNormal("tau"), shape=1)[np.zeros(N, int)]), observed=COUNTS)


def groups_that_are_counted_from_one():
    u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), shape=4)
    pm.Poisson("y", pt.exp(u[1 + np.arange(N) % 4]), observed=COUNTS)


def data_that_are_counted_from_one():
    pm.modelcontext(None).add_coord("group", range(4))
    u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), dims="group")
    pm.Poisson("y", pt.exp(u[pm.Data("of", 1 + np.arange(N) % 4)]), observed=COUNTS)


def effects_with_heavy_tails():
    u = pm.StudentT("u", nu=3.0, mu=0.0, sigma=pm.HalfNormal("tau"), shape=4)
    pm.Poisson("y", pt.exp(u[np.arange(N) % 4]), observed=COUNTS)


def two_series_at_times():
    scale = pm.HalfNormal("scale", 1.0)
    gps = [pmgp.gp.Markov(cov_func=scale**2 * pm.gp.cov.Matern32(1, ls=ls)) for ls in (1.0, 4.0)]
    f, h = (gp.prior(name, X=np.arange(N)) for name, gp in zip("fh", gps, strict=True))
    pm.Poisson("y", pt.exp(f + h), observed=COUNTS)


def two_maps():
    neighbors = np.eye(N, k=1) + np.eye(N, k=-1)
    f, h = (pm.ICAR(name, W=neighbors) for name in "fh")
    pm.Poisson("y", pt.exp(pm.HalfNormal("tau") * f + h), observed=COUNTS)


REFUSED = {
    labels_of_another_code: r"'y' is -inf for the observations in rows 1, 3, 5, 7, 9 and 1 more \(2, 2, 2, 2, 2\)",
    negative_counts: r"'y' is -inf for the observations in row 7 \(-3\) .*outside the support",
    zero_amounts: r"'y' is -inf for the observations in rows 0, 1, 2, 3, 4 and 2 more \(-1\.0, -1",
    inputs_with_nan: r"inputs X of 'f', of shape \(12, 2\), .* not finite in row 3;",
    data_with_infinity: r"inputs 'inputs' of 'f', of shape \(12, 2\), .* not finite in row 3;",
    closed_form_with_nan: r"inputs X of 'f', .* not finite in row 5;",
    too_few_labels: r"'y' has observations of shape \(11,\), but 'f' has shape \(12,\)",
    too_few_labels_as_data: r"'y' has observations of shape \(11,\), but 'f' has shape \(12,\)",
    too_few_labels_of_a_closed_form: r"'y' has observations of shape \(11,\), but 'f' has shape \(12,\)",
    a_column_of_labels: r"'y' has observations of shape \(12, 1\), but 'f' has shape \(12,\).*observed=y\.ravel",
    a_column_of_labels_as_data: r"'y' has observations of shape \(12, 1\), but 'f' has .*observed=y\.ravel",
    a_column_of_labels_of_a_closed_form: r"'y' has observations of shape \(12, 1\), but 'f' has .*observed=y\.ravel",
    basis_functions: "'f_hsgp_coeffs' are the coefficients of an HSGP.* PyMC's NUTS",
    a_kronecker_covariance: r"'f_rotated_' is a whitened .*pm\.gp\.LatentKron.* pm\.math\.cartesian",
    an_observed_process: r"the multivariate normal one is observed\. In a model of pm\.gp\.Marginal.*'log_evidence'",
    a_student_t_process: "'f' is multivariate Student t",
    a_conditional: r"free variables new depend on 'f'.*after sampling.*var_names=\['new'\]",
    one_group: r"'u' is normal and has one element: latent=\['u'\]",
    groups_that_are_counted_from_one: r"an index of 'u' is 4 in row 3, .*last element of 4: they are counted from 0",
    data_that_are_counted_from_one: r"an index of 'u' in 'of' is 4 in row 3, .*last element of 4: .*model\.set_dim",
    effects_with_heavy_tails: "'u' is not normal, and only normal effects are integrated out",
    two_series_at_times: "Several pmgp.gp.Markov at the same times are one with the sum of their kernels",
    two_maps: "f, h are several pm.ICAR, but a model may have only one: write the others as pm.CAR",
    an_ordered_process: "'f' has a transform, so it is not normal: leave that out",
    ordered_effects_of_groups: "'effects' has a transform",
    a_part_of_the_data: "'y' has a total_size.*leave that out, and observe all data",
    a_part_of_the_data_in_closed_form: "'y' has a total_size",
    a_noisy_copy: "free variables copy depend on 'f'.*WhiteNoise.*pmgp.recommend",
    forgotten_observations: r"free variables y depend on 'f'.*No data depend on these: .*give observed=",
    observations_of_others: "the likelihood does not factorize over 'a, b': some .* one latent value of each vector",
    a_process_about_another: "the latent variable 'b' depends on 'a': .* independent of each other a priori",
    a_function_without_gradient: "an operation in the model has no gradient in 'f'",
    an_operation_without_gradient: "an operation in the model has no gradient in 'f'",
}


@pytest.mark.parametrize("build", REFUSED, ids=lambda build: build.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_cause_is_named(build):
    with pm.Model() as model:
        build()
    with pytest.raises(ModelError, match=REFUSED[build]):
        take_apart(model, compile_kwargs=FAST)


def test_a_closed_form_with_too_few_labels_is_refused_when_the_model_is_written():
    for labels, shape in ((LABELS[1:], r"\(11,\)"), (LABELS[:, None], r"\(12, 1\)")):
        with (
            pm.Model(),
            pytest.raises(ValueError, match=rf"observations of shape {shape}.*parameters of shape \(12,\)"),
        ):
            pmgp.BernoulliProbit("y", process(), observed=labels)


def test_inputs_and_labels_that_are_replaced_are_looked_at_again():
    with pm.Model() as model:
        pm.Poisson("y", pt.exp(process(X=pm.Data("inputs", X))), observed=pm.Data("counts", COUNTS))
    step = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)
    rng = np.random.default_rng(0)
    with model:
        pm.set_data({"inputs": with_value(4, 0, np.nan)})
    with pytest.raises(ModelError, match=r"inputs 'inputs' of 'f'.* not finite in row 4"):
        step.setup_chain(rng, 5, 5)
    with model:
        pm.set_data({"inputs": X, "counts": np.where(np.arange(N) == 2, -1, COUNTS)})
    with pytest.raises(ModelError, match=r"observations in row 2 \(-1\)"):
        step.setup_chain(rng, 5, 5)
    with model:
        pm.set_data({"counts": COUNTS})
    step.setup_chain(rng, 5, 5)
    assert np.isfinite(step.step(model.initial_point())[1][0]["log_marginal_likelihood"])


# A second latent process


def two_processes(whitened=False) -> pm.Model:
    with pm.Model() as model:
        one, other = process("one"), process("other", lengthscale=1.0, reparameterize=whitened)
        pm.Bernoulli("y", logit_p=one + other, observed=LABELS)
    return model


def a_process_elsewhere() -> pm.Model:
    """A second process at ten inputs, a row of which each observation belongs to."""
    with pm.Model() as model:
        other = process("other", X=np.arange(10.0)[:, None], lengthscale=2.0, columns=1)
        pm.Bernoulli("y", logit_p=process("one") + other[np.arange(N) % 10], observed=LABELS)
    return model


def an_effect_for_each_latent_value() -> pm.Model:
    with pm.Model() as model:
        other = pm.MvNormal("other", np.zeros(N), cov=0.5 * np.eye(N) + 0.5)
        pm.Normal("y", process("one"), pt.exp(other), observed=REALS)
    return model


SECOND = {
    "summed": (two_processes, r"'other' has a covariance of 12 inputs"),
    "whitened": (lambda: two_processes(whitened=True), "'other_rotated_' is a whitened Gaussian process"),
    "at other inputs": (a_process_elsewhere, r"'other' has a covariance of 10 inputs"),
    "as long": (an_effect_for_each_latent_value, "'other' is as long, with one element for each observation"),
}


@pytest.mark.parametrize("case", SECOND)
def test_a_second_process_is_no_hyperparameter(case):
    make, reason = SECOND[case]
    model = make()
    message = f"second latent process besides 'one': {reason}.*summed covariance"
    with pytest.raises(ModelError, match=message):
        pmgp.PseudoMarginal(latent="one", model=model, compile_kwargs=FAST)
    with pytest.raises(ModelError, match=message):
        pmgp.steps.Ancillary(latent="one", model=model, compile_kwargs=FAST)
    assert pmgp.EllipticalSlice(latent="one", model=model, compile_kwargs=FAST).latent_name == "one"


@pytest.mark.parametrize("coefficients", [3, N])
def test_regression_coefficients_are_hyperparameters_however_many(coefficients):
    Z = RNG.normal(size=(N, coefficients))
    with pm.Model() as model:
        beta = pm.MvNormal("beta", np.zeros(coefficients), cov=np.eye(coefficients))
        pm.Poisson("y", pt.exp(process() + Z @ beta), observed=COUNTS)
    parts = take_apart(model, latent="f", compile_kwargs=FAST)
    assert parts.dimension == 1 + coefficients
    assert parts.sites_known


def test_coefficients_of_the_mean_function_are_hyperparameters():
    with pm.Model() as model:
        beta = pm.MvNormal("beta", np.zeros(2), cov=np.eye(2))
        gp = pm.gp.Latent(mean_func=pm.gp.mean.Linear(beta), cov_func=pm.gp.cov.ExpQuad(2, ls=1.0))
        pm.Bernoulli("y", logit_p=gp.prior("f", X=X, reparameterize=False), observed=LABELS)
    assert take_apart(model, latent="f", compile_kwargs=FAST).theta_names == ["beta"]


# Starting points


def started(model: pm.Model, point: dict | None = None) -> None:
    step = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(0), 5, 5)
    step.step(model.initial_point() | (point or {}))


def refusal(model: pm.Model, point: dict | None = None) -> str:
    with pytest.raises(SamplingError) as caught:
        started(model, point)
    return str(caught.value)


def warning(model: pm.Model, point: dict) -> str:
    """Return what a chain says that starts elsewhere."""
    with pytest.warns(UserWarning, match="a chain starts at") as caught:
        started(model, point)
    return str(caught[0].message)


def test_parameters_outside_their_domain_are_named_at_the_start():
    with pm.Model() as model:
        thresholds = pm.Normal("thresholds", 0, 1, shape=2, initval=[-1.0, 1.0])
        pmgp.OrdinalProbit("y", process(), thresholds, observed=np.arange(N) % 3)
    message = refusal(model, {"thresholds": np.array([1.0, -1.0])})
    assert "thresholds must be finite and increase strictly, found 1.0, -1.0" in message
    assert "covariance" not in message


def test_an_indefinite_covariance_is_named_with_its_eigenvalues():
    with pm.Model() as model:
        r = pm.Uniform("r", -3, 3, initval=0.1)
        f = pm.MvNormal("f", np.zeros(2), cov=pt.stack([[1.0, r], [r, 1.0]]))
        pm.Bernoulli("y", logit_p=f, observed=[0, 1])
    message = refusal(model, {"r_interval__": np.array(np.log(5.0))})
    assert "not positive definite: its eigenvalues range from -1 to 3" in message
    assert "likelihood" not in message


def test_a_covariance_that_is_not_finite_is_no_matter_of_its_inputs():
    with pm.Model() as model:
        power = pm.Normal("power")
        f = pm.MvNormal("f", np.zeros(2), cov=pt.eye(2) * pt.exp(power))
        pm.Poisson("y", pt.exp(f), observed=[0, 2])
    assert "prior covariance of 'f' is not finite in rows 0, 1, though its inputs are" in refusal(
        model, {"power": np.array(800.0)}
    )


def test_observations_that_another_parameter_makes_impossible_are_named():
    with pm.Model() as model:
        width = pm.Normal("width", 3.0, 1.0)
        pm.Uniform("y", process() - 9.0, width, observed=np.where(np.arange(N) == 4, 2.0, -2.0))
    message = warning(model, {"width": np.array(1.0)})
    assert "log-likelihood of 'y' is -inf for the observations in row 4 (2.0), wherever 'f'" in message
    assert "width=1.0" in message


def test_a_mean_that_the_likelihood_excludes_is_told_apart():
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 1.0)
        f = pm.MvNormal("f", level + np.zeros(2), cov=np.eye(2))
        pm.Potential("y", pt.switch(f > 5.0, -np.inf, -pt.square(f)))
    assert "'y' is -inf in rows 0, 1, at the prior mean of 'f'" in warning(model, {"level": np.array(6.0)})


# Gradients in the hyper-parameters


@wrap_py(itypes=[pt.dvector, pt.dscalar], otypes=[pt.dmatrix])
def exponential_kernel(inputs, scale):
    return np.exp(-scale * np.abs(inputs[:, None] - inputs))


class WithoutGradient(pm.gp.cov.Covariance):
    """A covariance function that PyTensor cannot differentiate."""

    def __init__(self, scale) -> None:
        super().__init__(1)
        self.scale = scale

    def diag(self, X):
        return pt.ones(X.shape[0])

    def full(self, X, Xs=None):
        return exponential_kernel(pt.as_tensor(X)[:, 0], self.scale)


def test_a_covariance_without_gradient_serves_where_none_is_needed(monkeypatch):
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=WithoutGradient(pm.HalfNormal("scale", 1.0)))
        pm.Bernoulli("y", logit_p=gp.prior("f", X=X[:, :1], reparameterize=False), observed=LABELS)
    step = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(0), 5, 5)
    assert np.isfinite(step.step(model.initial_point())[1][0]["log_marginal_likelihood"])
    with pytest.raises(ModelError, match=r'no gradient in the hyper-parameters .*operator="metropolis"'):
        pmgp.steps.Ancillary(operator="hmc", model=model, compile_kwargs=FAST)
    with pytest.raises(ModelError, match=r"no gradient in the hyper-parameters .*PseudoMarginal"):
        pmgp.find_map(model, compile_kwargs=FAST)
    with pytest.raises(ModelError, match=r'no gradient in the hyper-parameters .*PseudoMarginal\(proposal="mixture"\)'):
        pmgp.PseudoMarginal(proposal="hmc", model=model, compile_kwargs=FAST)
    # Nothing is said where trajectories were not asked for.
    monkeypatch.setattr(transitions, "FEW", 0)
    chosen = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST).scheme.transition
    assert isinstance(chosen, IndependenceMixture)


# Observations of pm.gp.Marginal


@pytest.mark.parametrize("used", [pmgp.find_map, pmgp.importance, pmgp.recommend, pmgp.PseudoMarginal])
def test_missing_observations_of_an_observed_process_are_named(used):
    with pm.Model() as model, pytest.warns(ImputationWarning):
        an_observed_process(np.where(np.arange(N) == 3, np.nan, REALS))
    with model, pytest.raises(ModelError, match=r"'y' are missing in row 3, and PyMC has split off y_unobserved"):
        used()


@pytest.mark.parametrize(
    "used",
    [
        pmgp.find_map,
        lambda model: pmgp.find_map(model, solver="iterative"),
        pmgp.importance,
        pmgp.recommend,
        lambda model: pmgp.predict(None, X, model=model),
    ],
)
def test_data_that_an_observed_process_cannot_have_are_named(used):
    with pm.Model() as model:
        an_observed_process(pm.Data("observed", REALS))
    model.set_data("observed", np.where(np.arange(N) == 3, np.nan, REALS))
    with pytest.raises(ModelError, match=r"the observations 'y' are missing or infinite in row 3 \(nan\)"):
        used(model)
    model.set_data("observed", REALS[:5])
    with pytest.raises(ModelError, match="there are 5 observations 'y' for 12 rows of X"):
        used(model)
