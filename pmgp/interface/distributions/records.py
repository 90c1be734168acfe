"""One record for each likelihood, with the package's knowledge beyond its distribution.

The records of the package's own likelihoods follow their distributions; :func:`register` adds others. A likelihood
without a record is computed from its graph, and predicted by its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from pytensor.graph.op import Op
from pytensor.tensor.random.basic import BernoulliRV, CategoricalRV
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods import Likelihood


@dataclass(frozen=True)
class Expected:
    """The expectation of a function of the observation at a new point, given a normal latent value.

    Parameters
    ----------
    given_f : callable, optional
        Maps the parameters of the random variable, including f, to a graph of the expectation given f; by default the
        mean that PyMC knows. It is averaged over f by quadrature.
    under_normal : callable, optional
        The average in closed form, if the first parameter is f itself. It maps mean and variance of f, (m,) arrays,
        and the other parameters to an (m,) or an (m, categories) array. Parameters are also (m,) arrays, or vectors
        such as thresholds if each observation needs the whole vector.
    """

    given_f: Callable[..., TensorVariable] | None = None
    under_normal: Callable[..., np.ndarray] | None = None


@dataclass(frozen=True)
class LikelihoodRecord:
    """The package's knowledge about a likelihood.

    Parameters
    ----------
    rv_type : type
        Type of the random variable: the ``rv_type`` of a PyMC distribution. Derived types need their own records.
    constructor : callable, optional
        Maps the observations and the parameters after f, which comes first, to a likelihood of the core, whose closed
        forms replace the graph's derivatives.
    of_classes : bool
        Whether the first parameter has a latent value for each class, in its last axis. The constructor then also gets
        the number of classes and the order of the latent vectors, as arguments `classes` and `order`.
    expected : mapping
        Results of `pmgp.predict` by name: ``"mean"``, ``"probability"`` of the label 1 and ``"complement"`` of the
        label 0, or ``"probabilities"``, a value for each category in a last axis.

    Raises
    ------
    TypeError
        If `rv_type` is not the type of a random variable but, for example, the distribution.
    """

    rv_type: type
    constructor: Callable[..., Likelihood] | None = None
    expected: Mapping[str, Expected] = field(default_factory=lambda: {"mean": Expected()})
    of_classes: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.rv_type, type) and issubclass(self.rv_type, Op)):
            raise TypeError(
                f"{self.rv_type!r} is not the type of a random variable; for a PyMC distribution give its rv_type, "
                "for another variable type(variable.owner.op)"
            )


_records: dict[type, LikelihoodRecord] = {}


def register(record: LikelihoodRecord) -> None:
    """Register a likelihood; a record of the same type is replaced."""
    _records[record.rv_type] = record


def record_of(variable: TensorVariable) -> LikelihoodRecord:
    """Return the record of a random variable, or an empty record if it has none."""
    kind = type(variable.owner.op)
    return _records.get(kind) or LikelihoodRecord(kind)


register(LikelihoodRecord(BernoulliRV, expected={"probability": Expected()}))
register(LikelihoodRecord(CategoricalRV, expected={"probabilities": Expected(given_f=lambda p: p)}))
