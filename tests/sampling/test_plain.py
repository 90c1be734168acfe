"""Sampling states survive being written in a plain form, bit for bit, and nothing else can be read from a file."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_array_equal
from pymc.step_methods.state import equal_dataclass_values
from pymc.util import get_state_from_generator, random_generator_from_state

import pmgp
from pmgp.core.adaptation.mode_prediction import SameStart
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.estimators.choice import OF_ONE, OF_SEVERAL
from pmgp.core.numerics.storable import qualified_name
from pmgp.core.transitions.alternation import Alternation
from pmgp.interface.sampling.plain import from_bytes, to_bytes
from tests.steps.test_contract import FAST


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 2**100, -0.0, 0.1, np.inf, "words", [1, (2.5, "x")], {"a": 1, 2: [None]}, np.float32(0.1), (), {}],
    ids=repr,
)
def test_plain_values_come_back_with_their_types(value):
    back = from_bytes(to_bytes(value))
    assert back == value
    assert type(back) is type(value)


def test_nan_comes_back():
    assert np.isnan(from_bytes(to_bytes(float("nan"))))


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_arrays_come_back_with_their_order_in_memory(axes):
    array = np.random.default_rng(1).normal(size=(3, 4, 5)).transpose(axes)
    back = from_bytes(to_bytes(array))
    assert_array_equal(back, array)
    assert back.strides == array.strides
    assert back.flags.writeable


@pytest.mark.parametrize("array", [np.empty(0), np.array(2.0), np.empty((0, 3)), np.arange(6)[::2], np.array([True])])
def test_small_arrays_come_back(array):
    back = from_bytes(to_bytes(array))
    assert_array_equal(back, array)
    assert (back.shape, back.dtype) == (array.shape, array.dtype)


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64", "PCG64DXSM"])
def test_random_generators_continue(kind):
    generator = np.random.Generator(getattr(np.random, kind)(5)).spawn(3)[1]
    generator.normal(size=7)
    twin = random_generator_from_state(from_bytes(to_bytes(get_state_from_generator(generator))))
    assert_array_equal(twin.normal(size=20), generator.normal(size=20))
    assert_array_equal(twin.spawn(1)[0].normal(size=3), generator.spawn(1)[0].normal(size=3))


STEPS = {
    "pseudo-marginal": lambda: [pmgp.PseudoMarginal(compile_kwargs=FAST)],
    "by turns": lambda: [pmgp.PseudoMarginal(proposal=Alternation(), compile_kwargs=FAST)],
    "interweaving": lambda: [
        pmgp.steps.Interweaving(operator="hmc", compile_kwargs=FAST),
        pmgp.steps.LatentHMC(mass="prior"),
    ],
    "slice and PyMC's": lambda: [
        pmgp.EllipticalSlice(),
        pm.Slice([pm.modelcontext(None)["variance"]], compile_kwargs=FAST),
    ],
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("saved", [0, 70, 90])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_states_of_step_methods_come_back(probit_model, name, saved):
    with probit_model:
        steps = STEPS[name]()
    point = probit_model.initial_point()
    for step in steps:
        step.setup_chain(np.random.default_rng(1), 80, 20)
    for iteration in range(saved):
        for step in steps:
            if iteration == 80:
                step.stop_tuning()
            point, _ = step.step(point)
    for step in steps:
        state = step.sampling_state
        data = to_bytes(state)
        back = from_bytes(data)
        assert type(back) is type(state)
        assert equal_dataclass_values(back.rng, state.rng)
        # What was read is written alike: nothing is lost that the states hold.
        assert to_bytes(back) == data


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tuning_too_short_for_coefficients_leaves_one_start_for_all_fits(probit_model):
    """It is frozen in their stead, so that what comes after depends on it, and comes back with the state."""
    with probit_model:
        step, other = pmgp.PseudoMarginal(compile_kwargs=FAST), pmgp.PseudoMarginal(compile_kwargs=FAST)
    point = probit_model.initial_point()
    step.setup_chain(np.random.default_rng(1), 20, 20)
    for _ in range(20):
        point, _ = step.step(point)
    step.stop_tuning()
    point, _ = step.step(point)
    assert isinstance(step.frozen.predictor, SameStart)
    other.sampling_state = from_bytes(to_bytes(step.sampling_state))
    again = point
    for _ in range(10):
        point, again = step.step(point)[0], other.step(again)[0]
        assert_array_equal(again["f"], point["f"])


class Foreign(NamedTuple):
    value: int


@dataclass
class ForeignToo:
    value: int


@pytest.mark.parametrize("estimator", [*OF_ONE[1:], *OF_SEVERAL[1:]])
def test_estimators_that_tuning_may_choose_come_back(estimator):
    assert from_bytes(to_bytes(estimator)) == estimator


@pytest.mark.parametrize("value", [Foreign(1), ForeignToo(1), object(), {1, 2}, lambda: None, np.array([None])])
def test_other_types_are_refused_with_their_place(value):
    with pytest.raises(TypeError, match=r"the value\[1\]\['deep'\] cannot be stored"):
        to_bytes([0, {"deep": value}])


def written(tree, *arrays) -> bytes:
    """What `to_bytes` would write, with any tree."""
    buffer = io.BytesIO()
    for array in [np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8), *arrays]:
        np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def test_a_file_names_no_other_types():
    for name in ("subprocess.Popen", "pathlib.Path", f"{__name__}.Foreign"):
        with pytest.raises(ValueError, match="is not registered here"):
            from_bytes(written({"type": name, "attributes": [["value", 1]]}))


def test_a_file_names_no_other_random_generator():
    state = {"dict": [["bit_generator", "shuffle"]]}
    name = "pymc.util.RandomGeneratorState"
    attributes = [["bit_generator_state", state], ["seed_seq_state", {"dict": []}]]
    with pytest.raises(ValueError, match="unknown random generator"):
        from_bytes(written({"type": name, "attributes": attributes}))


def test_pickled_arrays_are_refused():
    with pytest.raises(ValueError, match="allow_pickle=False"):
        from_bytes(written({"array": 0, "axes": [0]}, np.array([None, {}])))


def test_states_of_another_version_are_refused():
    name = qualified_name(StepSize)
    with pytest.raises(ValueError, match="other attributes"):
        from_bytes(written({"type": name, "attributes": [["log_step", 0.0]]}))
    with pytest.raises(ValueError, match="unknown kind"):
        from_bytes(written({"set": []}))
