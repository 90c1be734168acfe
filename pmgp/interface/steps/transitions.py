"""Which transition moves theta: one of the core by its name, or an object that follows their protocol."""

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

# Trajectories on the screen have leapfrog steps uniform between these two, four on average. In turns with proposals
# they may all be long; alone, many of about half a period would change signs and little else.
LEAPFROG_ALONE, LEAPFROG_BY_TURNS = (1, 7), (3, 5)
TRAJECTORY_ACCEPTANCE = 0.8
# Up to so many hyper-parameters proposals that follow an emulator of the screen mix better for their time.
FEW = 6


def chosen_operator(
    given: AdaptiveTransition | str, target_acceptance: float | None, max_leapfrog: int = 10
) -> AdaptiveTransition:
    """The transition that is asked for.

    Parameters
    ----------
    given : "metropolis", "mixture", "hmc", "hmc-identity", "smmala", "rmhmc" or AdaptiveTransition
    target_acceptance : float, optional
        The acceptance rate that the named ones tune to, if not the one recommended for each.
    max_leapfrog : int
        Of ``"hmc"``, ``"hmc-identity"`` and ``"rmhmc"``.

    Raises
    ------
    ValueError
        For an unknown name, what is no transition, and settings out of range.
    """
    target: dict[str, Any] = {} if target_acceptance is None else {"target_acceptance": target_acceptance}
    # All are made, so that a setting out of range is refused whichever is asked for.
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
    """The target of theta's moves: a model, how many elements move, its approximation, and whether that screens."""

    model: LatentGaussianModel
    dimension: int
    approximation: Approximation
    screened: bool


def chosen_proposal(
    given: AdaptiveTransition | str, target_acceptance: float | None, setting: ThetaTarget
) -> AdaptiveTransition:
    """Return the transition that moves theta with f integrated out, its derivatives compiled.

    Parameters
    ----------
    given : "auto", "emulated", "mixture", "metropolis", "hmc" or AdaptiveTransition
        ``"auto"`` is ``"emulated"`` where there are few hyper-parameters or no gradients to be had, and turns of the
        mixture and of trajectories otherwise, in shares that tuning measures.
    target_acceptance : float, optional
        The acceptance rate that the named ones tune to, if not the one recommended for each.
    setting : ThetaTarget

    Raises
    ------
    ModelError
        If a gradient is asked for that an operation in the model does not have.
    ValueError
        As of :func:`chosen_operator`, and for a transition that needs what the screen does not have.
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
        raise ValueError(f"proposal must move by values and gradients of the density; {given!r} needs a metric")
    if chosen.derivatives > 0:
        if missing_members(setting.approximation, Differentiable):
            raise ValueError(f"{given!r} needs gradients, and {setting.approximation!r} has no evidence_gradient")
        setting.model.compile_theta_gradient()
    return chosen


def _trajectories(target_acceptance: float | None, leapfrog: tuple[int, int]) -> HamiltonianMonteCarlo:
    target = TRAJECTORY_ACCEPTANCE if target_acceptance is None else target_acceptance
    return HamiltonianMonteCarlo(target, max_leapfrog=leapfrog[1], min_leapfrog=leapfrog[0])


def _by_turns(target_acceptance: float | None) -> Alternation:
    return Alternation(IndependenceMixture(), _trajectories(target_acceptance, LEAPFROG_BY_TURNS))


def many_to_follow_gradients(model: LatentGaussianModel, dimension: int) -> bool:
    """Return whether there are many hyper-parameters, and gradients of the evidence are not rough.

    Those of several latent vectors are good with one for each class. Where the likelihood's derivatives are taken from
    its graph, as with a mean and a log scale, sites need not be positive definite, and gradients are rough.
    """
    classes = isinstance(model.model_likelihood, ClosedFormLikelihood)
    return dimension > FEW and (classes or not model.latent_vector.several)


def _suits(setting: ThetaTarget) -> bool:
    """Return whether trajectories are worth the cost of their gradients, and these are available."""
    worthwhile = setting.screened and many_to_follow_gradients(setting.model, setting.dimension)
    if not worthwhile or missing_members(setting.approximation, Differentiable):
        return False
    try:
        setting.model.compile_theta_gradient()
    except ModelError:
        return False
    return True
