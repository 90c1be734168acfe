"""Predictions of a model of linear predictors for its present data: expectations over the posterior, and draws.

The rows are those of the data that `pymc.set_data` has set. Given theta and the latent elements that were sampled, the
predictors are normal: later elements have their prior's distribution, given the sampled ones.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.distributions.mixture import MixtureRV
from pymc.distributions.truncated import TruncatedRV
from pymc.exceptions import UndefinedMomentException
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneConst
from pytensor.tensor.variable import TensorVariable
from scipy import linalg

from pmgp.core.numerics.quadrature import normal_expectation
from pmgp.interface.distributions.means import base_of, conditional_mean
from pmgp.interface.distributions.records import Expected, record_of
from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.importance.theta_draws import some_draws, theta_draws
from pmgp.interface.model.dense_sums import DensePart
from pmgp.interface.model.distinct_rows import distinct_rows
from pmgp.interface.model.indices import FOR_NEW_GROUPS
from pmgp.interface.model.labels import category_names
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_variable import ModelError, is_dense
from pmgp.interface.model.likelihood_terms import binary_masks
from pmgp.interface.model.linear_nodes import written_predictors
from pmgp.interface.model.linear_predictor import LinearPredictor
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.model.model_prior import model_prior
from pmgp.interface.model.pieces import piece_of
from pmgp.interface.model.points import initial_values
from pmgp.interface.model.posterior import check_inputs_continued, rows_of
from pmgp.interface.model.theta_vector import ThetaVector
from pmgp.interface.prediction.existing import existing
from pmgp.interface.prediction.grown import GrownPiece, GrownProcess, places_in_posterior

# Pairs of draws of what was not sampled, for each draw of the posterior, where an observation has several predictors.
PAIRS = 32


def predict_rows(
    idata: Any, model: pm.Model, latents: list[TensorVariable], observed: dict[str, TensorVariable], draws: int | None
) -> xr.Dataset:
    """Return expected observations and the linear predictors' moments, for the rows of the model's data.

    The latents are the pieces of the predictors, and at most `draws` draws of the posterior are used. Variables must
    continue those that were sampled, and no index may point beyond the last element.
    """
    graphs = _expected_graphs(observed)
    rows, thetas, values = _prepared(idata, model, latents, observed, list(graphs.values()), draws)
    pieces = [rows.given(theta, x) for theta, *x in zip(thetas, *values, strict=True)]
    rng, found = np.random.default_rng(0), {}
    for place, name in enumerate(graphs):
        each = [rows.expected(rng, place, theta, one) for theta, one in zip(thetas, pieces, strict=True)]
        found[name] = np.mean(each, axis=0)
    found = existing(found, stacklevel=3)
    for prefix, predictors in _prefixed(rows.written).items():
        moments = [_moments(predictors, theta, one) for theta, one in zip(thetas, pieces, strict=True)]
        means, variances = (np.array(each) for each in zip(*moments, strict=True))
        found[f"{prefix}latent_mean"] = means.mean(axis=0)
        found[f"{prefix}latent_variance"] = variances.mean(axis=0) + means.var(axis=0)
    return _dataset(model, found, list(observed), len(thetas))


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
    draws, or one for each of several observed variables.
    """
    for name, variable in observed.items():
        if not _can_be_drawn(variable):
            raise ModelError(f"{name!r} cannot be drawn again: the parameters of {variable.owner.op} are not known")
    graphs = {name: _new_draw(variable) for name, variable in observed.items()}
    seed = int(rng.integers(2**31))
    rows, thetas, values = _prepared(idata, model, latents, observed, list(graphs.values()), draws, seed)
    pieces = [rows.draw(rng, rows.given(theta, x)) for theta, *x in zip(thetas, *values, strict=True)]
    found = {}
    for prefix, predictors in _prefixed(rows.written).items():
        each = [[one.at(theta, x) for one in predictors] for theta, x in zip(thetas, pieces, strict=True)]
        found[f"{prefix}latent"] = np.array([np.concatenate(one) for one in each])
    for place, name in enumerate(graphs):
        found[name] = np.array([np.ravel(rows.at(place, theta, x)) for theta, x in zip(thetas, pieces, strict=True)])
    posterior = some_draws(idata, latents, model, draws, growing=latents)
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    points = _Points(list(observed))
    variables = {
        name: (("chain", "draw", points.of(name, drawn.shape[1])), drawn.reshape(*shape, -1))
        for name, drawn in found.items()
    }
    labels = {name: posterior[name].to_numpy() for name in ("chain", "draw")} | points.numbers
    return xr.DataTree.from_dict({"predictions": xr.Dataset(variables, coords=labels)})


class _Points:
    """The dimensions of the rows of results: "point", or one for each observed variable if there are several."""

    def __init__(self, observed: list[str]) -> None:
        self._prefixes = {f"{name}_": f"{name}_point" for name in observed} if len(observed) > 1 else {"": "point"}
        self._lengths: dict[str, int] = {}

    def of(self, name: str, length: int) -> str:
        """Return the dimension of a result, which has its own if it has another number of rows than the first."""
        fitting = [point for prefix, point in self._prefixes.items() if f"{name}_".startswith(prefix)]
        point = max(fitting, key=len)
        return point if self._lengths.setdefault(point, length) == length else f"{name}_point"

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """Numbers of the rows along each dimension that several results may share."""
        return {point: np.arange(length) for point, length in self._lengths.items()}


def _prefixed(written: dict[str, list[Predictors]]) -> dict[str, list[Predictors]]:
    """Return predictors by the prefix of their results, which is empty if there is one observed variable."""
    return {f"{name}_" if len(written) > 1 else "": each for name, each in written.items()}


def _moments(predictors: list[Predictors], theta: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray]:
    means, variances = zip(*[one.moments(theta, given) for one in predictors], strict=True)
    return np.concatenate(means), np.concatenate(variances)


def _new_draw(observed: TensorVariable) -> TensorVariable:
    """Return another draw of an observed variable, with the length of its parameters."""
    node = observed.owner
    if isinstance(node.op, TruncatedRV):
        return node.op.rv_op(_new_draw(base_of(observed)), *node.inputs[-2:], node.op.max_n_steps)
    # Distributions of which another one is made have lengths of their own; they have no names.
    parameters = [_new_draw(one) if one.name is None and _can_be_drawn(one) else one for one in _parameters(observed)]
    if isinstance(node.op, RandomVariable):
        return node.op.make_node(pt.random.shared_rng(seed=None), NoneConst, *parameters).outputs[1]
    if isinstance(node.op, MixtureRV) and node.op.ndim_supp == 0:
        weights, *components = parameters
        # One distribution has its components along its last axis.
        one_each = components if len(components) > 1 else [components[0][..., 0]]
        return node.op.rv_op(*parameters, size=pt.broadcast_shape(weights[..., 0], *one_each))
    return node.op.rv_op(*parameters)


def _parameters(observed: TensorVariable) -> list[TensorVariable]:
    """Return the parameters of a variable's distribution, or of the one that it truncates."""
    drawn = base_of(observed) if isinstance(observed.owner.op, TruncatedRV) else observed
    return list(drawn.owner.op.dist_params(drawn.owner))


def _can_be_drawn(variable: TensorVariable) -> bool:
    """Return whether a variable is one that `_new_draw` takes."""
    return variable.owner is not None and (
        isinstance(variable.owner.op, RandomVariable) or hasattr(variable.owner.op, "rv_op")
    )


def _prepared(
    idata: Any,
    model: pm.Model,
    latents: list[TensorVariable],
    observed: dict[str, TensorVariable],
    graphs: list[TensorVariable],
    draws: int | None,
    seed: int | None = None,
) -> tuple[PredictorRows, np.ndarray, list[np.ndarray]]:
    """Return the rows, draws of theta, and draws of the pieces."""
    for rv in filter(is_dense, latents):
        check_inputs_continued(idata, rv)
    needed = hyperparameters(model, latents)
    posterior = some_draws(idata, [*latents, *needed], model, draws, growing=latents)
    try:
        rows = PredictorRows(model, latents, needed, observed, graphs, posterior, seed)
    except IndexError as error:
        raise ModelError(
            f"an index in the model's data points beyond the last element of a latent variable "
            f"({str(error).splitlines()[0]}). {FOR_NEW_GROUPS}"
        ) from error
    except ValueError as error:
        if "broadcast" not in str(error):
            raise
        lengths = {one.name: len(one.get_value(borrow=True)) for one in model.data_vars if one.ndim}
        raise ModelError(
            f"the model's data do not have the same number of rows: {lengths}. Set them together with pm.set_data"
        ) from error
    values = [rows_of(posterior, rv.name) for rv in latents]
    return rows, theta_draws(posterior, model, latents), values


def refuse_inputs(given: dict[str, Any]) -> None:
    """Refuse arguments that belong to a process with inputs."""
    for name, value in given.items():
        if value is not None:
            raise ModelError(
                f"{name} cannot be given: series, maps and group effects have no inputs of their own. Make covariates "
                f"and indices of groups and times pm.Data, set new ones with pm.set_data, and leave {name} out. "
                "A pmgp.gp.SPDE field is drawn at points that are given to its prior, prior('f', X=points)"
            )


def _expected_graphs(observed: dict[str, TensorVariable]) -> dict[str, TensorVariable]:
    prefixed = len(observed) > 1
    graphs, reasons = {}, []
    for name, variable in observed.items():
        for kind, expected in record_of(variable).expected.items():
            try:
                graphs[f"{name}_{kind}" if prefixed else kind] = _given_predictors(variable, expected)
            except (UndefinedMomentException, NotImplementedError) as error:
                reasons.append(f"the distribution of {name!r} has no mean that PyMC knows: {error}")
    if reasons:
        which = "for some variables" if graphs else "only the linear predictors"
        warnings.warn(
            f"Expected observations cannot be given, {which}: {'; '.join(reasons)}; pmgp.sample_predictions draws "
            "observations",
            stacklevel=4,
        )
    return graphs


def _given_predictors(observed: TensorVariable, expected: Expected) -> TensorVariable:
    """Return the expectation given the predictors, with the length of the predictors, not that of the observations."""
    if expected.given_f is not None:
        return expected.given_f(*observed.owner.op.dist_params(observed.owner))
    return conditional_mean(_new_draw(observed) if _can_be_drawn(observed) else observed)


class Given(NamedTuple):
    """The pieces at one draw.

    - `pieces`: all elements; those that were not sampled at their conditional means
    - `new`: the places of these in each piece that has any, and the factor of their precision
    """

    pieces: np.ndarray
    new: list[tuple[np.ndarray, np.ndarray]]


class Predictors(NamedTuple):
    """Linear predictors, with the matrix of their data: a row for each, a column for each element of the pieces."""

    predictor: LinearPredictor
    rows: Any

    def offsets(self, theta: np.ndarray) -> np.ndarray:
        """Return the predictors where all pieces are zero: (N,)."""
        return self.predictor.offsets(theta)

    def at(self, theta: np.ndarray, pieces: np.ndarray) -> np.ndarray:
        """Return the predictors at theta and pieces: (N,)."""
        return self.rows @ (self.predictor.column_scales(theta) * pieces) + self.offsets(theta)

    def moments(self, theta: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of each predictor, given theta and the sampled pieces: two (N,) arrays."""
        scales, variance = self.predictor.column_scales(theta), np.zeros(self.rows.shape[0])
        for columns, factor in given.new:
            spread = linalg.solve_triangular(factor, (self.rows[:, columns] * scales[columns]).toarray().T, lower=True)
            variance += np.square(spread).sum(axis=0)
        return self.at(theta, given.pieces), variance


class PredictorRows:
    """The linear predictors of a model's rows, given draws of theta and of the latent pieces.

    `needed` are the hyper-parameters, and `graphs` expectations of observations, or random, from a seed. These are
    functions of the `own` predictors, which several observations may share. `written` has those of each observed
    variable as the model writes them.
    """

    def __init__(
        self,
        model: pm.Model,
        latents: list[TensorVariable],
        needed: list[TensorVariable],
        observed: dict[str, TensorVariable],
        graphs: list[TensorVariable],
        posterior: xr.Dataset,
        seed: int | None = None,
    ) -> None:
        # Missing observations have the mask of the former rows.
        point, settings = initial_values(model, [*needed, *latents]), {} if seed is None else {"random_seed": seed}
        theta = ThetaVector([model.rvs_to_values[rv] for rv in needed], point, Compiler(settings))
        parameters = {
            name: [one for one in _parameters(rv) if set(latents) & set(ancestors([one]))]
            for name, rv in observed.items()
        }
        # Together, so that they have their variables in common. An expectation may multiply a predictor, as the
        # cumulative normal does; so the predictors are those of the parameters too.
        depending = [parameter for each in parameters.values() for parameter in each]
        every = model.replace_rvs_by_values([*depending, *graphs])
        terms = every[len(depending) :]
        self._latent = LatentPieces(model, latents, point, every, theta)
        self.own = Predictors(self._latent.predictor, self._latent.predictor.design())
        replaced = iter(every)
        self.written = {
            name: self._as_written([next(replaced) for _ in each], theta, observed[name].type.ndim)
            for name, each in parameters.items()
        }
        self._places = [
            places_in_posterior(model, rv, self._latent.shapes[rv.name], posterior[rv.name]) for rv in latents
        ]
        self._grown = [
            self._grown_piece(model, rv, theta, places >= 0) if places.min() < 0 else None
            for rv, places in zip(latents, self._places, strict=True)
        ]
        self._theta = theta.initial
        written = self._latent.write(terms)
        self.functions = [theta.compile([self._latent.vector], [one], True) for one in written]
        # Here, where lengths that do not fit have a cause that can be named.
        for function in self.functions:
            function(np.zeros(self.own.rows.shape[0]), theta.initial)

    def _grown_piece(
        self, model: pm.Model, rv: TensorVariable, theta: ThetaVector, known: np.ndarray
    ) -> GrownPiece | GrownProcess:
        if is_dense(rv):
            return GrownProcess(DensePart(model, self._latent.single(model, rv), theta), known)
        piece, maps = piece_of(model, rv, self._latent, theta, model_prior), self._latent.maps
        return GrownPiece(piece, maps[rv.name].of_elements(known) if rv.name in maps else known)

    def _as_written(self, terms: list[TensorVariable], theta: ThetaVector, axes: int) -> list[Predictors]:
        leaves, found = self._latent.leaves, []
        for node, linear in written_predictors(terms, [leaf.node for leaf in leaves], theta.values, axes).items():
            predictor = LinearPredictor({node: linear}, leaves, theta)
            found.append(Predictors(predictor, predictor.design()))
        return found

    def draw(self, rng: np.random.Generator, given: Given) -> np.ndarray:
        """Draw the pieces, given theta and their sampled elements."""
        return given.pieces + self._deviation(rng, given)

    def given(self, theta: np.ndarray, values: list[np.ndarray]) -> Given:
        """Return the pieces, given theta and their sampled elements."""
        drawn = [np.append(np.ravel(one), 0.0)[places] for one, places in zip(values, self._places, strict=True)]
        pieces, new, start = self._latent.images(theta, drawn), [], 0
        for own, grown in zip(pieces, self._grown, strict=True):
            if grown is not None:
                own[~grown.known], factor = grown.given(theta, own)
                new.append((start + np.flatnonzero(~grown.known), factor))
            start += len(own)
        return Given(np.concatenate(pieces), new)

    def expected(self, rng: np.random.Generator, place: int, theta: np.ndarray, given: Given) -> np.ndarray:
        """Return a graph's expectation over the elements that were not sampled, given theta and the sampled ones.

        It is exact, by quadrature, if each observation depends on one sum of latent values; otherwise it is the mean
        over joint draws in antithetic pairs, which the mean over the posterior averages further.
        """
        if not given.new:
            return self.at(place, theta, given.pieces)
        if self._are_separate[place]:
            # Predictors of one observation are equal but for a constant, so that they move together.
            mean, variance = self.own.moments(theta, given)
            at_points = lambda points: np.array([self._function(place, theta, one) for one in points])  # noqa: E731
            return normal_expectation(at_points, mean - self.own.offsets(theta), variance)
        deviations = [self._deviation(rng, given) for _ in range(PAIRS)]
        both = [given.pieces + sign * deviation for deviation in deviations for sign in (1.0, -1.0)]
        return np.mean([self.at(place, theta, pieces) for pieces in both], axis=0)

    @cached_property
    def _are_separate(self) -> list[bool]:
        """Whether each element of a function depends on one distinct sum of latent values, for each function."""
        sites = distinct_rows(self.own.rows)[1].where
        number = int(sites.max()) + 1
        first, second = np.random.default_rng(0).standard_normal((2, number))
        masks = binary_masks(number)

        def separate(function: Any) -> bool:
            before, *after = (
                np.asarray(function(np.where(mask, second, first)[sites], self._theta)[0])
                for mask in (np.zeros_like(masks[0]), *masks)
            )
            ones, zeros = np.split(np.array(after) != before, 2)
            return not (ones & zeros).any()

        return [separate(function) for function in self.functions]

    def at(self, place: int, theta: np.ndarray, pieces: np.ndarray) -> np.ndarray:
        """Return a graph's value, given theta and the pieces."""
        return self._function(place, theta, self.own.at(theta, pieces) - self.own.offsets(theta))

    def _function(self, place: int, theta: np.ndarray, latent: np.ndarray) -> np.ndarray:
        return np.asarray(self.functions[place](latent, theta)[0])

    def _deviation(self, rng: np.random.Generator, given: Given) -> np.ndarray:
        """Draw the difference of the pieces from their mean."""
        deviation = np.zeros_like(given.pieces)
        for columns, factor in given.new:
            normals = rng.standard_normal(len(columns))
            deviation[columns] = linalg.solve_triangular(factor, normals, lower=True, trans="T")
        return deviation


def _dataset(model: pm.Model, found: dict[str, np.ndarray], observed: list[str], draws: int) -> xr.Dataset:
    points, variables, names = _Points(observed), {}, {}
    # The latent values come first: with one for each observation, these have their dimension.
    for name in sorted(found, key=lambda name: "latent_" not in name):
        values = found[name]
        core = name.endswith("probabilities")
        flat = values.reshape(-1, values.shape[-1]) if core else values.ravel()
        category = name.replace("probabilities", "category")
        variables[name] = ((points.of(name, len(flat)), category)[: flat.ndim], flat)
        if core:
            names[category] = category_names(model, [], flat.shape[-1])
    coords = points.numbers | names
    return xr.Dataset({name: variables[name] for name in found}, coords=coords, attrs={"draws": draws})
