"""The choice of theta's transition: one of the core by its name, or an object that follows their protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from pmgp.core.approximations import Approximation, Differentiable
from pmgp.core.registry import missing_members, resolve
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo, ManifoldLangevin, RandomWalk
from pmgp.core.transitions.alternation import Alternation
from pmgp.core.transitions.base import AdaptiveTransition
from pmgp.core.transitions.metric_adaptive import RiemannianMonteCarlo
from pmgp.core.transitions.mixture import IndependenceMixture
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError
from pmgp.interface.model.model_likelihood import ClosedFormLikelihood

# Numbers of leapfrog steps on the screen are uniform between these two, with mean four. Beside other proposals all
# trajectories may be long; alone, many would last about half a period and do little but change signs.
LEAPFROG_ALONE, LEAPFROG_BY_TURNS = (1, 7), (3, 5)
TRAJECTORY_ACCEPTANCE = 0.8
# Up to this many hyper-parameters, proposals that follow an emulator of the screen mix better for their cost.
FEW = 6


def chosen_operator(
    given: AdaptiveTransition | str, target_acceptance: float | None, max_leapfrog: int = 10
) -> AdaptiveTransition:
    """Return the requested transition.

    `target_acceptance` is the rate to which transitions given by name tune, if not the one recommended for each.
    `max_leapfrog` is the largest number of steps of ``"hmc"``, ``"hmc-identity"`` and ``"rmhmc"``.
    """
    target: dict[str, Any] = {} if target_acceptance is None else {"target_acceptance": target_acceptance}
    # All are made, so that a setting out of range is refused whichever is requested.
    walk, mixture, langevin = RandomWalk(**target), IndependenceMixture(**target), ManifoldLangevin(**target)
    trajectories = HamiltonianMonteCarlo(max_leapfrog=max_leapfrog, **target)
    riemannian = RiemannianMonteCarlo(max_leapfrog=max_leapfrog, **target)
    names: dict[str, Callable[[], AdaptiveTransition]] = {
        "metropolis": lambda: walk,
        "mixture": lambda: mixture,
        "hmc": lambda: trajectories,
        "hmc-identity": lambda: replace(trajectories, learns_mass=False),
        "smmala": lambda: langevin,
        "rmhmc": lambda: riemannian,
    }
    return resolve(given, names, AdaptiveTransition, "operator")


class ThetaTarget(NamedTuple):
    """The target of theta's moves: a model, the number of moved elements, q, and whether q screens proposals.

    `differentiable` compiles the gradient of the model's evidence; it is the model itself, if NumPy computes K.
    """

    model: LatentGaussianModel
    differentiable: Any
    dimension: int
    approximation: Approximation
    screened: bool


def chosen_proposal(
    given: AdaptiveTransition | str, target_acceptance: float | None, setting: ThetaTarget
) -> AdaptiveTransition:
    """Return the transition that moves theta with f integrated out, and compile the gradient that it needs.

    ``"auto"`` is ``"emulated"`` where there are few hyper-parameters or no gradients; otherwise the mixture and
    trajectories take turns, in shares that tuning measures. `target_acceptance` is as for :func:`chosen_operator`. A
    transition that needs a metric, or a gradient that the model or q does not have, is refused.
    """
    target: dict[str, Any] = {} if target_acceptance is None else {"target_acceptance": target_acceptance}
    walk, mixture = RandomWalk(**target), IndependenceMixture(**target)
    emulated = replace(mixture, emulates=True)
    names: dict[str, Callable[[], AdaptiveTransition]] = {
        "auto": lambda: _by_turns(target_acceptance) if _suits(setting) else emulated,
        "metropolis": lambda: walk,
        "mixture": lambda: mixture,
        "emulated": lambda: emulated,
        "hmc": lambda: _trajectories(target_acceptance, LEAPFROG_ALONE),
    }
    chosen = resolve(given, names, AdaptiveTransition, "proposal")
    if chosen.derivatives > 1:
        raise ValueError(f"proposal may use only values and gradients of the density; {given!r} needs a metric")
    if chosen.derivatives > 0:
        if missing_members(setting.approximation, Differentiable):
            raise ValueError(f"{given!r} needs gradients, and {setting.approximation!r} has no evidence_gradient")
        setting.differentiable.compile_theta_gradient()
    return chosen


def _trajectories(target_acceptance: float | None, leapfrog: tuple[int, int]) -> HamiltonianMonteCarlo:
    target = TRAJECTORY_ACCEPTANCE if target_acceptance is None else target_acceptance
    return HamiltonianMonteCarlo(target, max_leapfrog=leapfrog[1], min_leapfrog=leapfrog[0])


def _by_turns(target_acceptance: float | None) -> Alternation:
    return Alternation(IndependenceMixture(), _trajectories(target_acceptance, LEAPFROG_BY_TURNS))


def many_to_follow_gradients(model: LatentGaussianModel, dimension: int) -> bool:
    """Return whether there are many hyper-parameters and the gradients of the evidence are smooth.

    With several latent values in a term, gradients are smooth if there is one for each class. Where the likelihood's
    derivatives come from its graph, as with a mean and a log scale, sites need not be positive definite, and gradients
    are rough.
    """
    classes = isinstance(model.model_likelihood, ClosedFormLikelihood)
    return dimension > FEW and (classes or not model.latent_vector.predictors.several)


def _suits(setting: ThetaTarget) -> bool:
    """Return whether trajectories are worth the cost of their gradients, and gradients are available."""
    worthwhile = setting.screened and many_to_follow_gradients(setting.model, setting.dimension)
    if not worthwhile or missing_members(setting.approximation, Differentiable):
        return False
    try:
        setting.differentiable.compile_theta_gradient()
    except ModelError:
        return False
    return True
