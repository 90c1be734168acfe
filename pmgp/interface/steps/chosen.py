"""What a pseudo-marginal step works with: the approximation and the estimators that are asked for, or that suit."""

from __future__ import annotations

from pmgp.core import approximations, estimators
from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace
from pmgp.core.estimators import Estimator, ImportanceSampling
from pmgp.core.estimators.base import Demanding, Priced
from pmgp.core.registry import resolve
from pmgp.interface.model.latent_gaussian import LatentGaussianModel

__all__ = ["chosen_approximation", "chosen_estimators"]


def chosen_approximation(given: Approximation | str, model: LatentGaussianModel) -> Approximation:
    """The approximation that is asked for, or the one that suits the model."""
    if isinstance(given, str) and given == "auto":
        return ExpectationPropagation() if model.sites_known else Laplace()
    return resolve(given, {"auto": ExpectationPropagation, **approximations.NAMES}, Approximation, "approximation")


def chosen_estimators(given: Estimator | str, model: LatentGaussianModel) -> tuple[Estimator, tuple[Priced, ...]]:
    """The estimator that is asked for, and with "auto" others that tuning may choose in its place.

    Raises
    ------
    ValueError
        For an unknown estimator, and one that the likelihood does not suit.
    """
    likelihood = model.likelihood(model.initial_theta)
    if isinstance(given, str) and given == "auto":
        first, *others = estimators.suitable(likelihood, model.latent_vector.several)
        return first, tuple(others)
    names: dict[str, type[Estimator]] = {"auto": ImportanceSampling, **estimators.NAMES}
    chosen: Estimator = resolve(given, names, Estimator, "estimator")
    if isinstance(chosen, Demanding):
        chosen.require(likelihood)
    return chosen, ()
