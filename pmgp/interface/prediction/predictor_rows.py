"""Predictions of a model of linear predictors for its present data: expectations over the posterior, and draws.

The rows are those of the data that `pymc.set_data` has set. Given theta and the latent elements that were sampled, the
predictors are normal: later elements have their prior's distribution, given the sampled ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.distributions.moments import mean as conditional_mean
from pymc.exceptions import UndefinedMomentException
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneConst
from pytensor.tensor.variable import TensorVariable
from scipy import linalg

from pmgp.core.numerics.quadrature import normal_expectation
from pmgp.interface.distributions.records import Expected, record_of
from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.importance.theta_draws import posterior_of, theta_draws
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.model.model_prior import model_prior
from pmgp.interface.model.pieces import piece_of
from pmgp.interface.model.theta_vector import ThetaVector
from pmgp.interface.prediction.grown import GrownPiece, places_in_posterior


def predict_rows(
    idata: Any, model: pm.Model, latents: list[TensorVariable], observed: dict[str, TensorVariable], draws: int | None
) -> xr.Dataset:
    """Return expected observations and the linear predictors' moments, for the rows of the model's data.

    The latents are the pieces of the predictors, and at most `draws` draws of the posterior are used. Variables must
    continue those that were sampled, and no index may point beyond the last element.
    """
    graphs = _expected_graphs(observed)
    rows, thetas, values = _prepared(idata, model, latents, list(graphs.values()), draws)
    expectations = [rows.expectation(place) for place in range(len(graphs))]
    moments = [rows.moments(theta, x) for theta, *x in zip(thetas, *values, strict=True)]
    means, variances = (np.array(each) for each in zip(*moments, strict=True))
    found = {
        name: np.mean([function(theta, *one) for theta, one in zip(thetas, moments, strict=True)], axis=0)
        for name, function in zip(graphs, expectations, strict=True)
    }
    found |= {"latent_mean": means.mean(axis=0), "latent_variance": variances.mean(axis=0) + means.var(axis=0)}
    return _dataset(found, len(thetas))


def sample_rows(
    idata: Any,
    model: pm.Model,
    latents: list[TensorVariable],
    observed: dict[str, TensorVariable],
    draws: int | None,
    rng: np.random.Generator,
) -> xr.DataTree:
    """Return draws of observations and of their linear predictors, for the rows of the model's data.

    The arguments are those of :func:`predict_rows`. The group "predictions" has a dimension "point" after those of the
    draws.
    """
    graphs = {name: _new_draw(variable) for name, variable in observed.items()}
    seed = int(rng.integers(2**31))
    rows, thetas, values = _prepared(idata, model, latents, list(graphs.values()), draws, seed)
    latent = np.array([rows.draw(rng, theta, x) for theta, *x in zip(thetas, *values, strict=True)])
    found = {"latent": latent + np.array([rows.offsets(theta) for theta in thetas])}
    for name, function in zip(graphs, rows.functions, strict=True):
        found[name] = np.array([np.ravel(function(f, theta)[0]) for f, theta in zip(latent, thetas, strict=True)])
    posterior = posterior_of(idata, latents, draws)
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    variables = {
        name: (("chain", "draw", _point(name, drawn, latent)), drawn.reshape(*shape, -1))
        for name, drawn in found.items()
    }
    labels = {name: posterior[name].to_numpy() for name in ("chain", "draw")} | {"point": np.arange(latent.shape[1])}
    return xr.DataTree.from_dict({"predictions": xr.Dataset(variables, coords=labels)})


def _point(name: str, drawn: np.ndarray, latent: np.ndarray) -> str:
    """Return the dimension of an observed variable: that of the predictors, if each observation has one."""
    return "point" if drawn.shape == latent.shape else f"{name}_point"


def _new_draw(observed: TensorVariable) -> TensorVariable:
    """Return another draw of an observed variable, with the length of its parameters."""
    node = observed.owner
    parameters = node.op.dist_params(node)
    if isinstance(node.op, RandomVariable):
        return node.op.make_node(pt.random.shared_rng(seed=None), NoneConst, *parameters).outputs[1]
    return node.op.rv_op(*parameters)


def _prepared(
    idata: Any,
    model: pm.Model,
    latents: list[TensorVariable],
    graphs: list[TensorVariable],
    draws: int | None,
    seed: int | None = None,
) -> tuple[PredictorRows, np.ndarray, list[np.ndarray]]:
    """Return the rows, draws of theta, and draws of the pieces."""
    needed = hyperparameters(model, latents)
    posterior = posterior_of(idata, [*latents, *needed], draws)
    try:
        rows = PredictorRows(model, latents, needed, graphs, posterior, seed)
    except IndexError as error:
        raise ModelError(
            f"an index in the model's data points beyond the last element of a latent variable "
            f"({str(error).splitlines()[0]}): for new groups and times give the variable dims, such as dims='group', "
            "and lengthen them before the prediction, for example with model.set_dim('group', 12, coord_values=...)"
        ) from error
    values = [posterior[rv.name].stack(sample=("chain", "draw")).transpose("sample", ...).to_numpy() for rv in latents]
    return rows, theta_draws(posterior, model, latents), values


def refuse_inputs(given: dict[str, Any]) -> None:
    """Refuse arguments that belong to a process with inputs."""
    for name, value in given.items():
        if value is not None:
            raise ModelError(
                f"{name} cannot be given: series, maps and effects of groups have no inputs of their own. Make "
                "covariates and indices of groups and times pm.Data, set new ones with pm.set_data, and leave it out. "
                "A pmgp.gp.SPDE field is drawn at points that are given to its prior, prior('f', X=points)"
            )


def _expected_graphs(observed: dict[str, TensorVariable]) -> dict[str, TensorVariable]:
    prefixed = len(observed) > 1
    return {
        f"{name}_{kind}" if prefixed else kind: _given_predictors(name, variable, expected)
        for name, variable in observed.items()
        for kind, expected in record_of(variable).expected.items()
    }


def _given_predictors(name: str, observed: TensorVariable, expected: Expected) -> TensorVariable:
    """Return the expectation given the predictors, with the length of the predictors, not that of the observations."""
    node = observed.owner
    parameters = node.op.dist_params(node)
    if expected.given_f is not None:
        return expected.given_f(*parameters)
    if isinstance(node.op, RandomVariable):
        observed = node.op.make_node(node.inputs[0], NoneConst, *parameters).outputs[1]
    try:
        return conditional_mean(observed)
    except (UndefinedMomentException, NotImplementedError) as error:
        raise ModelError(f"the distribution of {name!r} has no mean that PyMC knows: {error}") from error


class PredictorRows:
    """The linear predictors of a model's rows, given draws of theta and of the latent pieces.

    `needed` are the hyper-parameters, and `graphs` expectations of observations, or random, from a seed.
    """

    def __init__(
        self,
        model: pm.Model,
        latents: list[TensorVariable],
        needed: list[TensorVariable],
        graphs: list[TensorVariable],
        posterior: xr.Dataset,
        seed: int | None = None,
    ) -> None:
        point, settings = model.initial_point(), {} if seed is None else {"random_seed": seed}
        theta = ThetaVector([model.rvs_to_values[rv] for rv in needed], point, Compiler(settings))
        terms = model.replace_rvs_by_values(graphs)
        self._latent = LatentPieces(model, latents, point, terms, theta)
        self._rows = self._latent.predictor.design()
        self._places = [
            places_in_posterior(model, rv, self._latent.shapes[rv.name], posterior[rv.name]) for rv in latents
        ]
        self._grown = [
            self._grown_piece(piece_of(model, rv, self._latent, theta, model_prior), name, places >= 0)
            if places.min() < 0
            else None
            for name, rv, places in zip(self._latent.names, latents, self._places, strict=True)
        ]
        written = self._latent.write(terms)
        self.functions = [theta.compile([self._latent.vector], [one], True) for one in written]

    def _grown_piece(self, piece: Any, name: str, known: np.ndarray) -> GrownPiece:
        return GrownPiece(piece, self._latent.maps[name].of_elements(known) if name in self._latent.maps else known)

    def offsets(self, theta: np.ndarray) -> np.ndarray:
        """Return the predictors where all pieces are zero: (N,)."""
        return self._latent.predictor.offsets(theta)

    def moments(self, theta: np.ndarray, values: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of each predictor, given theta and the sampled pieces: two (N,) arrays."""
        x, new = self._given(theta, values)
        scales, variance = self._latent.predictor.column_scales(theta), np.zeros(self._rows.shape[0])
        for columns, factor in new:
            spread = linalg.solve_triangular(factor, (self._rows[:, columns] * scales[columns]).toarray().T, lower=True)
            variance += np.square(spread).sum(axis=0)
        return self._rows @ (scales * x) + self.offsets(theta), variance

    def draw(self, rng: np.random.Generator, theta: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
        """Draw the predictors' latent part, given theta and the sampled pieces: (N,)."""
        x, new = self._given(theta, values)
        for columns, factor in new:
            x[columns] += linalg.solve_triangular(factor, rng.standard_normal(len(columns)), lower=True, trans="T")
        return self._rows @ (self._latent.predictor.column_scales(theta) * x)

    def _given(
        self, theta: np.ndarray, values: list[np.ndarray]
    ) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Return the pieces, new elements at their means; places of these, and factors of their precision."""
        drawn = [np.append(np.ravel(one), 0.0)[places] for one, places in zip(values, self._places, strict=True)]
        pieces, new, start = self._latent.images(theta, drawn), [], 0
        for own, grown in zip(pieces, self._grown, strict=True):
            if grown is not None:
                own[~grown.known], factor = grown.given(theta, own)
                new.append((start + np.flatnonzero(~grown.known), factor))
            start += len(own)
        return np.concatenate(pieces), new

    def expectation(self, place: int) -> Callable[..., np.ndarray]:
        """Return a graph's expectation as a function of theta, and of means and variances of the predictors."""
        function = self.functions[place]

        def expectation(theta: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
            latent = mean - self.offsets(theta)
            if not variance.any():
                return np.asarray(function(latent, theta)[0])
            at = lambda points: np.array([function(each, theta)[0] for each in points])  # noqa: E731
            return normal_expectation(at, latent, variance)

        return expectation


def _dataset(found: dict[str, np.ndarray], draws: int) -> xr.Dataset:
    number = len(found["latent_mean"])
    variables: dict[str, Any] = {}
    for name, values in found.items():
        core = name.endswith("probabilities")
        flat = values.reshape(-1, values.shape[-1]) if core else values.ravel()
        point = "point" if len(flat) == number else f"{name}_point"
        variables[name] = ((point, name.replace("probabilities", "category"))[: flat.ndim], flat)
    return xr.Dataset(variables, coords={"point": np.arange(number)}, attrs={"draws": draws})
