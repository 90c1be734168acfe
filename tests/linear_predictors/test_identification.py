"""Parts that the data cannot tell apart are named where only wide priors separate them, and nowhere else."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.interface.model.identification import unidentified
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.taking_apart import take_apart

GROUP, TIME = np.arange(12) % 3, np.arange(12) // 3
COUNTS = np.arange(12) % 4


def model_of(level=lambda: pm.Normal("level", 0, 10), first=100.0, more=lambda tau: 0.0) -> pm.Model:
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        u = pm.Normal("u", 0, tau, shape=3)
        s = pm.GaussianRandomWalk("s", sigma=tau, init_dist=pm.Normal.dist(0, np.float64(first)), shape=4)
        pm.Poisson("y", pm.math.exp(level() + u[GROUP] + s[TIME] + more(tau)), observed=COUNTS)
    return model


def found_in(model: pm.Model) -> str | None:
    return unidentified(model, take_apart(model))


def same_index(tau):
    return pm.Normal("v", 0, 2.0 * tau, shape=3)[GROUP]


def flat_and_shift():
    return pm.Flat("level") + pm.Flat("shift")


def test_wide_levels_of_two_parts_are_named():
    assert "only the sum of 'level' (10), 's' (100)" in (found_in(model_of()) or "")
    assert "only the sum of 'level' (inf), 's' (100)" in (found_in(model_of(lambda: pm.Flat("level"))) or "")
    both = found_in(model_of(first=0.5, more=same_index))
    assert (both or "").startswith("'u' and 'v' are independent effects over the same index")


def test_what_priors_separate_is_not_named():
    """A twin of the warning that always speaks would fail here."""
    assert found_in(model_of(first=0.5)) is None
    assert found_in(model_of(lambda: 0.0)) is None
    assert found_in(model_of(lambda: pm.Normal("level", 0, 2))) is None
    slope = lambda tau: pm.Normal("slope", 0, 50) * np.linspace(-1, 1, 12)  # noqa: E731
    assert found_in(model_of(first=0.5, more=slope)) is None


def test_groups_of_one_size_by_other_indices_are_told_apart():
    other = lambda tau: pm.Normal("v", 0, 2.0 * tau, shape=3)[np.roll(GROUP, 1) - (GROUP == 0)]  # noqa: E731
    assert found_in(model_of(first=0.5, more=other)) is None


def test_shifts_have_the_standard_deviation_of_the_prior():
    """The mean of pm.ICAR has that of its sum over the number of areas; a scale before it multiplies."""
    ring = np.roll(np.eye(4), 1, axis=1) + np.roll(np.eye(4), -1, axis=1)
    with pm.Model() as model:
        sigma, tau = pm.HalfNormal("sigma", 1), pm.HalfNormal("tau", 1)
        u = pm.Normal("u", 0, tau, shape=3)
        phi = pm.ICAR("phi", W=ring, zero_sum_stdev=0.3)
        pm.Poisson("y", pm.math.exp(u[GROUP] + sigma * phi[TIME]), observed=COUNTS)
    parts = take_apart(model)
    theta = parts.ravel(model.initial_point() | {"sigma_log__": np.log(1.7), "tau_log__": np.log(0.6)})
    found = parts.latent_prior.shifts(theta, slice(None))
    assert found == pytest.approx({"u": 0.6 / np.sqrt(3.0), "phi": 1.7 * 0.3})


def random_model(rng: np.random.Generator, level: float, first: float) -> tuple[pm.Model, np.ndarray]:
    """A level, groups and a walk of random sizes, and the design of all of them."""
    groups, times, number = int(rng.integers(3, 7)), int(rng.integers(4, 9)), 40
    group, time = rng.integers(groups, size=number), rng.integers(times, size=number)
    with pm.Model() as model:
        tau, base = pm.HalfNormal("tau", 1), pm.Normal("level", 0, level)
        u = pm.Normal("u", 0, tau, shape=groups)
        s = pm.GaussianRandomWalk("s", sigma=tau, init_dist=pm.Normal.dist(0, np.float64(first)), shape=times)
        pm.Poisson("y", pm.math.exp(base + u[group] + s[time]), observed=rng.poisson(2.0, size=number))
    return model, np.hstack([np.ones((number, 1)), np.eye(groups)[group], np.eye(times)[time]])


def deviation_of_level(model: pm.Model, design: np.ndarray, level: float, first: float) -> float:
    """The level's posterior standard deviation if each observation has a unit of information, by dense algebra."""
    point = model.initial_point()
    tau, groups, times = np.exp(point["tau_log__"]), len(point["u"]), len(point["s"])
    steps = np.diff(np.eye(times), axis=0)
    walk = steps.T @ steps / tau**2 + np.eye(times, 1) @ np.eye(1, times) / first**2
    precision = np.zeros((design.shape[1],) * 2)
    precision[0, 0], precision[-times:, -times:] = level**-2, walk
    precision[1 : groups + 1, 1 : groups + 1] = np.eye(groups) / tau**2
    return float(np.sqrt(np.linalg.inv(precision + design.T @ design)[0, 0]))


@pytest.mark.parametrize(("seed", "level", "first"), [(1, 30.0, 60.0), (2, 0.5, 60.0), (3, 30.0, 0.5)])
def test_random_sums_are_named_where_dense_algebra_finds_the_data_silent(seed, level, first):
    model, design = random_model(np.random.default_rng(seed), level, first)
    deviation, found = deviation_of_level(model, design, level, first), found_in(model)
    assert not 3.0 < deviation < 10.0
    assert (found is not None) == (deviation > 10.0)


def test_an_improper_posterior_is_refused():
    with pytest.raises(ModelError, match=r"posterior is improper.*'level', 'shift'.*normal priors"):
        take_apart(model_of(flat_and_shift))


def test_descriptions_and_steps_say_so():
    model = model_of()
    assert "only the sum of 'level' (10), 's' (100)" in pmgp.describe(model).computation["not identified"]
    with model, pytest.warns(UserWarning, match=r"leave out a level beside it"):
        pmgp.PseudoMarginal()
    with model_of(first=0.5), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        pmgp.PseudoMarginal()
