"""Count the O(n^3) operations that a piece of code makes, and its products of an n x n matrix with a vector.

>>> with counted() as counts:
...     record("cholesky")
>>> counts.total
OperationCounts(cholesky=1, inverse=0, matmul=0, matvec=0)

An open block belongs to the context (:mod:`contextvars`) that opened it: other threads, and tasks that were started
before, count for themselves. Work that a block starts in a copy of its context counts for the block.
"""

from __future__ import annotations

from contextvars import ContextVar
from threading import Lock
from typing import Literal, NamedTuple, Self

Operation = Literal["cholesky", "inverse", "matmul", "matvec"]


class OperationCounts(NamedTuple):
    """Numbers of operations with n x n matrices.

    - `cholesky`: Cholesky factorizations
    - `inverse`: inversions
    - `matmul`: products of two n x n matrices
    - `matvec`: products of a symmetric n x n matrix with a vector: O(n^2) each, and one for each column of a thin
      matrix
    """

    cholesky: int = 0
    inverse: int = 0
    matmul: int = 0
    matvec: int = 0

    @property
    def cubic(self) -> tuple[int, int, int]:
        """The numbers of O(n^3) operations: all but the last."""
        return self[:3]


class Ledger:
    """Counter of the operations recorded inside its block; see :func:`counted`."""

    __slots__ = ("_lock", "_numbers", "_open")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = dict.fromkeys(OperationCounts._fields, 0)
        self._open = False
        # Threads that run in copies of one context write into one ledger.
        self._lock = Lock()

    @property
    def total(self) -> OperationCounts:
        """The operations so far, or all operations of the block if it has ended."""
        return OperationCounts(*self._numbers.values())

    def __enter__(self) -> Self:
        self._open = True
        _ledgers.set((*_ledgers.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        self._open = False
        # Not always the last: a generator suspended inside its block outlives blocks that were opened before it.
        _ledgers.set(tuple([ledger for ledger in _ledgers.get() if ledger is not self]))


_ledgers: ContextVar[tuple[Ledger, ...]] = ContextVar("ledgers", default=())


def counted() -> Ledger:
    """Count the operations of a block of code: ``with counted() as counts: ...``, and then ``counts.total``.

    Blocks may be nested: the outer one counts the operations of the inner one too. If an exception ends a block, the
    operations up to then are counted.
    """
    return Ledger()


def record(operation: Operation, number: int = 1) -> None:
    """Count operations in all open blocks of this context; takes a third of a microsecond with one block open."""
    for ledger in _ledgers.get():
        with ledger._lock:
            if ledger._open:
                ledger._numbers[operation] += number


def record_several(cholesky: int = 0, inverse: int = 0, matvec: int = 0) -> None:
    """Record several kinds of operations at once, which is faster than one by one."""
    for ledger in _ledgers.get():
        with ledger._lock:
            if ledger._open:
                numbers = ledger._numbers
                numbers["cholesky"] += cholesky
                numbers["inverse"] += inverse
                numbers["matvec"] += matvec
