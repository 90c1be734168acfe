"""The class of the largest latent value, with a small probability of any other class, as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Discrete
from pytensor.tensor.random.basic import uniform
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods.checks import check_classes
from pmgp.interface.distributions.base import LatentVariable, as_parameter, known_observations, known_value, resized


class RobustMaxRV(LatentVariable):
    """Random variable of `RobustMax`; its first parameter has the classes along its last axis."""

    name = "robust_max"
    extended_signature = "[rng],[size],(k),()->[rng],()"
    _print_name = ("RobustMax", "\\operatorname{RobustMax}")

    @classmethod
    def draw(cls, rng: Any, size: Any, *parameters: TensorVariable) -> tuple[Any, TensorVariable]:  # noqa: D102
        f, epsilon = parameters
        next_rng, u = uniform(0.0, 1.0, size=size, rng=rng, return_next_rng=True)
        largest, others = pt.argmax(f, axis=-1), f.shape[-1] - 1
        # Below epsilon, u / epsilon is uniform again and chooses how many classes to move ahead, cyclically.
        ahead = 1 + pt.minimum(pt.floor(u / epsilon * others), others - 1).astype("int64")
        return next_rng, pt.switch(pt.lt(u, epsilon), (largest + ahead) % (others + 1), largest)


class RobustMax(Discrete):
    r"""Classes with :math:`P(y = \arg\max_k f_k) = 1 - \epsilon`, the others equally probable.

    A likelihood for :class:`pmgp.gp.Sparse` with several outputs, where expectations under Gaussian latent values have
    a closed form up to a one-dimensional integral.

    Parameters
    ----------
    name : str
    f : tensor_like of float, shape (k, n)
        Latent values, a row for each of the k classes.
    epsilon : tensor_like of float
        Probability that the label is not the class of the largest latent value; between 0 and 1.
    **kwargs
        Arguments of every PyMC distribution: ``observed`` (labels), ``dims``, ``shape``.

    Raises
    ------
    ValueError
        If an observed label is not among 0, ..., k - 1, if there are fewer than two classes, or if a constant epsilon
        is not between 0 and 1.

    References
    ----------
    Hernández-Lobato, D., Hernández-Lobato, J. M. and Dupont, P. (2011). Robust multi-class Gaussian process
    classification. *NIPS* 24.

    Examples
    --------
    The label is the class with the largest latent value, except for one label in a hundred:

    >>> import numpy as np, pymc as pm, pmgp
    >>> f = np.array([[0.3, -1.0], [0.1, 2.0], [-0.5, 0.0]])
    >>> label = pmgp.likelihoods.RobustMax.dist(f=f, epsilon=0.01)
    >>> pm.math.exp(pm.logp(label, [0, 0])).eval()
    array([0.99 , 0.005])
    """

    rv_type = RobustMaxRV
    rv_op = RobustMaxRV.rv_op

    def __new__(cls, name: str, f: Any, epsilon: Any = 1e-3, **kwargs: Any) -> TensorVariable:  # noqa: D102
        labels, classes = known_observations(kwargs.get("observed")), pt.as_tensor(f).type.shape[0]
        if labels is not None and classes is not None:
            check_classes(labels, classes)
        return super().__new__(cls, name, f, epsilon, **kwargs)

    @classmethod
    def dist(cls, f: Any, epsilon: Any = 1e-3, **kwargs: Any) -> TensorVariable:  # noqa: D102
        f, known = as_parameter(f), known_value(epsilon, "epsilon")
        if known is not None and not np.all((known > 0.0) & (known < 1.0)):
            raise ValueError(f"epsilon must be between 0 and 1, both excluded, not {known}")
        if f.ndim < 2 or f.type.shape[0] == 1:
            raise ValueError(
                f"f must have a row of latent values for each of two or more classes, but its shape is {f.type.shape}"
            )
        return super().dist([f.dimshuffle(*range(1, f.ndim), 0), as_parameter(epsilon)], **kwargs)

    def support_point(rv: Any, size: Any, f: Any, epsilon: Any) -> TensorVariable:  # noqa: D102, N805
        return resized(pt.argmax(f, axis=-1), size)

    def logp(value: TensorVariable, f: TensorVariable, epsilon: TensorVariable) -> TensorVariable:  # noqa: D102, N805
        classes = f.shape[-1]
        logp = pt.switch(pt.eq(value, pt.argmax(f, axis=-1)), pt.log1p(-epsilon), pt.log(epsilon / (classes - 1)))
        outside = pt.or_(pt.or_(pt.lt(value, 0), pt.ge(value, classes)), pt.neq(value, pt.floor(value)))
        return check_parameters(pt.switch(outside, -np.inf, logp), epsilon > 0, epsilon < 1, msg="0 < epsilon < 1")
