"""Broken twins of the schemes on theta, each with the one mistake that its name says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import ObservedPrior
from pmgp.core.numerics import linalg
from pmgp.core.theta_updates.densities import AncillaryDensity, SufficientDensity, ThetaDensity
from pmgp.core.theta_updates.joint_update import JointDensity
from pmgp.core.theta_updates.schemes import (
    AncillaryScheme,
    InterweavingScheme,
    JointScheme,
    Scheme,
    SufficientScheme,
    SurrogateScheme,
)
from pmgp.core.theta_updates.variance import ConjugateVariance
from pmgp.core.transitions.adaptive import ManifoldLangevin
from tests.latent_updates.broken import proposals_taken_for_symmetric
from tests.theta_updates.gibbs_geweke import DifferentiableToy

POOR = Laplace(sweeps=0)
VARIANCE = ConjugateVariance(1, DifferentiableToy.shape, DifferentiableToy.scale)


def nu_of_the_old_theta(patch: pytest.MonkeyPatch) -> None:
    """Interweaving whitens f with the factor of the theta that the iteration began with."""
    step, (sufficient, ancillary) = InterweavingScheme.step, InterweavingScheme._stages
    old = []

    def remembering(self, rng, current, *rest):
        old[:] = [current.latent.prior]
        return step(self, rng, current, *rest)

    def stale(model, current, rng):
        density = ancillary(model, current, rng)
        density.nu = old[0].whiten(current.latent.f)
        return density

    patch.setattr(InterweavingScheme, "step", remembering)
    patch.setattr(InterweavingScheme, "_stages", (sufficient, stale))


def f_left_behind(patch: pytest.MonkeyPatch) -> None:
    """Theta moves with nu fixed, but f stays where it was."""
    _keep_f(patch, AncillaryDensity)


def _keep_f(patch: pytest.MonkeyPatch, density: type[ThetaDensity]) -> None:
    right = density.at

    def broken(self, position, gradient=False):
        point = right(self, position, gradient)
        return point._replace(payload=point.payload and point.payload._replace(f=self.current.latent.f))

    patch.setattr(density, "at", broken)


def determinant_of_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    """Log N(f|m, K) with plus log|K| / 2."""
    right = SufficientDensity._log_density

    def broken(self, theta, latent):
        return right(self, theta, latent) + linalg.log_determinant(latent.prior.factor)

    patch.setattr(SufficientDensity, "_log_density", broken)


def surrogate_data_without_density(patch: pytest.MonkeyPatch) -> None:
    """p(g|theta) is left out."""
    patch.setattr(ObservedPrior, "log_density_of", lambda self, observations: 0.0)


def one_approximation_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The q of the current point is left out of the ratio, that of the proposal is not."""
    right = JointDensity._log_density

    def broken(self, theta, latent):
        if self.is_current(theta):
            return float(self.model.likelihood(theta).log_likelihood(latent.f) + latent.prior.log_density(latent.f))
        return right(self, theta, latent)

    patch.setattr(JointDensity, "_log_density", broken)


def f_kept_with_the_weight_of_another(patch: pytest.MonkeyPatch) -> None:
    """The proposed f' decides, but is thrown away."""
    _keep_f(patch, JointDensity)


def n_for_half_n(patch: pytest.MonkeyPatch) -> None:
    """The shape of the variance's full conditional grows by n."""
    right = ConjugateVariance.draw

    def broken(self, rng, current):
        return right(replace(self, shape=self.shape + 0.5 * current.latent.f.size), rng, current)

    patch.setattr(ConjugateVariance, "draw", broken)


class Twin(NamedTuple):
    """A mistake, and the scheme that makes it."""

    breaks: Callable[[pytest.MonkeyPatch], None]
    scheme: Scheme


TWINS = {
    "nu of the old theta": Twin(nu_of_the_old_theta, InterweavingScheme(variance=VARIANCE)),
    "f left behind": Twin(f_left_behind, AncillaryScheme()),
    "f left behind, interweaving": Twin(f_left_behind, InterweavingScheme()),
    "determinant of the wrong sign": Twin(determinant_of_the_wrong_sign, SufficientScheme()),
    "surrogate data without density": Twin(surrogate_data_without_density, SurrogateScheme()),
    "one approximation forgotten": Twin(one_approximation_forgotten, JointScheme(approximation=POOR)),
    "f' thrown away": Twin(f_kept_with_the_weight_of_another, JointScheme(approximation=POOR)),
    "sufficient, taken for symmetric": Twin(proposals_taken_for_symmetric, SufficientScheme(ManifoldLangevin())),
    "ancillary, taken for symmetric": Twin(proposals_taken_for_symmetric, AncillaryScheme(ManifoldLangevin())),
    "n for n / 2": Twin(n_for_half_n, SufficientScheme(variance=VARIANCE)),
}
