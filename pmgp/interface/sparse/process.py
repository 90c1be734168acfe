"""A Gaussian process on inducing inputs, in the manner of `pymc.gp`.

The article: J. Hensman, A. G. de G. Matthews, M. Filippone and Z. Ghahramani (2015), MCMC for variationally sparse
Gaussian processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.gp.mean import Zero
from pymc.gp.util import JITTER_DEFAULT
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.distributions.base import as_parameter
from pmgp.interface.model.context import current_model
from pmgp.interface.model.effects import WHITENED
from pmgp.interface.model.inducing_process import attach
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.sparse.inputs import check_inputs, current_value, refuse_minibatches
from pmgp.interface.sparse.likelihood import LatentLikelihood
from pmgp.interface.sparse.marginals import InducingInputs, Marginals
from pmgp.interface.sparse.observed import check_distribution, check_terms, complete
from pmgp.interface.sparse.predicting import Predicting, table_of

# Identifies a model's observations.
OBSERVATIONS = "ExpectedLogLikelihood"


class Sparse(Predicting):
    r"""A Gaussian process for many points, represented by its values at a few inducing inputs.

    For N points and M inducing inputs Z, an evaluation of the log-density costs :math:`O(N M^2)` instead of
    :math:`O(N^3)`. Samplers draw from

    .. math:: \hat q(v, \theta) \propto p(\theta)\,\mathcal N(v \mid 0, I)
              \prod_n \exp \mathbb E_{\mathcal N(f_n \mid \mu_n, \gamma_n)} \log p(y_n \mid f_n),

    with :math:`u = R v` at Z. Among all distributions of u and :math:`\theta` that leave :math:`p(f \mid u, \theta)`
    unchanged, it has the smallest Kullback-Leibler divergence from the posterior: it is a variational optimum, that is,
    an approximation of the posterior. It favors hyper-parameters that make :math:`\gamma_n` small, so the marginal of
    :math:`\theta` is biased, but less so with more inducing inputs.

    Parameters
    ----------
    mean_func : pymc.gp.mean.Mean, optional
        Zero by default.
    cov_func : pymc.gp.cov.Covariance, or sequence of them
        One for all outputs, or one for each.

    Notes
    -----
    With Gaussian noise, u can be integrated out: ``pm.gp.MarginalApprox(approx="VFE")`` then has the same target for
    theta, and is faster.

    References
    ----------
    Hensman, J., Matthews, A. G. de G., Filippone, M. and Ghahramani, Z. (2015). MCMC for variationally sparse Gaussian
    processes. *NIPS* 28.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(300, 2))
    >>> with pm.Model() as model:
    ...     lengthscale = pm.Gamma("lengthscale", 2, 1)
    ...     gp = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(2, ls=lengthscale))
    ...     f = gp.prior("f", X=X, Xu=pmgp.gp.select_inducing(X, 50, random_seed=1))
    ...     y = gp.observe("y", f, dist=lambda f: pm.Poisson.dist(mu=pm.math.exp(f)), observed=rng.poisson(1.0, 300))

    Any step method of PyMC samples the model: ``pm.sample(model=model)``.
    """

    def __init__(self, *, mean_func: Any = None, cov_func: Any) -> None:
        self.mean_func = Zero() if mean_func is None else mean_func
        self.cov_func = cov_func
        self._number, self._columns, self._inputs = 0, 0, None
        self._inducing: InducingInputs | None = None
        self._marginals: Marginals | None = None
        self._observations: dict[str, tuple[LatentLikelihood, list[TensorVariable]]] = {}

    def prior(
        self, name: str, X: Any, Xu: Any, n_outputs: int = 1, jitter: float = JITTER_DEFAULT, **kwargs: Any
    ) -> Marginals:
        """Add the whitened values at the inducing inputs, and return the process at X as a function of them.

        Parameters
        ----------
        name : str
            Name of the process; the whitened values are the random variable ``name + "_rotated_"``.
        X : array_like of shape (n, d)
            Inputs of the observations; a `pymc.Data` can be set later.
        Xu : array_like of shape (m, d)
            Inducing inputs: at most n different points of the same space.
        n_outputs : int
            Number of independent processes.
        jitter : float
            Added to the diagonal of the covariance at the inducing inputs. The target remains a bound, now with a
            little noise on the inducing values.
        **kwargs
            Arguments of the whitened values: ``dims``, ``initval``.

        Returns
        -------
        Marginals
            Mean and variance of f at X, for `observe`; of shape (n,), or (n_outputs, n) with several outputs.

        Raises
        ------
        ValueError
            If X and Xu are not tables of finite numbers with as many columns, if rows of Xu repeat, if there are more
            of them than of X, if one is a `pymc.Minibatch`, if there are neither one nor n_outputs covariance
            functions, or for a ``shape``, which follows from Xu and n_outputs.
        """
        if "shape" in kwargs:
            raise ValueError(
                f"the shape {kwargs['shape']} follows from Xu and n_outputs: leave it out, and give n_outputs"
            )
        self._number, self._columns = check_inputs(X, Xu).shape
        self._inputs = table_of(X)
        cov_funcs = self._cov_funcs(n_outputs)
        if "dims" not in kwargs:
            kwargs["shape"] = self._number if n_outputs == 1 else (n_outputs, self._number)
        v = pm.Normal(f"{name}{WHITENED}", 0.0, 1.0, **kwargs)
        if v.ndim != 1 + (n_outputs > 1):
            raise ValueError(
                f"dims of {name!r} must be the dimension of the inducing inputs, after that of outputs if there are "
                "several"
            )
        attach(v, self)
        self._inducing = InducingInputs(self.mean_func, cov_funcs, table_of(Xu), v, n_outputs, jitter)
        self._marginals = self._inducing.marginals(self._inputs)
        return self._marginals

    def _cov_funcs(self, n_outputs: int) -> list[Any]:
        if n_outputs < 1:
            raise ValueError(f"n_outputs must be 1 or more, not {n_outputs}")
        several = isinstance(self.cov_func, Sequence)
        if several and len(self.cov_func) != n_outputs:
            raise ValueError(f"there are {len(self.cov_func)} covariance functions for n_outputs = {n_outputs}")
        return list(self.cov_func) if several else [self.cov_func]

    def observe(
        self,
        name: str,
        f: Marginals,
        *parameters: Any,
        dist: Callable[..., TensorVariable],
        observed: Any,
        order: int = 20,
        **kwargs: Any,
    ) -> TensorVariable:
        """Add observations, which contribute the expectation of log p(y|f) to the log-density.

        It has a closed form for `pymc.Normal` with a mean that is linear in f, for `pymc.Poisson` with a log-rate that
        is linear in f, and for :class:`pmgp.likelihoods.LogGaussianCox`. For :class:`pmgp.likelihoods.RobustMax`, a
        one-dimensional integral is left. For every other distribution Gauss-Hermite quadrature integrates over the one
        latent value of each observation.

        Parameters
        ----------
        name : str
        f : Marginals
            The return value of `prior`.
        *parameters : tensor_like
            Arguments of `dist` in addition to f: hyper-parameters and data.
        dist : callable
            Makes a distribution from latent values and parameters: ``lambda f, sigma: pm.Normal.dist(f, sigma)``.
        observed : array_like
            All observations, with the shape of f, or (n,) for `RobustMax`.
        order : int
            Number of nodes of the Gauss-Hermite quadrature, at most 370. `RobustMax` with a covariance function for
            each output has nodes of its own.
        **kwargs
            Arguments of every PyMC distribution: ``dims``.

        Returns
        -------
        TensorVariable
            The observed variable. Its prior and posterior predictive draws come from p(y|f), with f drawn from its
            marginals, independently at each point given u.

        Raises
        ------
        ValueError
            If observations are missing, text, outside the support, or differ in number from the latent values; if an
            observation depends on several latent values; if `dist` uses variables of the model that are not among the
            parameters; if the observations are a `pymc.Minibatch` or ``total_size`` is given; for another `order`.
        TypeError
            If `dist` does not return a distribution.
        """
        model = pm.modelcontext(kwargs.pop("model", None))
        likelihood = LatentLikelihood(dist, order, alike=not isinstance(self.cov_func, Sequence))
        mean, variance = f
        others = [as_parameter(parameter) for parameter in parameters]
        for what, array in {"observed": observed, **{f"parameter {i}": p for i, p in enumerate(others)}}.items():
            refuse_minibatches(what, array)
        if "total_size" in kwargs:
            raise ValueError("total_size is for minibatches, which MCMC cannot use: leave it out, and give all rows")
        check_distribution(model, likelihood, [mean, *others])
        value = observed if isinstance(observed, Variable) else pt.as_tensor(complete(name, observed))
        check_terms(model, name, likelihood, value, [mean, *others])
        observations = pm.CustomDist(
            name,
            mean,
            variance,
            *others,
            dist=likelihood.draw,
            logp=likelihood.expected_log,
            class_name=OBSERVATIONS,
            observed=observed,
            **kwargs,
        )
        # A model with a name puts it before the variable's.
        self._observations[observations.name] = (likelihood, [mean, variance, *others])
        return observations

    def check_data(self, model: pm.Model) -> None:
        """Refuse data that `observe` would refuse: `pymc.set_data` may have changed them since it was called.

        Raises
        ------
        ValueError
            As `observe` does, and for another number of inducing inputs than `prior` was given.
        """
        if not model.data_vars:
            return
        self._prepared(self._inputs, "X")
        for name, (likelihood, [mean, _, *others]) in self._observations.items():
            value = model.rvs_to_values[model[name]]
            if (observed := current_value(value)) is not None:
                complete(name, observed)
            check_terms(model, name, likelihood, value, [mean, *others])

    def likelihood(self, name: str) -> LatentLikelihood:
        """Return the likelihood of an observed variable.

        Raises
        ------
        ValueError
            If the process has no such observations.
        """
        return self._observation(name)[0]

    @property
    def size(self) -> int:
        """The number of inducing inputs."""
        return self._prepared(self._inputs, "X").size

    @property
    def outputs(self) -> int:
        """The number of independent processes, such as one for each class."""
        return self._prepared(self._inputs, "X").n_outputs

    @property
    def factors(self) -> list[TensorVariable]:
        """The factor R of each covariance function, where u is R v plus its mean."""
        return self._prepared(self._inputs, "X").factors

    @property
    def inducing_inputs(self) -> Any:
        """The inducing inputs: a constant, or the `pymc.Data` that was given."""
        return self._prepared(self._inputs, "X").Z

    def expected_log_likelihood(
        self, Z: TensorVariable, mean: TensorVariable, factors: TensorVariable, *, model: pm.Model | None = None
    ) -> TensorVariable:
        """Return the graph of the sum of the target's terms, for a normal v at other inducing inputs.

        Parameters
        ----------
        Z : (m, d) tensor
        mean : tensor of the shape of v
            Mean of v.
        factors : (n_outputs, m, m) tensor
            C of each output, where v has the covariance C C'.
        model : pymc.Model, optional

        Returns
        -------
        scalar tensor
            The log-density of the model's random variables without v.

        Raises
        ------
        RuntimeError
            If `observe` has not been called.
        ModelError
            If observations depend on the process at other inputs than those of `prior`.
        """
        self._observation(None)
        model = current_model(model)
        moved = self._prepared(self._inputs, "X").moved(Z, mean)
        (mean, left), spread = moved.marginals(self._inputs), moved.spread(self._inputs, factors)
        total: Any = 0.0
        for name, (likelihood, [center, _, *others]) in self._observations.items():
            if self._marginals is None or center is not self._marginals.mean:
                raise ModelError(f"{name!r} was observed at other inputs than those of prior: optimize without it")
            total += likelihood.expected_log(model.rvs_to_values[model[name]], mean, left + spread, *others).sum()
        return total
