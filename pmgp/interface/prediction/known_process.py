"""Processes of `pymc.gp` that the user passes, which know all of their inputs, while a graph may contain only parts.

If the inputs are a plain array, `active_dims` gives each covariance function its own columns, and the graph does not
show which columns these are. The process knows them: its functions are called again with other inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Variable, equal_computations
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable


class KnownProcess:
    """A process whose prior has been taken at inputs X (n, d): a `pymc.gp.Latent`, or one with the same attributes.

    `variables` hold the inputs in the model: one, or none if the inputs are an array. Inputs that are a function of
    data are refused, as new inputs would have other units here than where the covariance's graph is searched for them.
    """

    def __init__(self, gp: Any) -> None:
        X = getattr(gp, "X", None)
        if X is None or not callable(getattr(gp, "cov_func", None)):
            raise ValueError(
                f"gp must be a process after gp.prior(...), such as a pm.gp.Latent, or a list of these, not {gp!r}"
            )
        self._gp = gp
        self.X = np.asarray(X.eval() if hasattr(X, "eval") else X, dtype=float)
        data = _data_of(X)
        self.variables = [one for one in data if np.array_equal(np.ravel(one.get_value()), np.ravel(self.X))]
        if data and not self.variables:
            raise ValueError(
                f"the inputs of the process are a function of the pm.Data {', '.join(str(one.name) for one in data)}: "
                "leave gp out, and give Xnew in the units of the data"
            )

    def at(self, joint: TensorVariable, moments: list[TensorVariable]) -> dict[TensorVariable, TensorVariable]:
        """Map parts of a mean and a covariance that the process has made to the same parts at other inputs.

        The map is empty if the process has not made this covariance.
        """
        mean, covariance = moments
        found = _like(self._gp.cov_func(self._gp.X), covariance)
        if found is None:
            return {}
        known = {found: self._gp.cov_func(joint)}
        of_mean = _like(self._gp.mean_func(self._gp.X), mean)
        return known if of_mean is None else known | {of_mean: self._gp.mean_func(joint)}


def _data_of(X: Any) -> list[Any]:
    """Return the model's data of which inputs are made."""
    graphs = [X] if isinstance(X, Variable) else []
    return [one for one in ancestors(graphs) if isinstance(one, SharedVariable)]


def _like(graph: TensorVariable, whole: TensorVariable) -> TensorVariable | None:
    """Return the part of a graph that computes the same as another graph."""
    return next((part for part in ancestors([whole]) if equal_computations([part], [graph])), None)


def known_processes(gp: Any) -> list[KnownProcess]:
    """Return a list of the given processes: one, several, or none."""
    if gp is None:
        return []
    return [KnownProcess(each) for each in (gp if isinstance(gp, list | tuple) else [gp])]
