"""PseudoMarginal beside step methods for variables that only the likelihood depends on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from types import MethodType

import arviz as az
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_array_equal
from scipy.special import expit
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.pseudo_marginal import State
from pmgp.interface.steps.pseudo_marginal import PseudoMarginal
from tests import mean_changes

SIZE = 6
# A poor q, so that importance weights differ.
ONE_STEP = Laplace(tolerance=1e6, sweeps=0)
INPUTS = np.linspace(-1.5, 1.5, SIZE)[:, None]
JITTER = 1e-3
# Of log lengthscale and log variance: labels of so large a process make Laplace's q a poor one.
CENTER, SCALE = np.array([0.0, 2.0]), np.array([0.5, 0.7])


def joint_model() -> pm.Model:
    """Theta, f and labels, none of them observed: the labels are for another step method.

    Theta and f alone have their prior distribution, and each label the probability that f gives it.
    """
    with pm.Model() as model:
        lengthscale, variance = (pm.LogNormal(n, m, s) for n, m, s in zip("lv", CENTER, SCALE, strict=True))
        covariance = variance * pm.gp.cov.ExpQuad(1, ls=lengthscale) + pm.gp.cov.WhiteNoise(np.sqrt(JITTER))
        f = pm.gp.Latent(cov_func=covariance).prior("f", X=INPUTS, jitter=0.0, reparameterize=False)
        labels = pm.Bernoulli("labels", 0.5, shape=SIZE, initval=np.array([0, 1, 1, 0, 1, 1]))
        pm.Potential("likelihood", pm.logp(pm.Bernoulli.dist(logit_p=f), labels))
    return model


@pytest.fixture(autouse=True)
def quietly(caplog):
    caplog.set_level(logging.ERROR, "pymc")


class Unshared:
    """Importance sampling whose draws are not shared with moves of f, as those of other estimators."""

    draws = 2
    _sampling = ImportanceSampling(draws=2)

    def estimate(self, *arguments):
        return self._sampling.estimate(*arguments)

    def estimate_given(self, *arguments):
        return self._sampling.estimate_given(*arguments)


ESTIMATORS = {"shared draws": ImportanceSampling(draws=2), "draws of its own": Unshared()}


@cache
def made(estimator: str) -> tuple[PseudoMarginal, dict[str, np.ndarray]]:
    """A step of few particles, and where chains begin; each of them forgets the one before."""
    model = joint_model()
    step = pmgp.PseudoMarginal(model=model, approximation=ONE_STEP, estimator=ESTIMATORS[estimator])
    return step, model.initial_point()


def tuned(estimator: str) -> PseudoMarginal:
    """A step that has been tuned beside draws of the labels."""
    step, start = made(estimator)
    rng, point = np.random.default_rng(1), dict(start)
    step.setup_chain(rng, 200, 10**6)
    for _ in range(200):
        point["labels"] = drawn_labels(rng, point["f"])
        point, _ = step.step(point)
    step.stop_tuning()
    return step


def drawn_labels(rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
    return (rng.uniform(size=f.shape) < expit(f)).astype(int)


def drawn_jointly(rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return independent draws of theta, f and the labels: (number, 2), (number, n) and (number, n) arrays."""
    theta = CENTER + SCALE * rng.standard_normal((number, 2))
    lengthscale, variance = np.exp(theta.T)[..., None, None]
    covariance = variance * np.exp(-0.5 * np.square(INPUTS - INPUTS.T) / lengthscale**2) + JITTER * np.eye(SIZE)
    f = (np.linalg.cholesky(covariance) @ rng.standard_normal((number, SIZE, 1)))[..., 0]
    return theta, f, drawn_labels(rng, f)


def statistics(theta: np.ndarray, f: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return statistics that tie theta, f and the labels to each other: (..., 10)."""
    f = f * np.exp(-0.5 * theta[..., 1:])
    size, first, last = np.square(f).mean(axis=-1), f[..., 0], f[..., 5]
    of_theta = [*np.moveaxis(theta, -1, 0), *np.moveaxis(theta, -1, 0) ** 2]
    of_f = [f.mean(axis=-1), size, first * last, theta[..., 1] * size]
    return np.stack([*of_theta, *of_f, (labels * f).sum(axis=-1), labels[..., 0] == labels[..., 5]], axis=-1)


@cache
def expected_statistics() -> np.ndarray:
    """Return means over so many independent draws that their errors do not count."""
    return statistics(*drawn_jointly(np.random.default_rng(2), 100_000)).mean(axis=0)


def largest_change(step: PseudoMarginal, replicates: int, repeats: int, seed: int = 1) -> float:
    """Return the largest change that some iterations make to a mean, in standard errors; see `mean_changes`.

    An iteration draws all labels given f, and then makes a step.
    """
    rng = np.random.default_rng(seed)
    theta, f, labels = drawn_jointly(rng, replicates)
    before, after = statistics(theta, f, labels), np.empty((replicates, 10))
    for row, at, values, first in zip(after, theta, f, labels, strict=True):
        point = {"l_log__": at[:1].reshape(()), "v_log__": at[1:].reshape(()), "f": values, "labels": first}
        begin(step, point)
        for _ in range(repeats):
            point["labels"] = drawn_labels(rng, point["f"])
            point, _ = step.step(point)
        point["labels"] = drawn_labels(rng, point["f"])
        row[:] = statistics(np.array([point["l_log__"], point["v_log__"]]), point["f"], point["labels"])
    return mean_changes.largest_change(before, after, expected_statistics())


def begin(step: PseudoMarginal, point: dict[str, np.ndarray]) -> None:
    """Put the chain where theta and f are, with all other particles drawn given these."""
    whole = step.latent_model.ravel(point)
    step.theta, step.latent = whole[step._moving.moved], point["f"]
    step.chain = State(step.theta, step.latent, 0.0, 1.0, 0)
    PseudoMarginal._follow(step, whole)


BOUND = 4.0
# Replicates and repeats that reject every twin, and fewer, which reject the twins of what the estimators do not share.
MANY, FEW = (700, 16), (400, 8)


@pytest.mark.parametrize(("estimator", "size"), [("shared draws", MANY), ("draws of its own", FEW)])
def test_theta_f_and_the_others_keep_their_joint_distribution(estimator, size):
    assert largest_change(tuned(estimator), *size) < BOUND


def keeping_the_estimate(step: PseudoMarginal, theta: np.ndarray) -> None:
    step.given, step._current = theta, None


def drawing_all_anew(step: PseudoMarginal, theta: np.ndarray) -> None:
    step.given, step._current = theta, None
    ready = step._current = step._ready(step.frozen.predictor)
    step.chain = step.scheme.init(step.rng, ready.payload, step.frozen)


def retaining_another(step: PseudoMarginal, theta: np.ndarray) -> None:
    """The particle of the estimate before, and not the f that the others were moved given."""
    step.given, step._current = theta, None
    ready = step._current = step._ready(step.frozen.predictor)
    step.chain = step.scheme.refresh(step.rng, step.chain, ready.payload, step.frozen)


TWINS: dict[Callable, tuple[int, int]] = {
    keeping_the_estimate: MANY,
    drawing_all_anew: FEW,
    retaining_another: FEW,
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_are_rejected(twin, monkeypatch):
    step = tuned("shared draws")
    monkeypatch.setattr(step, "_follow", MethodType(twin, step))
    assert largest_change(step, *TWINS[twin]) > 1.5 * BOUND


X = np.linspace(0.0, 4.0, 24)[:, None]
SECOND = X[:, 0] > 2.0
Y = np.sin(2.0 * X[:, 0]) + 1.5 * SECOND + 0.8 * np.random.default_rng(3).normal(size=len(X))
SETTINGS = {"progressbar": False, "compute_convergence_checks": False}
QUIET = {"progressbar": False, "quiet": True}


def switched(inside_prior: bool = False) -> pm.Model:
    """Observations that may be shifted in the second half."""
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.0, 0.5)
        switch = pm.Bernoulli("switch", 0.2)
        variance = 1.0 + switch if inside_prior else 1.0
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(1, ls=lengthscale))
        f = gp.prior("f", X=X, reparameterize=False)
        pm.Normal("y", f + 0.5 * switch * SECOND, 0.8, observed=Y)
    return model


def probability_of_the_switch() -> float:
    """By quadrature over the lengthscale."""
    grid, distances = np.linspace(-2.5, 2.5, 101), np.square(X - X.T)
    evidence = np.zeros(2)
    for x in grid:
        covariance = np.exp(-0.5 * distances / np.exp(2.0 * x)) + 0.8**2 * np.eye(len(X))
        for switch in (0, 1):
            density = multivariate_normal(0.5 * switch * SECOND, covariance).pdf(Y)
            evidence[switch] += np.exp(-0.5 * (x / 0.5) ** 2) * density
    return 0.2 * evidence[1] / (0.8 * evidence[0] + 0.2 * evidence[1])


def test_a_switch_has_its_posterior_probability():
    expected = probability_of_the_switch()
    with switched():
        idata = pm.sample(1500, tune=500, step=pmgp.PseudoMarginal(), chains=2, random_seed=1, **SETTINGS)
    found = idata["posterior"]["switch"]
    error = float(az.mcse(found))
    assert abs(float(found.mean()) - expected) < 4.0 * error
    # The prior probability is far away.
    assert abs(0.2 - expected) > 8.0 * error


def test_a_stored_run_goes_on_as_if_it_had_not_ended(tmp_path):
    options = {"tune": 20, "chains": 2, "cores": 1, "random_seed": 1, **QUIET}
    whole = pmgp.sample(switched(), draws=30, **options)
    pmgp.sample(switched(), draws=12, out=tmp_path / "run", **options)
    resumed = pmgp.resume(tmp_path / "run", switched(), draws=30, **QUIET)
    for name in ("lengthscale", "f", "switch"):
        assert_array_equal(resumed["posterior"][name], whole["posterior"][name])
    assert 0 < whole["posterior"]["switch"].mean() < 1


def test_continuous_variables_are_left_where_others_are_named():
    with pm.Model() as model:
        lengthscale, noise = pm.LogNormal("lengthscale"), pm.HalfNormal("noise")
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=lengthscale)).prior("f", X=X, reparameterize=False)
        pm.Normal("y", f, noise, observed=np.sin(X[:, 0]))
        steps = [pmgp.PseudoMarginal([lengthscale]), pm.Slice([noise])]
        idata = pm.sample(20, tune=20, step=steps, chains=1, random_seed=1, **SETTINGS)
    assert [value.name for value in steps[0].vars] == ["lengthscale_log__", "f"]
    for name in ("lengthscale", "noise", "f"):
        assert float(idata["posterior"][name].std()) > 0.0
    prediction = pmgp.predict(idata, [[1.0]], model=model, progressbar=False)
    assert np.isfinite(prediction["mean"]).all()


def test_what_cannot_be_left_is_refused():
    with pytest.raises(pmgp.ModelError, match="hyper-parameters must be continuous; these are not: switch"):
        pmgp.PseudoMarginal(model=switched(inside_prior=True))
    with pytest.raises(ValueError, match="refresh_every must be 1 beside another step method, not 3"):
        pmgp.PseudoMarginal(model=switched(), refresh_every=3)
    model, known = switched(), without_lengthscale()
    with pytest.raises(pmgp.ModelError, match="PseudoMarginal has no hyper-parameter to move beside 'f'"):
        pmgp.PseudoMarginal([known["f"]], model=known)
    for refusing in (pmgp.find_map, pmgp.importance, pmgp.steps.Ancillary):
        with pytest.raises(pmgp.ModelError, match="must be continuous; these are not: switch"):
            refusing(model=model)


def without_lengthscale() -> pm.Model:
    with pm.Model() as model:
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0)).prior("f", X=X, reparameterize=False)
        pm.Normal("y", f + pm.Bernoulli("switch", 0.3), 1.0, observed=Y)
    return model


def test_variables_are_given_by_name_and_foreign_ones_are_refused(probit_model):
    step = pmgp.PseudoMarginal(["lengthscale", "variance"], model=probit_model)
    assert {value.name for value in step.vars} == {"lengthscale_log__", "variance_log__", "f"}
    with pm.Model():
        other = pm.Normal("other")
    for foreign, name in ((other, "other"), (probit_model["y"], "y"), ("nothing", "nothing")):
        with pytest.raises(pmgp.ModelError, match=f"continuous free variables of the model, which {name} is not"):
            pmgp.PseudoMarginal([*probit_model.free_RVs, foreign], model=probit_model)
    with pytest.raises(pmgp.ModelError, match="of the model, which switch is not"):
        pmgp.PseudoMarginal([(model := switched())["lengthscale"], model["switch"]], model=model)
