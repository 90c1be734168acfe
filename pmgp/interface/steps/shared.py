"""The parts that step methods of one model share: its compiled functions, and the prior of f at the last theta.

Step methods that are combined in one `pymc.sample` see the same theta one after another. The first one that needs K
builds and factorizes it, and the others use the result.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import Prior
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.model.taking_apart import take_apart


class SharedModel:
    """A model taken apart, with the prior of f at the last theta."""

    def __init__(self, parts: LatentGaussianModel) -> None:
        self.parts = parts
        self._theta = np.empty(0)
        self._prior: Prior | None = None

    def prior(self, theta: np.ndarray) -> Prior:
        """Return p(f|theta), with its factor if that has been computed."""
        if self._prior is None or not np.array_equal(theta, self._theta):
            self._theta, self._prior = theta.copy(), self.parts.prior(theta)
        return self._prior

    def remember(self, theta: np.ndarray, prior: Prior) -> None:
        """Keep the prior at the theta to which the chain has moved."""
        self._theta, self._prior = theta.copy(), prior

    def refresh_data(self) -> None:
        """Read the model's data again, and forget the prior that depended on the old ones."""
        self._prior = None
        self.parts.refresh_data()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the n x n matrices behind when the step methods are pickled."""
        return {"parts": self.parts, "_theta": np.empty(0), "_prior": None}


_shared: WeakKeyDictionary[pm.Model, dict[tuple, SharedModel]] = WeakKeyDictionary()


def share(
    model: pm.Model,
    latent: Any = None,
    initial_point: dict[str, np.ndarray] | None = None,
    compile_kwargs: dict[str, Any] | None = None,
    given_theta: bool = True,
    factorizing: bool | None = None,
) -> SharedModel:
    """Return the parts of a model, taken apart anew only if its variables or the other arguments have changed.

    The arguments are those of `take_apart`.
    """
    variables = tuple(id(variable) for variable in (*model.basic_RVs, *model.potentials))
    start = (
        None
        if initial_point is None
        else tuple((name, np.shape(value), np.asarray(value).tobytes()) for name, value in initial_point.items())
    )
    given = latent if isinstance(latent, list | tuple) else [latent]
    name = tuple(one if one is None or isinstance(one, str) else one.name for one in given)
    # Compiled functions and the last prior are not to be used by two threads at a time.
    key = (variables, name, start, repr(compile_kwargs), given_theta, factorizing, get_ident())
    known = _shared.setdefault(model, {})
    if key not in known:
        known[key] = SharedModel(
            take_apart(model, latent, initial_point, compile_kwargs, given_theta, factorizing=factorizing)
        )
    elif not given_theta:
        # The data may have changed: a model that they make impossible should be refused here and not in a worker.
        known[key].refresh_data()
    return known[key]


def share_for_evidence(
    model: pm.Model, latents: list[TensorVariable], latent: Any = None, compile_kwargs: dict[str, Any] | None = None
) -> LatentGaussianModel:
    """Return the parts of a model whose p(y) is estimated, which may have no hyper-parameters besides `latents`."""
    known = not hyperparameters(model, latents)
    shared = share(model, latent, compile_kwargs=compile_kwargs, given_theta=known, factorizing=True)
    if known:
        shared.refresh_data()
    return shared.parts
