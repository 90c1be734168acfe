"""Broken twins of the operators, each with the one mistake that its name says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from pmgp.core.gaussians import DensePrior, SiteApproximation
from pmgp.core.latent_updates import (
    EllipticalSliceUpdate,
    HamiltonianUpdate,
    LangevinUpdate,
    MetropolisUpdate,
    RiemannianUpdate,
    elliptical_slice,
    hmc,
    metropolis,
)
from pmgp.core.latent_updates.coordinates import ScaledDensity, scaled_by_posterior
from pmgp.core.latent_updates.metrics import LocalMetric
from pmgp.core.numerics import linalg
from pmgp.core.transitions import hamiltonian, langevin
from pmgp.core.transitions.riemannian import Solver


def bracket_about_the_candidate(patch: pytest.MonkeyPatch) -> None:
    """The bracket shrinks to half its width about the point that was refused, not towards the current one."""

    def broken(rng, deviation, auxiliary, log_ratio, current):
        threshold = current - rng.standard_exponential()
        angle = rng.uniform(0.0, 2.0 * np.pi)
        width = 2.0 * np.pi
        for evaluations in range(1, 50):
            candidate = deviation * np.cos(angle) + auxiliary * np.sin(angle)
            value = log_ratio(candidate)
            if value > threshold:
                return candidate, value, evaluations
            width *= 0.5
            angle += width * rng.uniform(-0.5, 0.5)
        return deviation, current, evaluations

    patch.setattr(elliptical_slice, "slice_on_ellipse", broken)


def ellipse_forgets_the_mean(patch: pytest.MonkeyPatch) -> None:
    """The ellipse is drawn about zero."""

    def broken(rng, f, value, target, reference, auxiliary):
        return elliptical_slice.slice_on_ellipse(rng, f, auxiliary, lambda g: target.log_ratio(g, reference), value)

    patch.setattr(elliptical_slice, "_move", broken)


def sites_not_divided_out(patch: pytest.MonkeyPatch) -> None:
    """The whole likelihood decides, though the ellipses come from the approximation."""
    patch.setattr(SiteApproximation, "log_ratio", lambda self, likelihood, f: likelihood.log_likelihood(f))


def proposals_taken_for_symmetric(patch: pytest.MonkeyPatch) -> None:
    """Neither proposal density enters the acceptance."""
    right = langevin.metropolis_choice

    def broken(rng, current, candidate, log_ratio, evaluations):
        return right(rng, current, candidate, candidate.log_density - current.log_density, evaluations)

    for module in (hamiltonian, langevin):
        patch.setattr(module, "metropolis_choice", broken)


def metric_without_its_determinant(patch: pytest.MonkeyPatch) -> None:
    """The normalizing constants of the two proposal densities are left out."""
    patch.setattr(linalg, "log_determinant", lambda factor: 0.0)


def momentum_of_another_covariance(patch: pytest.MonkeyPatch) -> None:
    """The momentum is drawn a quarter too large for the kinetic energy that the acceptance uses."""

    class Louder:
        def __init__(self, rng):
            self.integers, self.uniform, self.random, self.rng = rng.integers, rng.uniform, rng.random, rng

        def standard_normal(self, shape):
            return 1.25 * self.rng.standard_normal(shape)

    right = hmc.hamiltonian
    patch.setattr(hmc, "hamiltonian", lambda rng, *rest: right(Louder(rng), *rest))


def trajectories_always_accepted(patch: pytest.MonkeyPatch) -> None:
    """No Metropolis correction of the discretization, except that what diverges is refused."""
    right = hamiltonian.metropolis_choice

    def broken(rng, current, candidate, log_ratio, evaluations):
        _, info = right(rng, current, candidate, log_ratio, evaluations)
        return candidate if info.acceptance_rate > 0.05 else current, info

    patch.setattr(hamiltonian, "metropolis_choice", broken)


def mass_matrix_term_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The coordinates of the mass "posterior" without (f - m)' C (f - m) / 2."""

    def broken(prior, likelihood):
        right = scaled_by_posterior(prior, likelihood)
        return ScaledDensity(right.coordinates, likelihood)

    patch.setitem(hmc.MASSES, "posterior", broken)


def prior_counted_twice(patch: pytest.MonkeyPatch) -> None:
    """Variant v2 accepts with the prior's ratio as well."""
    right = metropolis._point_of_likelihood

    def broken(target, f):
        nu = target.coordinates.whiten(f)
        point = right(target, f)
        return point._replace(log_density=point.log_density - 0.5 * float(nu @ nu))

    patch.setattr(metropolis, "_point_of_likelihood", broken)


def prior_not_counted(patch: pytest.MonkeyPatch) -> None:
    """Variant v1 accepts with the ratio of the likelihoods alone, as v2 does."""
    right = ScaledDensity.at

    def broken(self, position, gradient=False):
        point = right(self, position, gradient)
        return point._replace(log_density=point.log_density + 0.5 * float(position @ position))

    patch.setattr(ScaledDensity, "at", broken)


def autoregression_towards_zero(patch: pytest.MonkeyPatch) -> None:
    """Variant v2 shrinks f, not its deviation from the prior mean."""
    patch.setattr(
        metropolis,
        "scaled_by_prior",
        lambda prior, likelihood: ScaledDensity(DensePrior(np.zeros(prior.size), prior.covariance), likelihood),
    )


def momenta_without_their_normalizing_constant(patch: pytest.MonkeyPatch) -> None:
    """Neither log|G| / 2 in the energy nor its gradient, tr(G^-1 dG) / 2, in the force.

    Without the gradient alone a step is still reversible and keeps volume, and the acceptance makes up for it.
    """

    def broken(self, velocity):
        v = velocity.reshape(len(self.prior.parts), -1).T
        return -0.5 * self.curvature_gradient(v[:, :, None] * v[:, None, :])

    patch.setattr(LocalMetric, "force", broken)
    patch.setattr(LocalMetric, "log_determinant", 0.0)


def fixed_points_after_one_iteration(patch: pytest.MonkeyPatch) -> None:
    """The implicit steps are not solved."""
    patch.setattr(Solver, "settled", lambda self, new, old: True)


class Twin(NamedTuple):
    """A mistake, the operator that makes it, the target of `targets.py` that shows it, and in how long a chain.

    `times`: the operator's length.
    """

    breaks: Callable[[pytest.MonkeyPatch], None]
    operator: Any
    target: str
    times: float = 1.0


TWINS = [
    Twin(bracket_about_the_candidate, EllipticalSliceUpdate(), "skewed_single"),
    Twin(ellipse_forgets_the_mean, EllipticalSliceUpdate(), "conjugate"),
    Twin(sites_not_divided_out, EllipticalSliceUpdate(reference="laplace"), "skewed_pair"),
    Twin(proposals_taken_for_symmetric, LangevinUpdate(), "skewed_single"),
    Twin(metric_without_its_determinant, LangevinUpdate(), "skewed_single"),
    Twin(momentum_of_another_covariance, HamiltonianUpdate("identity"), "conjugate"),
    Twin(momentum_of_another_covariance, HamiltonianUpdate("posterior"), "skewed_pair", 2.0),
    Twin(momentum_of_another_covariance, HamiltonianUpdate("prior"), "conjugate"),
    Twin(proposals_taken_for_symmetric, HamiltonianUpdate("prior"), "skewed_pair"),
    Twin(trajectories_always_accepted, HamiltonianUpdate("prior"), "conjugate"),
    Twin(mass_matrix_term_forgotten, HamiltonianUpdate("posterior"), "conjugate"),
    Twin(prior_counted_twice, MetropolisUpdate("autoregressive"), "skewed_pair"),
    Twin(autoregression_towards_zero, MetropolisUpdate("autoregressive"), "conjugate"),
    Twin(prior_not_counted, MetropolisUpdate("random_walk"), "conjugate"),
    Twin(momenta_without_their_normalizing_constant, RiemannianUpdate("local", max_leapfrog=1), "skewed_single"),
    Twin(fixed_points_after_one_iteration, RiemannianUpdate("local", max_leapfrog=1), "skewed_single", 0.5),
]
