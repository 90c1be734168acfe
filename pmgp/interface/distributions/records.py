"""One record for each likelihood, with the package's knowledge beyond its distribution.

The records of the package's own likelihoods stand below their distributions; :func:`register` adds those of others.
What has no record is computed by its graph, and predicted by its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from pytensor.graph.op import Op
from pytensor.tensor.random.basic import BernoulliRV, CategoricalRV
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods import Likelihood

__all__ = ["Expected", "LikelihoodRecord", "record_of", "register"]


@dataclass(frozen=True)
class Expected:
    """Expectation of a function of the observation at a new point, where its latent value is normal.

    Parameters
    ----------
    given_f : callable, optional
        From the parameters of the random variable, f among them, to a graph of what is expected given f; by default the
        mean that PyMC knows. It is averaged over f by quadrature.
    under_normal : callable, optional
        The average in closed form, where the first parameter is f itself: from mean and variance of f, (m,) arrays,
        and the other parameters to an (m,) or an (m, categories) array. A parameter is an (m,) array too, or if one
        observation needs a vector of it, as of thresholds, that vector.
    """

    given_f: Callable[..., TensorVariable] | None = None
    under_normal: Callable[..., np.ndarray] | None = None


@dataclass(frozen=True)
class LikelihoodRecord:
    """The package's knowledge about a likelihood.

    Parameters
    ----------
    rv_type : type
        Of the random variable: the ``rv_type`` of a PyMC distribution. A type derived from it needs its own record.
    constructor : callable, optional
        From the observations and the parameters other than f, which comes first, to a likelihood of the core, with
        closed forms in place of the graph's derivatives.
    of_classes : bool
        Whether the first parameter has a latent value for each class, in its last axis. The constructor is then given
        the number of classes and the order of the latent vectors too, by the names `classes` and `order`.
    expected : mapping
        What `pmgp.predict` returns, by name: ``"mean"``, ``"probability"`` of the label 1 and ``"complement"`` of the
        label 0, or ``"probabilities"``, a value for each category in a last axis.

    Raises
    ------
    TypeError
        If `rv_type` is not the type of a random variable, but for example the distribution.
    """

    rv_type: type
    constructor: Callable[..., Likelihood] | None = None
    expected: Mapping[str, Expected] = field(default_factory=lambda: {"mean": Expected()})
    of_classes: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.rv_type, type) and issubclass(self.rv_type, Op)):
            raise TypeError(
                f"{self.rv_type!r} is not the type of a random variable; of a PyMC distribution give its rv_type, "
                "of another variable type(variable.owner.op)"
            )


_records: dict[type, LikelihoodRecord] = {}


def register(record: LikelihoodRecord) -> None:
    """Make a likelihood known; a record of the same type is replaced."""
    _records[record.rv_type] = record


def record_of(variable: TensorVariable) -> LikelihoodRecord:
    """The record of a random variable; that of one that nothing is known of, if it has none."""
    kind = type(variable.owner.op)
    return _records.get(kind) or LikelihoodRecord(kind)


register(LikelihoodRecord(BernoulliRV, expected={"probability": Expected()}))
register(LikelihoodRecord(CategoricalRV, expected={"probabilities": Expected(given_f=lambda p: p)}))
