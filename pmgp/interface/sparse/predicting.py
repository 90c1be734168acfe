"""Predictions of a process on inducing inputs, at new inputs and for observations, and its diagnosis."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import ArrayLike
from pymc.backends.arviz import apply_function_over_dataset, coords_and_dims_for_inferencedata
from pymc.gp.util import JITTER_DEFAULT, stabilize
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.arrays import numbers
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.context import current_model
from pmgp.interface.model.inducing_process import sampled_variables
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.posterior import check_inputs_unchanged
from pmgp.interface.sparse.diagnosis import Diagnosis, diagnosis_of
from pmgp.interface.sparse.draws import at_draws, spaced_draws
from pmgp.interface.sparse.exact import whole_model
from pmgp.interface.sparse.inputs import check_columns, current_value
from pmgp.interface.sparse.likelihood import LatentLikelihood
from pmgp.interface.sparse.marginals import InducingInputs, Marginals
from pmgp.interface.sparse.observed import checked_observations
from pmgp.interface.sparse.responses import Expectations, check_parameters
from pmgp.interface.sparse.selection import select_inducing


class Predicting:
    """The predictions and the diagnosis of `Sparse`, as a mixin."""

    mean_func: Any
    _columns: int
    _number: int
    _inducing: InducingInputs | None
    _inputs: Any
    _observations: dict[str, tuple[LatentLikelihood, list[TensorVariable]]]

    def marginals(self, Xnew: Any) -> Marginals:
        """Return the mean and variance of the process at each new input, given the variables of the model.

        Parameters
        ----------
        Xnew : array_like of shape (n, d)

        Returns
        -------
        Marginals

        Raises
        ------
        RuntimeError
            If `prior` has not been called.
        ValueError
            If Xnew is not a table of finite numbers with as many columns as X.
        """
        return self._prepared(Xnew).marginals(table_of(Xnew))

    def conditional(self, name: str, Xnew: Any, jitter: float = JITTER_DEFAULT, **kwargs: Any) -> TensorVariable:
        r"""Add the process at new inputs, :math:`\mathcal N(A_*^\top v, K_{**} - A_*^\top A_*)`.

        After sampling, `pymc.sample_posterior_predictive` draws from it. Draws are joint over the new values, at a cost
        that is cubic in their number; `marginals` costs no more than the observations do.

        Parameters
        ----------
        name : str
        Xnew : array_like of shape (n, d)
        jitter : float
            Added to the diagonal of the covariance.
        **kwargs
            For `pymc.MvNormal`.

        Returns
        -------
        TensorVariable
            A multivariate normal of shape (n,), or (n_outputs, n).

        Raises
        ------
        RuntimeError
            If `prior` has not been called.
        ValueError
            If Xnew is not a table of finite numbers with as many columns as X.
        """
        mean, covariance = self._prepared(Xnew).joint(table_of(Xnew))
        kwargs.setdefault("method", "svd")
        # PyMC's `stabilize` is for a single matrix.
        stable = covariance + jitter * pt.eye(covariance.shape[-1])
        return pm.MvNormal(name, mu=mean, cov=stable, **kwargs)

    def compute_log_likelihood(
        self,
        idata: Any,
        *,
        model: pm.Model | None = None,
        progressbar: bool = False,
        compile_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        r"""Add the group ``log_likelihood`` for leave-one-out cross-validation: :math:`\log\mathbb E\,p(y_n \mid f_n)`.

        The expectation is over :math:`\mathcal N(f_n \mid \mu_n, \gamma_n)` at each draw. PyMC itself would store
        :math:`\mathbb E \log p(y_n \mid f_n)`, which the sampler uses. That is smaller, and not a log-density of the
        observations.

        Parameters
        ----------
        idata : xarray.DataTree
            Draws with the group ``posterior``; the new group is added in place.
        model : pymc.Model, optional
        progressbar : bool
        compile_kwargs : dict, optional
            For PyTensor, as in `pymc.sample`.

        Returns
        -------
        xarray.DataTree
            `idata`.

        Raises
        ------
        RuntimeError
            If `observe` has not been called.
        """
        self._observation(None)
        model = current_model(model)
        self._check_draws(idata)
        expected = [
            likelihood.log_expected(model.rvs_to_values[model[name]], *arguments)
            for name, (likelihood, arguments) in self._observations.items()
        ]
        settings: dict[str, Any] = {"on_unused_input": "ignore", **(compile_kwargs or {})}
        coords, dims = coords_and_dims_for_inferencedata(model)
        idata["log_likelihood"] = apply_function_over_dataset(
            model.compile_fn(inputs=sampled_variables(model), outs=expected, **settings),
            idata["posterior"].to_dataset()[[rv.name for rv in sampled_variables(model)]],
            output_var_names=list(self._observations),
            dims=dims,
            coords=coords,
            progressbar=progressbar,
        )
        return idata

    def predict(
        self,
        idata: Any,
        Xnew: Any,
        *,
        observed: ArrayLike | None = None,
        parameters: tuple[Any, ...] | None = None,
        name: str | None = None,
        model: pm.Model | None = None,
        draws: int | None = 1000,
    ) -> xr.Dataset:
        r"""Return the predictive distribution at new inputs, averaged over the posterior, without compilation.

        :func:`pmgp.predict` does the same for every process; this method also takes observations and parameters at the
        new inputs.

        Parameters
        ----------
        idata : xarray.DataTree
            With the group ``posterior``.
        Xnew : array_like of shape (n, d)
        observed : array_like of shape (n,), or (n_outputs, n), optional
            Observations there, held out or assumed.
        parameters : tuple, optional
            The likelihood's parameters other than f at the new inputs, as for `observe`; by default those given there.
        name : str, optional
            Name of the observed variable that `observed` and `parameters` are for, where there are several.
        model : pymc.Model, optional
        draws : int or None
            Largest number of draws, evenly spaced over all chains; None for all.

        Returns
        -------
        xarray.Dataset
            The variables that :func:`pmgp.predict` returns; with several outputs, ``latent_mean`` and
            ``latent_variance`` have the dimension ``output`` before ``point``. With `observed` also ``log_density``,
            the logarithm of the posterior mean of :math:`\mathbb E\,p(y_n \mid f_n)`.

        Raises
        ------
        RuntimeError
            If `prior` has not been called, or, with `observed` or `parameters`, if `observe` has not been called.
        ValueError
            If Xnew is not a table of finite numbers with as many columns as X, if the posterior lacks a variable, or
            if there is no such observed variable.
        """
        model = current_model(model)
        moments, observations, density = self.marginals(Xnew), dict(self._observations), None
        self._check_draws(idata)
        if observed is not None or parameters is not None or name is not None:
            likelihood, [mean, variance, *others] = self._observation(name)
            name = name or next(iter(observations))
            if parameters is not None:
                others = _same_number(name, parameters, len(others))
            observations[name] = likelihood, [mean, variance, *others]
            if observed is not None:
                check_parameters(likelihood, moments, others, of_observations=parameters is None)
                value = checked_observations(model, name, likelihood, observed, moments.mean, others)
                density = likelihood.log_expected(pt.as_tensor(value), *moments, *others)
        inducing, own = self._prepared(Xnew), None if parameters is None else name
        task = Expectations(moments, observations, inducing.v, inducing.n_outputs, own)
        return task.averages(spaced_draws(idata, model, draws), model, density)

    def diagnose(self, idata: Any, *, model: pm.Model | None = None, draws: int | None = 200) -> Diagnosis:
        r"""Estimate how the variance that the inducing inputs leave affects the posterior, and how many are enough.

        The target has :math:`\mathbb E \log p(y \mid f)` where the log-likelihood of u would be
        :math:`\log \mathbb E\,p(y \mid f)`. The difference, summed over observations, is a penalty that favors
        hyper-parameters for which little variance is left. It matters only in so far as it varies over the posterior.

        Parameters
        ----------
        idata : xarray.DataTree
            Draws with the group ``posterior``.
        model : pymc.Model, optional
        draws : int or None
            Largest number of draws, evenly spaced over all chains; None for all.

        Returns
        -------
        Diagnosis
            When printed, it explains its figures in words.

        Raises
        ------
        RuntimeError
            If `observe` has not been called.
        ValueError
            If the posterior lacks a variable, or if there are fewer than two draws.

        Notes
        -----
        This is a first-order diagnosis from draws of the approximation itself, which avoid regions with a large
        penalty, so the estimated effect is a lower bound. Follow the advice until the diagnosis is good. The definitive
        check is a run with twice as many inducing inputs or, if there are few points, with `exact_model`.
        """
        self._observation(None)
        model = current_model(model)
        self._check_draws(idata)
        penalty: Any = 0.0
        for name, (likelihood, arguments) in self._observations.items():
            value = model.rvs_to_values[model[name]]
            penalty += likelihood.log_expected(value, *arguments).sum()
            penalty -= likelihood.expected_log(value, *arguments).sum()
        prepared = self._prepared(self._inputs, "X")
        prior = sum(cov_func(self._inputs, diag=True).mean() for cov_func in prepared.cov_funcs)
        left = prepared.marginals(self._inputs).variance.mean() * len(prepared.cov_funcs) / prior
        chosen = spaced_draws(idata, model, draws)
        if len(chosen) < 2:
            raise ValueError("the diagnosis compares draws, and there is only one: give two or more")
        unexplained, penalties = np.array(list(at_draws(chosen, model, [left, penalty]))).T
        hyperparameters = [rv.name for rv in sampled_variables(model) if rv is not prepared.v]
        values = {name: np.array([draw[name] for draw in chosen]) for name in hyperparameters}
        traces = self._traces(model, values)
        return diagnosis_of(
            unexplained, penalties, values, *traces, prepared.size, self.points, one_output=prepared.n_outputs == 1
        )

    @property
    def whitened(self) -> Any:
        """The random variable that holds the whitened values."""
        return self._prepared(self._inputs, "X").v

    @property
    def points(self) -> int:
        """The present number of the observations' inputs."""
        return int(self._inputs.shape[0].eval())

    def exact_model(
        self, name: str = "f", *, model: pm.Model | None = None, jitter: float = JITTER_DEFAULT
    ) -> pm.Model:
        """Return the exact model, with a latent value for each observation.

        It has the same hyper-parameters, data and likelihoods, so :class:`pmgp.PseudoMarginal` samples the posterior
        that this process approximates, for up to about two thousand points. See :func:`pmgp.gp.compare_with_exact`.

        Parameters
        ----------
        name : str
            Name of the latent values, a multivariate normal variable.
        model : pymc.Model, optional
        jitter : float
            Added to the diagonal of their covariance.

        Returns
        -------
        pymc.Model

        Raises
        ------
        RuntimeError
            If `observe` has not been called.
        ModelError
            If there are several outputs, or if another variable of the model depends on the whitened values.
        """
        self._observation(None)
        prepared = self._prepared(self._inputs, "X")
        if prepared.n_outputs > 1:
            raise ModelError(f"the process has {prepared.n_outputs} outputs; exact_model supports only one")
        X, [cov_func] = self._inputs, prepared.cov_funcs
        moments = self.mean_func(X), stabilize(cov_func(X), jitter)
        return whole_model(current_model(model), prepared.v, *moments, self._observations, name)

    def _traces(self, model: pm.Model, values: dict[str, np.ndarray]) -> tuple[float, np.ndarray]:
        """Return the variance left at X by the present inducing inputs, and by the first ones of some chosen in turn.

        Both are sums over the covariance functions, at theta's mean; the others are chosen for the functions' sum.
        """
        prepared, X = self._prepared(self._inputs, "X"), current_value(self._inputs)
        assert X is not None
        start = {name: draws.mean(axis=0) for name, draws in values.items()}
        cov_func = reduce(add, prepared.cov_funcs)
        number = min(4 * prepared.size, len(np.unique(X, axis=0)))
        with model:
            Z = select_inducing(X, number, "conditional_variance", cov_func=cov_func, start=start)
        several = InducingInputs(
            self.mean_func, prepared.cov_funcs, pt.as_tensor(Z), prepared.v, prepared.n_outputs, JITTER_DEFAULT
        )
        present, in_turn = (
            pt.add(*[pt.square(A).sum(axis=1) for A in inputs.projections(self._inputs)], 0.0)
            for inputs in (prepared, several)
        )
        graphs = [cov_func(self._inputs, diag=True).sum(), present.sum(), in_turn]
        v = np.zeros([int(length) for length in prepared.v.shape.eval()])
        [(total, explained, gains)] = at_draws([start | {prepared.v.name: v}], model, graphs)
        return max(float(total - explained), 0.0), np.maximum(total - np.cumsum(gains), 0.0)

    def _check_draws(self, idata: Any) -> None:
        """Refuse draws of whitened values at other inducing inputs."""
        check_inputs_unchanged(idata, [self._prepared(self._inputs, "X").Z])

    def _observation(self, name: str | None) -> tuple[LatentLikelihood, list[TensorVariable]]:
        """Return the likelihood of an observed variable, with its arguments."""
        if not self._observations:
            raise RuntimeError("the process has no observations yet: call observe first")
        names = list(self._observations)
        if name is None:
            name = names[0]
        if name not in names:
            raise ValueError(f"the process has no observations {name!r}; choose among {', '.join(names)}")
        return self._observations[name]

    def _prepared(self, inputs: Any, name: str = "Xnew") -> InducingInputs:
        if self._inducing is None:
            raise RuntimeError("the process has no values at any inputs yet: call prior first")
        check_columns(name, inputs, self._columns)
        self._check_number(self._inducing)
        return self._inducing

    def _check_number(self, inducing: InducingInputs) -> None:
        """Refuse another number of inducing inputs than of whitened values; only their dimension can change both."""
        Z, v = current_value(inducing.Z), inducing.v
        assert Z is not None
        if len(Z) != self._number and len(Z) != int(v.shape[-1].eval(mode=INTERPRETED)):
            raise ValueError(
                f"there are now {len(Z)} inducing inputs, but {v.name!r} has {self._number} values, as many as there "
                "were when prior was called: build the model again with the new ones"
            )


def _same_number(name: str, parameters: Any, number: int) -> list[TensorVariable]:
    """Return the parameters at new inputs; refuse another number of them than `observe` was given."""
    if not isinstance(parameters, tuple | list) or len(parameters) != number:
        given = f"{len(parameters)}" if isinstance(parameters, tuple | list) else f"a {type(parameters).__name__}"
        raise ValueError(f"the likelihood of {name!r} has {number} parameters other than f; give a tuple, not {given}")
    return [pt.as_tensor(parameter) for parameter in parameters]


def table_of(X: Any) -> Any:
    """Return a table as a tensor."""
    return X if isinstance(X, Variable) else pt.as_tensor(numbers("X", X))
