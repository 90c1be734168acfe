"""Random streams are named: what else there is in a study, and in which order, changes no cell's random numbers."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from case_studies.annealing import study as annealing
from case_studies.calibrated_classification import study as classification
from case_studies.latent_operators import study as operators
from case_studies.orthants import study as orthants
from case_studies.parameterizations import study as parameterizations
from case_studies.pseudo_marginal import study as pseudo_marginal
from case_studies.tools import simulation
from case_studies.tools.grid import Grid, Unit
from case_studies.tools.provenance import STREAMS, provenance
from case_studies.tools.scale import Scale
from case_studies.tools.stream import stream
from case_studies.tools.table import Table

TINY = Scale("tiny", seed=3, chains=2, tune=10, draws=30, checkpoints=(10, 30), datasets=2)

NAMES = [
    (), ("a",), ("b",), ("a", "b"), ("b", "a"), ("ab",), ("a", ""), ("3",), (3,), (3, 0), (0,), ("a", 3), ("a, 3",),
]  # fmt: skip


# ---- the function


@pytest.mark.parametrize(("one", "other"), list(combinations(NAMES, 2)), ids=repr)
def test_other_names_are_another_stream(one, other):
    assert not np.allclose(stream(1, *one).random(4), stream(1, *other).random(4))


def test_another_seed_is_another_stream_and_none_is_a_name():
    drawn = [stream(1, "a"), stream(2, "a"), stream(0, 1, "a"), stream(1, 1, "a"), stream(-1, "a")]
    assert len({rng.random() for rng in drawn}) == 5


def test_streams_of_many_names_are_independent():
    """Streams of neighboring numbers have means as far from one half as expected by chance, and do not correlate."""
    draws = np.array([stream(5, "chain", number).random(400) for number in range(200)])
    assert abs(draws.mean() - 0.5) < 4.0 / np.sqrt(12.0 * draws.size)
    correlations = np.corrcoef(draws)[np.triu_indices(200, 1)] * np.sqrt(400)
    assert abs(np.mean(np.square(correlations)) - 1.0) < 4.0 * np.sqrt(2.0 / len(correlations))
    assert np.abs(correlations).max() < 6.0


def test_a_stream_is_the_same_in_another_process():
    """Python's own hash of a word is not."""
    code = "from case_studies.tools.stream import stream; print(stream(7, 'Glass', 20, 'EP').integers(2**60))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(run.stdout) == stream(7, "Glass", 20, "EP").integers(2**60)


def test_numbers_of_numpy_name_the_same():
    assert stream(np.int64(7), np.int32(20)).random() == stream(7, 20).random()


@pytest.mark.parametrize("name", [0.5, None, ("a",), np.float64(2.0)])
def test_what_is_neither_word_nor_integer_names_nothing(name):
    with pytest.raises(TypeError, match="words and integers, not by"):
        stream(1, name)
    with pytest.raises(TypeError, match="words and integers, not by"):
        stream(name, "a")


# ---- the studies


def extended(names: dict | tuple) -> dict | tuple:
    """In the opposite order, with another one in the middle; of lists by experiment each."""
    if isinstance(names, dict):
        pairs = list(reversed(names.items()))
        if isinstance(pairs[0][1], tuple):
            return {name: extended(values) for name, values in pairs}
        return dict([*pairs[:1], ("another", pairs[-1][1]), *pairs[1:]])
    return (*names[:0:-1], "another", names[0])


def operators_draws() -> dict:
    cells = operators.cells([10], [2], range(2))
    return {
        (stream_of.__name__, *cell): stream_of(TINY, cell, 1).random()
        for cell in cells
        for stream_of in (operators._start_stream, operators._chain_stream)
    }


def parameterizations_draws() -> dict:
    units = parameterizations.units(TINY, parameterizations.cells(TINY))
    return {unit: parameterizations._chain_stream(TINY, unit).random() for unit in units}


def pseudo_marginal_draws() -> dict:
    units = [Unit(cell, chain) for cell in pseudo_marginal.cells() for chain in range(2)]
    return {unit: pseudo_marginal._chain_stream(TINY, unit).random() for unit in units}


def classification_draws() -> dict:
    scale, blocks = (
        classification.SCALES["quick"],
        [classification.Block("Pima", 10), classification.Block("Glass", 20)],
    )
    units = [unit for block in blocks for unit in classification.units(block, range(2))]
    return {
        (stream_of.__name__, *unit): stream_of(scale, unit).random()
        for unit in units
        for stream_of in (classification._split_stream, classification._classifier_stream)
    }


def annealing_draws() -> dict:
    scale = annealing.SCALES["quick"]
    every = [*annealing.units(scale), annealing.Posterior(10), annealing.Preliminary("Pima", "ARD", 1)]
    return {unit.name: annealing._stream(scale, unit).random() for unit in every}


def orthants_draws() -> dict:
    scale = orthants.SCALES["quick"]
    return {unit.name: orthants._stream(scale, unit).random() for unit in orthants.units(scale)}


LISTS = [
    (operators_draws, operators, "OPERATORS"),
    (parameterizations_draws, parameterizations, "REAL"),
    (parameterizations_draws, parameterizations, "SCHEMES"),
    (parameterizations_draws, parameterizations, "OPERATORS"),
    (parameterizations_draws, simulation, "MODELS"),
    (pseudo_marginal_draws, pseudo_marginal, "KERNELS"),
    (pseudo_marginal_draws, pseudo_marginal, "METHODS"),
    (classification_draws, classification, "CLASSIFIERS"),
    (classification_draws, classification.data, "NAMES"),
    (annealing_draws, annealing, "REAL"),
    (annealing_draws, annealing, "KERNELS"),
    (annealing_draws, annealing, "APPROXIMATIONS"),
    (annealing_draws, annealing, "_COMPUTE"),
    (orthants_draws, orthants, "COMPETITORS"),
    (orthants_draws, orthants, "FEW"),
    (orthants_draws, orthants, "DRAWS"),
]


@pytest.mark.parametrize(("draws", "module", "name"), LISTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_reordered_and_extended_lists_leave_the_streams_as_they_are(monkeypatch, draws, module, name):
    before = draws()
    monkeypatch.setattr(module, name, extended(getattr(module, name)))
    after = draws()
    common = before.keys() & after.keys()
    assert len(common) > 0.5 * len(before)
    assert {key: after[key] for key in common} == {key: before[key] for key in common}
    assert len(set(after.values())) > 1


def test_a_cell_gives_the_same_beside_other_models_and_operators(monkeypatch):
    """Data, starts and chains: all of a cell's result but its time."""
    cell = operators.Cell(12, 2, 0, "VLT", "ELL-SS")
    before = operators.run_cell(TINY, cell)
    monkeypatch.setattr(operators, "OPERATORS", extended(operators.OPERATORS))
    monkeypatch.setattr(simulation, "MODELS", extended(simulation.MODELS))
    after = operators.run_cell(TINY, cell)
    assert before.pop("seconds") > 0.0
    assert after.pop("seconds") > 0.0
    assert after == before


# ---- results that precede them


def test_finished_lines_without_the_column_count_and_stay_as_they_are(tmp_path):
    """A table of before, to which a line is added that says how its streams were made."""
    table = Table(tmp_path / "old.csv", ["n"], lambda frame: frame.sort_values("n"))
    table.path.write_text("n,seed,ess,version\n10,1,2.5,0.1.0\n")
    assert table.missing([(10,), (20,)], {"seed": 1}) == [(20,)]
    table.merge(pd.DataFrame([{"n": 20, "seed": 1, "ess": 3.5, **provenance()}]))
    assert table.missing([(10,), (20,)], {"seed": 1}) == []
    lines = table.read()
    assert lines["ess"].tolist() == [2.5, 3.5]
    assert lines["streams"].isna().tolist() == [True, False]
    assert lines["streams"].tolist()[1] == STREAMS


def test_a_chain_of_other_streams_is_not_mixed_with_new_ones(tmp_path, monkeypatch):
    """Chains of one cell have their data in common, and those depend on how streams are made."""
    unit, grid = Unit(operators.Cell(10, 2, 0, "LRG", "MH v1"), 0), Grid(tmp_path, {"seed": 1})
    list(grid.run([unit], lambda unit: {"ess": 2.0}))
    assert grid.finished(unit) == {"ess": 2.0}
    monkeypatch.setattr("case_studies.tools.grid.STREAMS", "otherwise")
    assert grid.finished(unit) is None
