"""The mean of a random variable given its parameters, if it has one."""

from __future__ import annotations

import numpy as np
from pymc.distributions.moments import mean
from pymc.exceptions import UndefinedMomentException
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Variable
from pytensor.tensor.random.basic import StudentTRV
from pytensor.tensor.variable import TensorVariable


def conditional_mean(rv: TensorVariable) -> TensorVariable:
    """Return the mean that PyMC knows, except that of a Student distribution with constant nu up to 1.

    Raises
    ------
    UndefinedMomentException
        If there is none.
    NotImplementedError
        If PyMC does not know it.
    """
    if isinstance(rv.owner.op, StudentTRV):
        [nu] = constant_fold([rv.owner.op.dist_params(rv.owner)[0]], raise_not_constant=False)
        if not isinstance(nu, Variable) and np.any(nu <= 1.0):
            raise UndefinedMomentException("a Student distribution with nu of 1 or less has no mean")
    return mean(rv)
