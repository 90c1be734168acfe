"""Checks of a model against what its graph does: possible observations, finite inputs, one process.

Each of them is a few evaluations of functions that are compiled anyway, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import pymc as pm
from pytensor.compile import SharedVariable
from pytensor.gradient import DisconnectedInputError, NullTypeGradError
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods.checks import places
from pmgp.interface.model.latent_variable import ONE_PROCESS, ModelError, has_inputs, whitened_processes
from pmgp.interface.model.likelihood_terms import LikelihoodTerms, binary_masks, moved
from pmgp.interface.model.observations import Observations

__all__ = [
    "naming_missing_gradients",
    "not_finite",
    "probes",
    "refuse_impossible",
    "refuse_infinite_inputs",
    "refuse_other_processes",
]

# How often the likelihood is looked at to see what it depends on.
PROBES = 4


class Parts(Protocol):
    """What the checks look at of a model that was taken apart, see `LatentGaussianModel`."""

    latent: TensorVariable
    observations: Observations
    initial_moments: tuple[np.ndarray, np.ndarray]

    @property
    def terms(self) -> LikelihoodTerms | None:
        """The terms of a likelihood that is given by its graph."""
        ...

    @property
    def initial_theta(self) -> np.ndarray:
        """Theta at the model's initial point."""
        ...

    @property
    def dimension(self) -> int:
        """Length of theta."""
        ...

    def log_prior(self, theta: np.ndarray) -> float:
        """Log p(theta) on the unconstrained scale."""
        ...

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Theta as one vector."""
        ...

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Values of theta's variables by name."""
        ...


def probes(model: Parts) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Theta, f, and how far f may be moved: at the initial theta and at random around it, always the same ones.

    A likelihood may depend on several latent values through a parameter whose initial value is zero. Theta of density
    zero are left out, but for the initial one.
    """
    rng = np.random.default_rng(0)
    mean, variance = model.initial_moments
    deviation = np.sqrt(np.where(np.isfinite(variance) & (variance > 0.0), variance, 1.0))
    for probe in range(PROBES):
        theta = model.initial_theta + (probe > 0) * rng.standard_normal(model.dimension)
        # Near the prior mean first, where most likelihoods are finite.
        scale = (1.0 if probe else 0.1) * deviation
        f = mean + scale * rng.standard_normal(mean.shape)
        change = scale * rng.uniform(0.5, 1.5, mean.shape)
        if probe == 0 or np.isfinite(model.log_prior(theta)):
            yield theta, f, change


@contextmanager
def naming_missing_gradients(variables: str, advice: str) -> Iterator[None]:
    """Say which operation has no gradient, and what to do.

    Raises
    ------
    ModelError
        In place of PyTensor's error.
    """
    try:
        yield
    except (NotImplementedError, NullTypeGradError, DisconnectedInputError) as error:
        raise ModelError(f"an operation in the model has no gradient in {variables} ({error}); {advice}") from error


def refuse_infinite_inputs(latent: str, graphs: list[TensorVariable], prior: DensePrior) -> None:
    """Refuse NaN and infinity in the arrays that the mean and the covariance of f are computed from.

    Only where these are not finite themselves: a graph may leave such elements out.

    Raises
    ------
    ModelError
        Naming the array and the rows.
    """
    n = prior.size
    for variable in ancestors(graphs):
        if not isinstance(variable, Constant | SharedVariable):
            continue
        # pymc.set_data masks what is not a number; beneath the mask it still stands.
        array = np.asarray(variable.data if isinstance(variable, Constant) else variable.get_value(borrow=True))
        if array.dtype.kind != "f" or array.ndim == 0 or len(array) != n:
            continue
        wrong = ~np.isfinite(array)
        if wrong.any() and not prior.is_finite:
            rows = wrong.reshape(n, -1).any(axis=1)
            name = repr(variable.name) if isinstance(variable, SharedVariable) and variable.name else "X"
            raise ModelError(
                f"the inputs {name} of {latent!r}, of shape {array.shape}, have values that are not finite in "
                f"{places(rows)}; fill them in, or leave out these rows and their observations"
            )


def refuse_impossible(model: Parts) -> None:
    """Refuse observations whose likelihood is zero or not a number wherever it was looked at.

    Raises
    ------
    ModelError
        Naming the variable, the rows and the observed values.
    """
    terms = model.terms
    if terms is None or terms.possible:
        return
    rows = [
        terms.by_name(f + change * np.vstack([0.0 * f, binary_masks(f.size)]), theta)
        for theta, f, change in probes(model)
    ]
    for name, first in rows[0].items():
        never = ~np.isfinite([values[name] for values in rows]).any(axis=(0, 1))
        if never.any():
            raise ModelError(
                f"{not_finite(model, name, never, first[0])} at the initial point and everywhere around it: such "
                "observations are outside the support of their distribution, or its other parameters are impossible"
            )


def not_finite(model: Parts, name: str, wrong: np.ndarray, values: np.ndarray) -> str:
    """Which terms of the likelihood are not finite, and what was observed there."""
    kinds = " or ".join(str(value) for value in np.unique(values[wrong]))
    observed = model.observations.value(name)
    if observed is not None and observed.shape == values.shape:
        return f"the log-likelihood of {name!r} is {kinds} for the observations in {places(wrong, observed)}"
    return f"the log-likelihood of {name!r} is {kinds}" + (f" in {places(wrong)}" if values.ndim else "")


def refuse_other_processes(pymc_model: pm.Model, model: Parts) -> None:
    """Refuse a second latent process among the hyper-parameters, which theta's proposals would hardly move.

    A process is what ``gp.prior`` whitened; a multivariate normal variable whose covariance is computed from inputs, a
    row for each element; and one as long as f, if not several of its elements together make an observation, as
    regression coefficients do.

    Raises
    ------
    ModelError
        Naming it.
    """
    for name in whitened_processes(pymc_model):
        raise ModelError(_two_processes(model.latent.name, name, "is a whitened Gaussian process"))
    n = len(model.initial_moments[0])
    for rv in pymc_model.free_RVs:
        if rv is model.latent or rv.owner is None or not isinstance(rv.owner.op, MvNormalRV):
            continue
        value = pymc_model.rvs_to_values[rv].name
        size = model.unravel(model.initial_theta)[value].size
        if has_inputs(rv, size):
            raise ModelError(_two_processes(model.latent.name, rv.name, f"has a covariance of {size} inputs"))
        if size == n > 1 and not _enters_together(model, value):
            raise ModelError(_two_processes(model.latent.name, rv.name, "is as long, element by element"))


def _two_processes(latent: str, other: str, why: str) -> str:
    return (
        f"the model has a second latent process besides {latent!r}: {other!r} {why}. Step methods for the "
        f"hyper-parameters take one process; {ONE_PROCESS}. For other models pmgp.EllipticalSlice(latent=...) for each "
        "process updates them given the hyper-parameters, or PyMC's NUTS samples the whitened processes"
    )


def _enters_together(model: Parts, name: str) -> bool:
    """Whether some observation depends on several elements of a part of theta."""
    terms = model.terms
    if terms is None:
        return False
    for theta, f, _ in probes(model):
        part = model.unravel(theta)[name]
        masks = binary_masks(part.size)
        thetas = [model.ravel(model.unravel(theta) | {name: part + mask}) for mask in masks]
        values = np.vstack([terms.flat(f[None, :], at) for at in (theta, *thetas)])
        ones, zeros = np.split(moved(values), 2)
        if np.any(ones & zeros):
            return True
    return False
