"""Graphs that are rewritten once: what counts as the same graph, and what is kept."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
import scipy.sparse as sp
from pytensor.graph.rewriting.utils import rewrite_graph

import pmgp
from pmgp.interface.graphs import matrix_rewrites
from pmgp.interface.graphs import remembered as module
from pmgp.interface.graphs.remembered import remembered
from tests.sparse.problems import X, sparse


@pytest.fixture
def rewrite(monkeypatch):
    """A function that rewrites graphs and counts its calls."""
    monkeypatch.setattr(module, "_entries", type(module._entries)())

    @remembered
    def counted(outputs, **settings):
        counted.calls += 1
        return rewrite_graph(outputs, include=("canonicalize", "specialize"))

    counted.calls = 0
    return counted


def graph(shift=2.0, name="x", dtype="float64", minus=False):
    x, y = pt.vector(name, dtype=dtype), pt.vector("y")
    moved = pt.exp(x) * np.asarray(shift)
    return [x, y], [(moved - y if minus else y - moved).sum(), moved]


def values(inputs, outputs, *at):
    return pytensor.function(inputs, outputs, mode="FAST_COMPILE", on_unused_input="ignore")(*at)


def test_the_same_operations_on_other_variables_are_rewritten_once(rewrite, rng):
    at = rng.standard_normal((2, 4))
    for name in ("x", "other"):
        inputs, outputs = graph(name=name)
        expected = values(inputs, outputs, *at)
        new = rewrite(outputs)
        assert set(pytensor.graph.traversal.explicit_graph_inputs(new)) == set(inputs)
        for found, value in zip(values(inputs, new, *at), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-12)
    assert rewrite.calls == 1


@pytest.mark.parametrize(
    "other",
    [{"shift": 3.0}, {"shift": [2.0]}, {"dtype": "float32"}, {"minus": True}],
    ids=["value", "shape", "type", "order"],
)
def test_another_graph_is_rewritten_anew(rewrite, other, rng):
    at = rng.standard_normal((2, 4))
    rewrite(graph()[1])
    inputs, outputs = graph(**other)
    at = [row.astype(variable.dtype) for row, variable in zip(at, inputs, strict=True)]
    expected = values(inputs, outputs, *at)
    np.testing.assert_allclose(values(inputs, rewrite(outputs), *at)[0], expected[0], rtol=1e-5)
    assert rewrite.calls == 2


def test_equal_bytes_are_not_equal_constants(rewrite):
    x = pt.matrix("x")
    for array in (np.zeros((3, 1)), np.zeros((1, 3)), np.zeros((3, 1), dtype=int)):
        new = values([x], rewrite([x @ pt.constant(array)]), np.ones((len(array), len(array))))[0]
        assert new.shape == array.shape
    assert rewrite.calls == 3


def test_other_settings_and_functions_are_apart(rewrite):
    other = remembered(lambda outputs: [2.0 * output for output in outputs])
    for settings in ({}, {"exclude": (1,)}, {"exclude": (1, 2)}, {"include": (1, 2)}):
        rewrite(graph()[1], **settings)
    assert rewrite.calls == 4
    inputs, outputs = graph()
    at = np.ones((2, 3))
    np.testing.assert_allclose(values(inputs, other(outputs), *at)[1], 2.0 * values(inputs, outputs, *at)[1])


def test_a_graph_that_is_used_again_and_again_is_kept(rewrite, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 2)
    for other in (3.0, 4.0, 5.0, 6.0):
        rewrite(graph(shift=other)[1])
        rewrite(graph()[1])
    assert rewrite.calls == 5


def test_an_array_that_is_changed_where_it_lies_is_seen(rewrite):
    """Neither the graph kept for its old values nor the kept graph that refers to it is taken."""
    data = np.arange(20.0)

    def shifted(array):
        x = pt.vector("x")
        return [x], [x + pt.constant(array)]

    rewrite(shifted(data)[1])
    before = data.copy()
    data += 1.0
    for array in (data, before):
        inputs, outputs = shifted(array)
        np.testing.assert_array_equal(values(inputs, rewrite(outputs), np.zeros(20))[0], array)


def test_what_is_done_to_a_graph_does_not_reach_the_kept_one(rewrite):
    at = np.ones((2, 3))
    expected = values(*graph(), *at)
    for _ in range(2):
        inputs, outputs = graph()
        new = rewrite(outputs)
        np.testing.assert_allclose(values(inputs, new, *at)[1], expected[1])
        for variable in new:
            variable.owner.inputs[0] = pt.zeros_like(variable.owner.inputs[0])
    assert rewrite.calls == 1


def test_shared_data_are_those_of_the_graph_at_hand(rewrite):
    for value in (1.0, 5.0):
        x, data = pt.vector("x"), pytensor.shared(np.full(3, value))
        assert values([x], rewrite([x * data]), np.ones(3))[0].tolist() == [value] * 3
    assert rewrite.calls == 1


def test_shared_data_do_not_outlive_their_graph(rewrite):
    data = pytensor.shared(np.ones(3))
    gone = weakref.ref(data)
    rewrite([pt.vector("x") * data])
    assert len(module._entries) == 1
    del data
    gc.collect()
    assert gone() is None


def test_sparse_matrices_of_one_shape_are_apart(rewrite):
    """Python prints no values of them."""
    for value in (1.0, 5.0):
        x = pt.matrix("x")
        product = ps.structured_dot(ps.as_sparse_variable(sp.csr_matrix(value * np.eye(3))), x)
        np.testing.assert_array_equal(values([x], rewrite([product]), np.eye(3))[0], value * np.eye(3))


def test_outputs_may_be_inputs_or_constants(rewrite):
    for _ in range(2):
        x, number = pt.vector("x"), pt.constant(3.0)
        first, second = rewrite([x, number])
        assert first is x
        assert second.data == 3.0
    assert rewrite.calls == 1


def test_large_constants_are_not_kept(rewrite, monkeypatch):
    """Neither those of the graph nor those that PyTensor computes from them."""
    monkeypatch.setattr(module, "LARGEST", 1000)
    x, wide, column = pt.vector("x"), np.ones(200), pt.constant(np.arange(40.0)[:, None])
    for outputs in ([x * wide], [x[:, None] + (column - column.T) ** 2]):
        for _ in range(2):
            rewrite(outputs)
    assert rewrite.calls == 4
    assert not module._entries


def test_so_many_graphs_are_kept(rewrite):
    for shift in range(module.KEPT + 3):
        rewrite(graph(shift=float(shift))[1])
    assert len(module._entries) == module.KEPT
    rewrite(graph(shift=float(shift))[1])
    assert rewrite.calls == module.KEPT + 3


def test_a_model_that_is_built_again_is_not_rewritten_again(monkeypatch):
    calls = []
    plain = matrix_rewrites.rewrite
    monkeypatch.setattr(module, "_entries", type(module._entries)())
    monkeypatch.setattr(matrix_rewrites, "rewrite", lambda *a, **k: calls.append(a) or plain(*a, **k))
    for _ in range(2):
        model, _ = sparse(X[::3])
        pmgp.steps.SparseGibbs(model=model)
        calls.append(None)
    first, second = calls.index(None), len(calls) - calls.index(None) - 2
    assert first > 0
    assert second == 0
