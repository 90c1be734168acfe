"""O(n^3) operations of an iteration, beside Table 1 of the comparative evaluation.

The table counts what a transition of theta needs while everything else stands still. Between two transitions f moves:
what depends on f as well as on theta, as the metric of the ancillary augmentation does, is computed twice.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED

FAST = {"mode": INTERPRETED}
N = 15
D = 3
TUNE = 30


@cache
def model(inverse_gamma: bool = False) -> pm.Model:
    """Three length-scales and no other hyper-parameter, as the table has it; or a conjugate variance besides."""
    rng = np.random.default_rng(0)
    with pm.Model() as built:
        lengthscale = pm.Gamma("lengthscale", 2.0, 2.0, shape=D)
        variance = pm.InverseGamma("variance", 3.0, 2.0) if inverse_gamma else 2.0
        kernel = pm.gp.cov.ExpQuad(D, ls=lengthscale) + pm.gp.cov.WhiteNoise(1e-2)
        f = pm.gp.Latent(cov_func=variance * kernel).prior(
            "f", X=rng.normal(size=(N, D)), reparameterize=False, jitter=0.0
        )
        pmgp.BernoulliLogit("y", f, observed=rng.integers(0, 2, size=N))
    return built


class Iteration:
    """What one iteration did: whether theta moved, its evaluations, and (#C, #I, #M) of each step."""

    def __init__(self, moved, evaluations, theta_counts, latent_counts):
        self.moved = moved
        self.evaluations = evaluations
        self.theta = theta_counts
        self.latent = latent_counts


def counts_of(stats) -> tuple[int, int, int]:
    return stats["n_cholesky"], stats["n_inverse"], stats["n_matmul"]


def iterations(scheme, latent=None, built=None, length: int = 40, **settings) -> list[Iteration]:
    """Iterations after tuning, the first one left out: it computes what later ones find."""
    built = built or model()
    arguments = {"model": built, "compile_kwargs": FAST}
    theta_step = scheme(**arguments, **settings)
    latent_step = latent(**arguments) if latent is not None else pmgp.EllipticalSlice(**arguments)
    theta_step.setup_chain(np.random.default_rng(1), TUNE, length)
    latent_step.setup_chain(np.random.default_rng(2), TUNE, length)
    parts = theta_step.model.parts
    point = built.initial_point()
    point["f"] = parts.prior(parts.ravel(point)).sample(np.random.default_rng(3), 1)[0]
    rows = []
    for iteration in range(TUNE + length):
        if iteration == TUNE:
            theta_step.stop_tuning()
            latent_step.stop_tuning()
        before = parts.ravel(point)
        point, (of_theta,) = theta_step.step(point)
        moved = not np.array_equal(parts.ravel(point), before)
        point, (of_f,) = latent_step.step(point)
        rows.append(Iteration(moved, of_theta["n_evaluations"], counts_of(of_theta), counts_of(of_f)))
    assert any(row.moved for row in rows[TUNE:])
    return rows[TUNE:]


def theta_counts(rows: list[Iteration]) -> set[tuple[int, int, int]]:
    return {row.theta for row in rows}


def test_metropolis_with_ancillary_augmentation():
    """T C."""
    assert theta_counts(iterations(pmgp.steps.Ancillary)) == {(1, 0, 0)}


def test_metropolis_with_sufficient_augmentation():
    """T C."""
    assert theta_counts(iterations(pmgp.steps.Sufficient)) == {(1, 0, 0)}


def test_metropolis_with_interweaving():
    """2 T C: nothing for the second augmentation beside its own proposal."""
    assert theta_counts(iterations(pmgp.steps.Interweaving)) == {(2, 0, 0)}


def test_surrogate_data():
    """2 T C and T I: the surrogate's own, of the proposal only."""
    assert theta_counts(iterations(pmgp.steps.Surrogate)) == {(2, 1, 0)}


def test_joint_update():
    """(kappa + 1) T C, kappa Newton's steps; and a C and an I for each of two sweeps of moment matching."""
    plain = iterations(pmgp.steps.JointUpdate, approximation=pmgp.approximations.Laplace(sweeps=0))
    newton = [row.theta[0] - 1 for row in plain]
    assert {row.theta[1:] for row in plain} == {(0, 0)}
    assert 2 <= np.mean(newton) <= 10
    swept = iterations(pmgp.steps.JointUpdate, approximation=pmgp.approximations.Laplace(sweeps=2))
    assert {row.theta[1:] for row in swept} == {(2, 0)}
    assert np.mean([row.theta[0] - 3 for row in swept]) == pytest.approx(np.mean(newton), abs=1.0)


def test_hybrid_monte_carlo_with_sufficient_augmentation():
    """lambda T C and lambda T I, lambda the leapfrog steps; K^-1 of the current theta is remembered."""
    for row in iterations(pmgp.steps.Sufficient, operator="hmc"):
        assert row.theta == (row.evaluations, row.evaluations, 0)


def test_hybrid_monte_carlo_with_ancillary_augmentation():
    """(2 lambda + 1) T C where the table has (d lambda + 1) T.

    The reverse mode of the factorization costs one and not d, and the gradient at the current theta depends on f.
    """
    for row in iterations(pmgp.steps.Ancillary, operator="hmc"):
        assert row.theta == (2 * row.evaluations + 1, 0, 0)


def test_manifold_langevin_with_sufficient_augmentation():
    """T C, T I and d T M; the information of the current theta is remembered."""
    assert theta_counts(iterations(pmgp.steps.Sufficient, operator="smmala")) == {(1, 1, D)}


def test_manifold_langevin_with_ancillary_augmentation():
    """(2 d + 3) T C where the table has (d + 1) T.

    K, and at the old and at the new theta the forward mode for each element of theta, and the reverse mode once.
    """
    assert theta_counts(iterations(pmgp.steps.Ancillary, operator="smmala")) == {(2 * D + 3, 0, 0)}


def test_manifold_langevin_with_interweaving():
    """The second augmentation keeps nothing for the first one: K^-1 is that of the prior, unless theta has moved."""
    counts = theta_counts(iterations(pmgp.steps.Interweaving, operator="smmala"))
    assert counts == {(2 * D + 4, 1, 2 * D), (2 * D + 4, 2, 2 * D)}


@pytest.mark.parametrize(("scheme", "cholesky"), [(pmgp.steps.Sufficient, 1), (pmgp.steps.Interweaving, 2)])
def test_a_conjugate_variance_costs_nothing(scheme, cholesky):
    rows = iterations(scheme, built=model(inverse_gamma=True))
    assert theta_counts(rows) == {(cholesky, 0, 0)}
    assert all(row.moved for row in rows)


def test_an_inverse_is_scaled_with_a_conjugate_variance():
    """One inversion, that of the proposal; the products are made again for the mean's sake."""
    rows = iterations(pmgp.steps.Sufficient, built=model(inverse_gamma=True), operator="smmala")
    assert theta_counts(rows) == {(1, 1, 2 * (D + 1))}


# The prior is shared


@pytest.mark.parametrize(
    "scheme", [pmgp.steps.Ancillary, pmgp.steps.Sufficient, pmgp.steps.Interweaving, pmgp.steps.JointUpdate]
)
@pytest.mark.parametrize(
    "latent",
    [
        pmgp.EllipticalSlice,
        pmgp.steps.LatentMetropolis,
        lambda **settings: pmgp.steps.LatentHMC(mass="prior", **settings),
        lambda **settings: pmgp.steps.LatentHMC(mass="identity", **settings),
    ],
)
def test_steps_for_f_find_the_factor(scheme, latent):
    """One factorization a proposal in all."""
    assert {row.latent for row in iterations(scheme, latent)} == {(0, 0, 0)}


def test_surrogate_data_leave_the_factor_of_the_prior_to_others():
    """They do not need it themselves; whoever does makes it, where theta has moved."""
    for row in iterations(pmgp.steps.Surrogate, lambda **settings: pmgp.steps.LatentHMC(mass="prior", **settings)):
        assert row.latent == ((1, 0, 0) if row.moved else (0, 0, 0))


def test_preconditioned_hybrid_monte_carlo_of_f():
    """The mass "posterior": two factorizations and one inversion where theta has moved."""
    rows = iterations(pmgp.steps.Ancillary, pmgp.steps.LatentHMC)
    assert {(row.moved, row.latent) for row in rows} == {(True, (2, 1, 0)), (False, (0, 0, 0))}


def test_manifold_langevin_of_f_does_nothing_again_where_theta_stays():
    """A proposal needs its metric; the inverse and the metric at the old f are known unless theta has moved."""
    rows = iterations(pmgp.steps.Ancillary, pmgp.steps.LatentSMMALA)
    assert {(row.moved, row.latent) for row in rows} == {(True, (2, 1, 0)), (False, (1, 0, 0))}


def test_an_inverse_is_shared_as_well():
    """Sufficient augmentation with manifold Langevin has inverted K already."""
    rows = iterations(pmgp.steps.Sufficient, pmgp.steps.LatentSMMALA, operator="smmala")
    assert {row.latent for row in rows} <= {(2, 0, 0), (1, 0, 0)}
