"""Deep Gaussian processes fitted by stochastic variational inference on random features.

Cutajar, Bonilla, Michiardi and Filippone (2017), Random feature expansions for deep Gaussian processes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import cloudpickle  # type: ignore[import-untyped]
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from pmgp.core.deep.likelihoods import JaxLikelihood
from pmgp.core.deep.network import Network
from pmgp.core.deep.training import density_over_draws, latent_draws, predictive_density
from pmgp.interface.deep import last_layer as last
from pmgp.interface.deep.checkpoint import fingerprint, named
from pmgp.interface.deep.configuration import (
    batch_mesh,
    check_choices,
    check_counts,
    check_schedules,
    device_of,
    likelihood_of,
)
from pmgp.interface.deep.data import checked_inputs, checked_observations, columns_of
from pmgp.interface.deep.fitting import Plan, Problem, train

LENGTH_ONLY = ("steps", "patience", "device", "devices")  # A run may continue with different values of these.


class RandomFeatureGP:
    """A deep Gaussian process on random features, fitted by maximizing a variational bound.

    This is not exact: q is a product of normals, and hyper-parameters are point estimates. For up to a few thousand
    points use `pmgp.sample`, which is exact; for few features, `pmgp.gp.RandomFeatures` in a PyMC model.

    Parameters
    ----------
    layers : int
        Number of layers; 1 is a shallow process.
    features : int
        Columns of Omega in each layer.
    width : int
        Processes in each hidden layer.
    kernel : {"rbf", "arc-cosine-0", "arc-cosine-1"}
        Each layer's kernel has a variance, and a length-scale for each input. The features of "arc-cosine-0" are steps,
        which have no gradient, so its lower layers do not learn.
    likelihood : {"gaussian", "probit", "logit", "softmax", "poisson"}, JaxLikelihood or callable
        A callable is a log density of y, shape (n,), and f, shape (n, outputs), written with `jax.numpy`.
    outputs : int, optional
        Latent processes of the likelihood: by default 1, and the number of classes for softmax.
    omega : {"var-fixed", "var-resampled", "prior-fixed"}
        Learn q(Omega) with one set of standard normals ("var-fixed", as in the article) or with new ones in each step
        ("var-resampled"), or draw Omega from its prior ("prior-fixed"). With "var-fixed" the objective is not a lower
        bound, and rises while predictions worsen, so a part of the data is held out.
    local : bool
        Whether training draws the values of a layer independently for each point, as in the article, or its weights.
        The former takes fewer steps.
    fed_forward : bool
        Whether hidden layers take X as input, in addition to the layer below.
    steps, batch_size : int
        Largest number of steps, and number of observations in each.
    learning_rate : float or dict
        Learning rate of Adam: a constant, or numbers by the step at which they begin, ``{0: 0.01, 6000: 0.001}``.
    frozen_steps : int
        Steps before hyper-parameters move.
    samples : int or dict
        Monte Carlo samples of a step: a constant, or numbers by the step at which they begin, ``{0: 1, 6000: 10}``.
    validation_fraction : float
        The part of the data that is held out for early stopping; 0 for none.
    evaluate_every : int
        Steps between evaluations of the held-out density.
    patience : int or None
        Evaluations without a rise after which training stops; None to take all steps, as without held-out data. The
        best parameters are kept.
    dtype : {"float32", "float64"}
        Precision of all computations, regardless of JAX's settings.
    device : str, optional
        The device, such as "cpu" or "gpu"; by default the one that JAX chooses.
    devices : None, "all" or sequence of jax.Device, optional
        Devices that share each batch, whose size must be a multiple of their number. They have the gradients of one
        device up to rounding. With `jax.distributed`, "all" are those of all processes, each of which makes
        the same calls.
    random_state : int
        The same seed gives the same numbers on the same device.

    Attributes
    ----------
    history_ : list of dict
        After each block of steps: the step, and the bound and the held-out log density in nats per observation.
    parameters_ : dict
        Trees of arrays: ``theta``, ``q``, ``likelihood``, as in `pmgp.core.deep.network`.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(-2.0, 2.0, 200)[:, None]
    >>> process = pmgp.deep.RandomFeatureGP(layers=1, features=20, steps=400, frozen_steps=100)
    >>> found = process.fit(X, np.sin(2 * X[:, 0]), progressbar=False).predict([[0.0], [0.7]])
    >>> list(found.data_vars)
    ['mean', 'latent_mean', 'latent_variance']
    """

    def __init__(
        self,
        layers: int = 2,
        features: int = 100,
        *,
        width: int = 3,
        kernel: str = "rbf",
        likelihood: str | JaxLikelihood | Callable[[Any, Any], Any] = "gaussian",
        outputs: int | None = None,
        omega: str = "var-fixed",
        local: bool = True,
        fed_forward: bool = True,
        steps: int = 12_000,
        batch_size: int = 200,
        learning_rate: float | Mapping[int, float] = 0.01,
        frozen_steps: int = 2000,
        samples: int | Mapping[int, int] = 1,
        validation_fraction: float = 0.1,
        evaluate_every: int = 200,
        patience: int | None = 10,
        dtype: str = "float32",
        device: str | None = None,
        devices: Any = None,
        random_state: int = 0,
    ) -> None:
        given = locals()
        for name in self._names():
            setattr(self, name, given[name])

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name, as scikit-learn expects."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Replace arguments of the constructor by name."""
        for name, value in params.items():
            if name not in self._names():
                raise ValueError(f"{name!r} is not a parameter: choose among {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def fit(self, X: Any, y: Any, *, checkpoint: str | Path | None = None, progressbar: bool = True) -> Self:
        """Maximize the bound with Adam on minibatches.

        Parameters
        ----------
        X : (n, d) array
            Inputs, preferably with each column scaled to unit variance.
        y : (n,) array
            Observations, preferably scaled to unit variance for a Gaussian likelihood; classes are 0, 1, ...
        checkpoint : path, optional
            A file that is replaced after each evaluation. If it exists, the run continues from it, and may have more
            `steps` than before.
        progressbar : bool

        Returns
        -------
        RandomFeatureGP
            The process itself.

        Raises
        ------
        ValueError
            If an argument, X or y cannot be used; the message names the first row that is wrong.
        FloatingPointError
            If the bound overflows.
        """
        self._check()
        likelihood = likelihood_of(self.likelihood)  # type: ignore[attr-defined]
        X, columns = checked_inputs(X), columns_of(X)
        y = checked_observations(y, len(X), likelihood.labels)
        params = self.get_params()
        settings = {name: repr(value) for name, value in params.items() if name not in LENGTH_ONLY}
        settings["likelihood"] = named(params["likelihood"])
        plan = Plan(**{name: params[name] for name in Plan.__dataclass_fields__})
        with self._computing():
            problem = self._problem(X, y, likelihood)
            path = None if checkpoint is None else Path(checkpoint)
            if path is not None and not path.parent.is_dir():
                raise FileNotFoundError(f"checkpoint={str(path)!r}: there is no folder {str(path.parent)!r}; make it")
            self.parameters_, self.history_ = train(problem, plan, path, fingerprint(settings, X, y), progressbar)
        self._problem_ = problem
        self.n_features_in_, self._columns_ = X.shape[1], columns
        return self

    def _check(self) -> None:
        params = self.get_params()
        counted = ("layers", "features", "width", "steps", "batch_size", "evaluate_every")
        check_counts(**{name: params[name] for name in counted})
        if params["outputs"] is not None:
            check_counts(outputs=params["outputs"])
        samples = params["samples"]
        check_counts(
            **{"samples": samples} if isinstance(samples, Integral) else {f"samples[{k}]": samples[k] for k in samples}
        )
        check_schedules(samples=samples, learning_rate=params["learning_rate"])
        check_counts(0, frozen_steps=params["frozen_steps"])
        if (patience := params["patience"]) is not None:
            check_counts(patience=patience)
        check_choices(params["kernel"], params["omega"], params["dtype"])
        if not 0 <= params["validation_fraction"] < 1:
            raise ValueError(f"validation_fraction={params['validation_fraction']}: give a number from 0 to below 1")

    def __reduce__(self) -> tuple[Callable[[str, bytes], RandomFeatureGP], tuple[str, bytes]]:
        """Pickle arrays apart, since JAX reads them with the precision of the moment."""
        return _unpickled, (self.get_params()["dtype"], cloudpickle.dumps((type(self), vars(self))))

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Compute with the process's precision on its device, and restore the user's JAX settings afterwards."""
        params = self.get_params()
        with jax.enable_x64(params["dtype"] == "float64"), jax.default_device(device_of(params["device"])):
            yield

    def _problem(self, X: np.ndarray, y: np.ndarray, likelihood: JaxLikelihood) -> Problem:
        params = self.get_params()
        outputs = params["outputs"] or (int(y.max()) + 1 if likelihood.labels == "classes" else 1)
        if likelihood.labels == "classes" and y.max() >= outputs:
            raise ValueError(f"row {int(np.argmax(y))} of y is {y.max():g}: classes must be 0 to {outputs - 1}")
        widths = (*[params["width"]] * (params["layers"] - 1), outputs)
        chosen = {name: params[name] for name in ("features", "kernel", "omega", "local", "fed_forward")}
        network = Network(X.shape[1], widths, **chosen)
        order = np.random.default_rng(params["random_state"]).permutation(len(y))
        heldout, kept = np.split(order, [int(params["validation_fraction"] * len(y))])
        dtype = params["dtype"]
        frozen_key, key = jax.random.split(jax.random.key(params["random_state"]))
        mesh = batch_mesh(params["devices"], params["batch_size"])
        arrays = (jnp.asarray(part, dtype) for part in (X[kept], y[kept], X[heldout], y[heldout]))
        names = ("X", "y", "X_heldout", "y_heldout")
        frozen = network.frozen(frozen_key, dtype)
        return Problem(network, likelihood, frozen, key=key, mesh=mesh, **dict(zip(names, arrays, strict=True)))

    def _draws(self, X: Any, draws: int, random_seed: int, last_layer: xr.DataTree | None) -> tuple[Any, Any]:
        """Draw latent values, (draws, m, C), in the right precision; return them with a key for more draws."""
        check_counts(draws=draws)
        problem = self._fitted()
        f_key, y_key = jax.random.split(jax.random.key(random_seed))
        X = checked_inputs(X, self.n_features_in_, self._columns_)
        if last_layer is not None:
            return last.values(last.features(problem, self.parameters_, X), last_layer, draws), y_key
        X = jnp.asarray(X, problem.X.dtype)
        return latent_draws(problem.network, self.parameters_, problem.frozen, X, f_key, draws, local=False), y_key

    def _fitted(self) -> Problem:
        if not hasattr(self, "_problem_"):
            raise ValueError("this process is not fitted: call fit(X, y) first")
        return self._problem_

    def sample_last_layer(
        self, X: Any, y: Any, *, draws: int = 1000, tune: int = 100, chains: int = 2, random_seed: int = 0
    ) -> xr.DataTree:
        """Sample the last layer's weights from their posterior given its features, instead of using the fitted q.

        The weights of the layers below stay at their means under q, and hyper-parameters and frequencies at their
        estimates. Given these, the draws are exact, whereas q treats the last layer's weights as independent, which
        they are not. The prior has the rank of the features, so an iteration costs O(n N) for N features, after
        O(n N^2 + N^3) once.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Observations to condition on, usually those of `fit`.
        draws, tune, chains : int
            Draws of a chain, iterations before them, and the number of chains.
        random_seed : int

        Returns
        -------
        xarray.DataTree
            A group ``posterior`` with ``weights`` over ``chain``, ``draw``, ``feature`` and ``process``, for ArviZ and
            for the argument `last_layer` of the predictions.

        Raises
        ------
        ValueError
            If the process is not fitted, or X or y cannot be used.
        FloatingPointError
            If the likelihood has no mode in the weights.

        Examples
        --------
        >>> import numpy as np, pmgp
        >>> X = np.linspace(-2.0, 2.0, 100)[:, None]
        >>> y = np.sin(2 * X[:, 0])
        >>> process = pmgp.deep.RandomFeatureGP(layers=1, features=10, steps=400, frozen_steps=100)
        >>> idata = process.fit(X, y, progressbar=False).sample_last_layer(X, y, draws=200)
        >>> idata["posterior"]["weights"].shape
        (2, 200, 20, 1)
        >>> found = process.predict([[0.0], [0.7]], last_layer=idata)
        """
        check_counts(draws=draws, chains=chains)
        check_counts(0, tune=tune)
        problem = self._fitted()
        X = checked_inputs(X, self.n_features_in_, self._columns_)
        y = checked_observations(y, len(X), problem.likelihood.labels, problem.network.widths[-1])
        with self._computing():
            Phi = last.features(problem, self.parameters_, X)
            theta = self.parameters_["likelihood"]
            return last.sampled(problem, theta, Phi, y, draws, tune, chains, random_seed)

    def predict(
        self, Xnew: Any, *, draws: int = 100, random_seed: int = 0, last_layer: xr.DataTree | None = None
    ) -> xr.Dataset:
        """Return expectations at new inputs, averaged over draws of the weights.

        Parameters
        ----------
        Xnew : (m, d) array
        draws : int
            Number of draws of the weights of all layers.
        random_seed : int
        last_layer : xarray.DataTree, optional
            The result of `sample_last_layer`, of which at most `draws` draws are used, evenly spaced. By default all
            weights are drawn from q.

        Returns
        -------
        xarray.Dataset
            Variables over ``point``, named as by `pmgp.predict`: ``latent_mean`` and ``latent_variance``, with the
            dimension ``process`` first for several latent processes, and ``mean``, ``probability`` with ``complement``,
            or ``probabilities`` over ``point`` and ``category``. A log density alone has no expectation.
        """
        with self._computing():
            f, _ = self._draws(Xnew, draws, random_seed, last_layer)
            likelihood, theta = self._fitted().likelihood, self.parameters_["likelihood"]
            values = {"latent_mean": np.asarray(f.mean(axis=0)).T, "latent_variance": np.asarray(f.var(axis=0)).T}
            found = {name: (("process", "point"), array) for name, array in values.items()}
            result = xr.Dataset(found, coords={"point": np.arange(f.shape[1])}, attrs={"draws": len(f)})
            if f.shape[2] == 1:
                result = result.isel(process=0)
            if likelihood.expectation is None:
                return result
            expected = np.asarray(jax.vmap(lambda one: likelihood.expectation(one, theta))(f).mean(axis=0))
        return xr.merge([_expected(expected, likelihood.expected), result], combine_attrs="drop_conflicts")

    def sample_predictions(
        self, Xnew: Any, *, draws: int = 100, random_seed: int = 0, last_layer: xr.DataTree | None = None
    ) -> xr.Dataset:
        """Draw f jointly at new inputs, and observations given f.

        Parameters
        ----------
        Xnew : (m, d) array
        draws : int
        random_seed : int
        last_layer : xarray.DataTree, optional
            As for `predict`.

        Returns
        -------
        xarray.Dataset
            ``f`` over ``draw``, ``point`` and ``process``, and, if the likelihood can draw observations, ``y`` over
            ``draw`` and ``point``.
        """
        with self._computing():
            f, key = self._draws(Xnew, draws, random_seed, last_layer)
            likelihood, theta = self._fitted().likelihood, self.parameters_["likelihood"]
            variables: dict[str, Any] = {"f": (("draw", "point", "process"), np.asarray(f))}
            if likelihood.draw is not None:
                keys = jax.random.split(key, len(f))
                y = jax.vmap(lambda one, values: likelihood.draw(one, values, theta))(keys, f)
                variables["y"] = (("draw", "point"), np.asarray(y))
        return xr.Dataset(variables, coords={"draw": np.arange(len(f)), "point": np.arange(f.shape[1])})

    def log_predictive_density(
        self, Xnew: Any, ynew: Any, *, draws: int = 100, random_seed: int = 0, last_layer: xr.DataTree | None = None
    ) -> np.ndarray:
        """Return each new observation's log predictive density, (m,), in nats: the log of a mean over draws.

        The draws are from q, or from `last_layer`, as for `predict`.
        """
        check_counts(draws=draws)
        problem = self._fitted()
        Xnew = checked_inputs(Xnew, self.n_features_in_, self._columns_)
        ynew = checked_observations(ynew, len(Xnew), problem.likelihood.labels, problem.network.widths[-1])
        with self._computing():
            X, y = (jnp.asarray(part, problem.X.dtype) for part in (Xnew, ynew))
            if last_layer is not None:
                f, _ = self._draws(Xnew, draws, random_seed, last_layer)
                return np.asarray(density_over_draws(problem.likelihood, f, y, self.parameters_["likelihood"]))
            fitted = (problem.network, problem.likelihood, self.parameters_, problem.frozen)
            return np.asarray(predictive_density(*fitted, X, y, jax.random.key(random_seed), draws))


def _expected(values: np.ndarray, name: str) -> xr.Dataset:
    """Return expected observations with the names that `pmgp.predict` uses."""
    if values.ndim == 2:
        return xr.Dataset({name: (("point", "category"), values)}, coords={"category": np.arange(values.shape[1])})
    found = {name: ("point", values)}
    return xr.Dataset(found | {"complement": ("point", 1 - values)} if name == "probability" else found)


def _unpickled(dtype: str, content: bytes) -> RandomFeatureGP:
    """Return a process whose arrays have its own precision, whatever JAX's setting is."""
    with jax.enable_x64(dtype == "float64"):
        kind, state = cloudpickle.loads(content)
        process = kind.__new__(kind)
        vars(process).update(state)
    return process
