"""Functions made of a model's graphs: compiled, interpreted, or compiled when they are first called.

Numba takes seconds to compile a graph and microseconds for a call. A function that is called only a few times, or
perhaps never, is not worth compiling.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

import pytensor
import pytensor.scalar as ps
import pytensor.tensor as pt
from pymc.pytensorf import compile as compile_pytensor
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.compile.rewriting import inline_ofg_node
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.link.vm import VMLinker
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.rewriting import ONLY_FOR_C

# A child of PyMC's logger, so that messages appear as PyMC's own do.
logger = logging.getLogger("pymc.pmgp")


def _inlined(fgraph: Any, node: Any) -> list[Any]:
    """Inline a nested graph, such as softmax, which PyTensor would otherwise compile with a C compiler."""
    return inline_ofg_node(node)


def _divided(fgraph: Any, node: Any) -> list[Any] | None:
    """Nest a sum or product that has more terms than a NumPy function takes."""
    terms = list(node.inputs)
    if not isinstance(node.op.scalar_op, ps.Add | ps.Mul) or len(terms) <= MOST_TERMS:
        return None
    while len(terms) > 1:
        parts = (terms[start : start + MOST_TERMS] for start in range(0, len(terms), MOST_TERMS))
        terms = [node.op(*part) if len(part) > 1 else part[0] for part in parts]
    return terms


def _not_reduced(fgraph: Any, node: Any) -> list[Any] | None:
    """Leave out a sum over an axis that a scalar does not have; PyTensor writes it, as NumPy's functions allow it."""
    [reduced] = node.inputs
    return None if reduced.ndim else [reduced.astype(node.outputs[0].dtype)]


def _clipped(fgraph: Any, node: Any) -> list[Any] | None:
    """Clip with functions of NumPy: PyTensor calls one of Python's for each element."""
    if not isinstance(node.op.scalar_op, ps.Clip):
        return None
    x, least, most = node.inputs
    return [pt.switch(x < least, least, pt.minimum(x, most)).astype(node.outputs[0].dtype)]


MOST_TERMS = 31
# A position among PyTensor's rewrites, some of which look for softmax and introduce it.
AFTER_SPECIALIZATION = 48.0
# NumPy computes each operation; rewrites for accuracy are kept, and those that are only for speed are left out.
FAST_ONLY = [*ONLY_FOR_C, "fusion", "inplace", "BlasOpt"]


def _interpreting(rewrites: list[str]) -> Mode:
    return Mode(
        linker=VMLinker(use_cloop=False, c_thunks=False),
        optimizer=RewriteDatabaseQuery(include=rewrites, exclude=FAST_ONLY),
    ).register(
        (dfs_rewriter(node_rewriter([OpFromGraph])(_inlined)), AFTER_SPECIALIZATION),
        (dfs_rewriter(node_rewriter([Elemwise])(_divided)), AFTER_SPECIALIZATION + 0.1),
        (dfs_rewriter(node_rewriter([Elemwise])(_clipped)), AFTER_SPECIALIZATION + 0.15),
        (dfs_rewriter(node_rewriter([CAReduce])(_not_reduced)), AFTER_SPECIALIZATION + 0.2),
    )


INTERPRETED = _interpreting(["fast_run", "py_only"])
# Rewriting takes ten to a hundred times as long as one evaluation of a small graph.
AS_WRITTEN = _interpreting(["merge"])


class Compiler:
    """A compiler of graphs to functions, which trust their inputs to be float64 arrays in C order."""

    def __init__(self, settings: dict[str, Any] | None = None) -> None:
        self.settings = dict(settings or {})

    @property
    def mode_given(self) -> bool:
        """Whether the user chose PyTensor's mode."""
        return "mode" in self.settings

    def __call__(
        self, inputs: list[TensorVariable], outputs: list[TensorVariable], interpreted: bool = False
    ) -> Callable[..., Any]:
        """Return a function that maps inputs to a list of outputs.

        Interpreted graphs are ready at once, but slow. The user's own mode takes precedence.
        """
        return self._compiled(inputs, outputs, {"mode": INTERPRETED} if interpreted else {})

    def as_written(self, inputs: list[TensorVariable], outputs: list[TensorVariable]) -> Callable[..., Any]:
        """Return a function as above that computes the operations of the graphs as they are, without rewrites.

        It is for graphs that are rewritten already, or that are evaluated once where rounding does not matter.
        """
        return self._compiled(inputs, outputs, {"mode": AS_WRITTEN})

    def _compiled(
        self, inputs: list[TensorVariable], outputs: list[TensorVariable], mode: dict[str, Any]
    ) -> Callable[..., Any]:
        with making_graphs():
            function = compile_pytensor(inputs, outputs, on_unused_input="ignore", **{**mode, **self.settings})
        function.trust_input = True
        return function


class CompiledWhenCalled:
    """A function that is compiled at its first call; it can be pickled before and after that."""

    def __init__(self, compile_function: Callable[[], Callable[..., Any]]) -> None:
        self.compile_function = compile_function
        self.function: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        """Return all outputs."""
        self.compile()
        assert self.function is not None
        return self.function(*args)

    def compile(self) -> None:
        """Compile the function now, unless it is compiled."""
        if self.function is None:
            self.function = self.compile_function()


class CompiledOnRequest(CompiledWhenCalled):
    """A function with a substitute that stands in until the function is compiled for many calls.

    `make_substitute` makes a function with the same values that is slower but ready at once, or returns None to have it
    compiled.
    """

    def __init__(
        self, compile_function: Callable[[], Callable[..., Any]], make_substitute: Callable[[], Any | None]
    ) -> None:
        super().__init__(compile_function)
        self.make_substitute = make_substitute
        self.substitute: Any | None = None

    def __call__(self, *args: Any) -> Any:
        """Return all outputs, computed with the substitute until the function is compiled."""
        if self.function is None and self.substitute is None:
            self.substitute = self.make_substitute()
        if self.function is None and self.substitute is not None:
            return self.substitute(*args)
        return super().__call__(*args)

    def refresh_data(self) -> None:
        """Let the substitute read the data again; a compiled function reads them at each call."""
        if self.substitute is not None:
            self.substitute.refresh_data()


@contextmanager
def making_graphs() -> Iterator[None]:
    """Save time while graphs are made, rewritten and compiled.

    PyTensor records no lines of code with the nodes: those of the user's model have been recorded, and nodes made from
    them would name lines of this package and of PyTensor. Python's garbage collector is paused, since most of the
    objects stay: searching them took a quarter of the time.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with pytensor.config.change_flags(traceback__limit=0):
            yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def announced(after: float = 2.0) -> Iterator[None]:
    """Write to PyMC's log that functions are being compiled, if that takes longer than `after` seconds."""
    timer = Timer(after, lambda: logger.info("Compiling the model (the next run finds the result on disk)"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
