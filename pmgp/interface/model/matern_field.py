"""Matern fields in the plane with a sparse precision, on a lattice or a mesh."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy import sparse

from pmgp.core.markov.fields import matern_on_mesh
from pmgp.core.markov.meshes import Lattice, Mesh
from pmgp.interface.distributions.matern_field import MaternFieldRV
from pmgp.interface.model.latent_variable import ModelError


class SPDE:
    """A Matern field of order 1 in the plane with a sparse precision, for thousands of cells.

    The field solves a stochastic partial differential equation on a lattice or a mesh, whose solution is Markov.
    :class:`pmgp.PseudoMarginal` integrates it out in the time of a sparse factorization.

    Parameters
    ----------
    mesh : pmgp.gp.Lattice or pmgp.gp.Mesh
    lengthscale : tensor_like, optional
        The length-scale as in a Matern kernel of PyMC: sqrt(2) / kappa.
    range : tensor_like, optional
        The distance at which the correlation is about 0.14, in place of the length-scale and twice as long:
        sqrt(8) / kappa.
    sigma : tensor_like
        Standard deviation of the field in the limit of small cells, away from the edges of the mesh; see the notes.
    mean : tensor_like
        Mean of the field, a scalar.

    Raises
    ------
    ModelError
        If the length-scale and the range are both given, or both missing.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> points = np.random.default_rng(1).uniform(0, 10, (80, 2))
    >>> lattice = pmgp.gp.Lattice((20, 20), spacing=0.5, border=6)
    >>> counts = lattice.counts(points)[lattice.interior]
    >>> with pm.Model() as model:
    ...     level, sigma = pm.Normal("level", 0, 1), pm.HalfNormal("sigma", 1)
    ...     lengthscale = pm.InverseGamma("lengthscale", 3, 6)
    ...     f = pmgp.gp.SPDE(lattice, lengthscale=lengthscale, sigma=sigma).prior("f")
    ...     y = pm.Poisson("y", pm.math.exp(level + f[lattice.interior]) * lattice.area, observed=counts)
    >>> print(pmgp.describe(model).latent_vectors["f"])
    vector of 1024; Matern field of order 1 on 1024 nodes

    It is sampled with ``pm.sample(step=pmgp.PseudoMarginal())``.

    Notes
    -----
    The variance depends on the size of the cells. In the middle of a lattice of square cells it is 0.31, 0.76, 1.10,
    1.13, 1.12, 1.08, 1.04 and 1.02 times ``sigma**2``, for length-scales of 0.25, 0.5, 1, 1.5, 2, 3, 5 and 8 sides of a
    cell. The length-scale should therefore be five sides of a cell or more: then the standard deviation is at most two
    percent above `sigma`.

    References
    ----------
    Lindgren, F., Rue, H. and Lindstrom, J. (2011). An explicit link between Gaussian fields and Gaussian Markov random
    fields: the stochastic partial differential equation approach. Journal of the Royal Statistical Society B 73.
    """

    def __init__(
        self, mesh: Lattice | Mesh, *, lengthscale: Any = None, range: Any = None, sigma: Any, mean: Any = 0.0
    ) -> None:
        if not isinstance(mesh, Lattice | Mesh):
            raise ModelError(
                f"a field needs a pmgp.gp.Lattice, such as pmgp.gp.Lattice((10, 20)), or a pmgp.gp.Mesh, not {mesh!r}"
            )
        if (lengthscale is None) is (range is None):
            raise ModelError("give a field either a lengthscale or a range, which is twice as long")
        self.mesh, self.sigma, self.mean = mesh, sigma, mean
        self.lengthscale = lengthscale if range is None else 0.5 * pt.as_tensor(range)

    def prior(self, name: str, X: Any = None, **kwargs: Any) -> TensorVariable:
        """Return the field as a variable of the model.

        Parameters
        ----------
        name : str
        X : (k, 2) array, optional
            Points at which the field is observed; it is interpolated between the centers of a lattice. For a mesh, a
            sparse (k, m) array with the weights of its nodes for each point.
        **kwargs
            As in every PyMC distribution: ``dims``, ``initval``.

        Returns
        -------
        (m,) or (k + m,) TensorVariable
            The field at all nodes; with X, first at the points, then at all nodes.

        Raises
        ------
        ModelError
            For points outside the mesh.
        """
        try:
            design = None if X is None else sparse.vstack([self.mesh.at(X), sparse.eye_array(self.mesh.size)])
        except ValueError as error:
            raise ModelError(f"the field {name!r} is impossible: {error}") from error
        summed = matern_on_mesh(self.mesh.mass, self.mesh.stiffness, design)
        mean = pt.broadcast_to(_number(self.mean), (summed.pattern.sites,))
        parameters = mean, _number(self.lengthscale), _number(self.sigma)
        _, rv = MaternFieldRV(summed)(*parameters, rng=pt.random.shared_rng(seed=None), return_next_rng=True)
        return pm.modelcontext(None).register_rv(rv, name, **kwargs)


def _number(value: Any) -> TensorVariable:
    found = pt.as_tensor(value).astype("float64")
    if found.type.shape not in ((), (1,)):
        raise ModelError(f"mean, lengthscale, range and sigma must be scalars, not of shape {found.type.shape}")
    return found.flatten()[0]
