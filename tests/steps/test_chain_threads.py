"""A chain has one BLAS thread for few points, or its share of `blas_cores`; the caller has his own again afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pymc as pm
import pytest
from pymc.step_methods.compound import BlockedStep

import pmgp
from pmgp.core.numerics import threads
from pmgp.core.numerics.threads import blas_threads, threads_limited
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.steps.chain_step import ChainStep
from pmgp.interface.steps.shared import share
from pmgp.interface.steps.threads import ThreadShare


class Recording:
    """Mixin: the threads of BLAS while the step computes, as a sample statistic."""

    stats_dtypes_shapes: ClassVar[dict] = {"threads": (np.int64, [])}

    def _update(self, point):
        moved, stats = super()._update(point)
        return moved, stats | {"threads": blas_threads()}


class RecordingPseudoMarginal(Recording, pmgp.PseudoMarginal):
    stats_dtypes_shapes: ClassVar[dict] = pmgp.PseudoMarginal.stats_dtypes_shapes | Recording.stats_dtypes_shapes


class RecordingSlice(Recording, pmgp.EllipticalSlice):
    stats_dtypes_shapes: ClassVar[dict] = pmgp.EllipticalSlice.stats_dtypes_shapes | Recording.stats_dtypes_shapes


class RecordingAncillary(Recording, pmgp.steps.Ancillary):
    stats_dtypes_shapes: ClassVar[dict] = pmgp.steps.Ancillary.stats_dtypes_shapes | Recording.stats_dtypes_shapes


def threads_of_a_chain(model, steps=(RecordingPseudoMarginal,), sample=pm.sample, chains=2, **settings):
    """The number that all iterations of all chains have seen, with a caller who has three."""
    with threads_limited(3, exactly=True), model:
        idata = sample(
            tune=3, draws=3, chains=chains, step=[step() for step in steps], progressbar=False, random_seed=1,
            compute_convergence_checks=False, **settings,
        )  # fmt: skip
        assert blas_threads() == 3
    [number] = np.unique(idata["sample_stats"]["threads"])
    return number


pytestmark = pytest.mark.filterwarnings("ignore:with .* importance samples:UserWarning")


@pytest.mark.parametrize("cores", [1, 2])
def test_one_thread_for_few_points(probit_model, cores):
    assert threads_of_a_chain(probit_model, cores=cores) == 1


def test_every_family_of_step_methods(probit_model):
    assert threads_of_a_chain(probit_model, (RecordingAncillary, RecordingSlice), cores=1) == 1


@pytest.mark.parametrize(
    ("cores", "blas_cores", "expected"), [(1, 2, 2), (2, 4, 2), (2, 1, 1), (1, 5, 5), (1, None, 3), (2, None, 3)]
)
def test_blas_cores_is_honored(probit_model, cores, blas_cores, expected):
    found = threads_of_a_chain(probit_model, sample=pmgp.sample, cores=cores, blas_cores=blas_cores)
    assert found == expected


def test_spawned_workers(probit_model):
    """With step methods for theta and f; the pseudo-marginal one is among the features (`tests/support`)."""
    spawned = {"cores": 2, "blas_cores": 4, "mp_ctx": "spawn"}
    steps = (RecordingAncillary, RecordingSlice)
    assert threads_of_a_chain(probit_model, steps, sample=pmgp.sample, **spawned) == 2


@pytest.fixture
def many(monkeypatch):
    """Few points count as many, on a machine of eight cores."""
    monkeypatch.setattr(threads, "SMALLEST_THREADED", 1)
    monkeypatch.setattr(threads, "available_cores", lambda: 8)


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (2, 1), (4, 2)])
def test_many_points_get_the_cores_left_to_a_chain(probit_model, many, cores, expected):
    assert threads_of_a_chain(probit_model, sample=pmgp.sample, cores=cores) == expected


@pytest.mark.parametrize(("cores", "expected"), [(1, 3), (2, 1)])
def test_a_chain_that_is_told_nothing_takes_one_thread_in_a_worker(probit_model, many, cores, expected):
    """In the main process it takes what there is: three here, and four at most."""
    assert threads_of_a_chain(probit_model, cores=cores) == expected


def test_no_more_than_four_are_taken_by_default(many):
    with threads_limited(6, exactly=True), ThreadShare.default().limited(1000):
        assert blas_threads() == 4


def test_tuning_ends_with_one_thread(probit_model, monkeypatch):
    seen = []
    freeze = pmgp.PseudoMarginal._freeze
    monkeypatch.setattr(
        pmgp.PseudoMarginal, "_freeze", lambda self, tuning: (seen.append(blas_threads()), freeze(self, tuning))[1]
    )
    assert threads_of_a_chain(probit_model, cores=1) == 1
    assert seen == [1, 1]


def test_tuning_ends_with_the_chain_s_threads_after_it_was_restored_there(probit_model, many, monkeypatch):
    """A run that stopped between tuning and its first draw: the number of threads affects rounding."""
    seen = []
    monkeypatch.setattr(pmgp.PseudoMarginal, "_freeze", lambda self, tuning: seen.append(blas_threads()))
    with threads_limited(3, exactly=True):
        first, restored = (pmgp.PseudoMarginal(model=probit_model) for _ in range(2))
        point = probit_model.initial_point()
        for step in (first, restored):
            step.share_threads(ThreadShare.granted("auto", 2, 1))
            step.setup_chain(np.random.default_rng(1), 2, 2)
        for _ in range(2):
            point, _ = first.step(point)
        restored.sampling_state = first.sampling_state
        first.stop_tuning()
        restored.stop_tuning()
    assert seen == [2, 2]


def test_every_step_method_limits_threads():
    public = [getattr(pmgp.steps, name) for name in pmgp.steps.__all__]
    methods = [value for value in public if isinstance(value, type) and issubclass(value, BlockedStep)]
    assert len(methods) == 15
    assert all(issubclass(method, ChainStep) for method in methods)


def test_each_thread_has_functions_of_its_own():
    model = pmgp.models.classifier(np.arange(6.0)[:, None], [0, 1, 0, 1, 1, 0])
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(share, model).result()
        assert other.submit(share, model).result() is theirs
    assert share(model) is share(model)
    assert share(model) is not theirs
    assert share(model).parts is not theirs.parts


def test_another_initial_point_is_not_that_of_an_earlier_step_method():
    model = pmgp.models.classifier(np.arange(6.0)[:, None], [0, 1, 0, 1, 1, 0])
    first = model.initial_point()
    second = {name: value + 1.0 for name, value in first.items()}
    kwargs = {"compile_kwargs": {"mode": INTERPRETED}}
    thetas = [share(model, initial_point=point, **kwargs).parts.initial_theta for point in (first, second, first)]
    np.testing.assert_array_equal(thetas[1], thetas[0] + 1.0)
    np.testing.assert_array_equal(thetas[2], thetas[0])
