"""The counts of operations: blocks in each other, other threads and tasks, exceptions, generators."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Barrier

import pytest

from pmgp.core.numerics.ledger import OperationCounts, counted, record, record_several

THREADS, RECORDS = 4, 5_000


def cholesky(number: int) -> OperationCounts:
    return OperationCounts(cholesky=number)


def test_every_kind_by_name():
    with counted() as counts:
        for number, operation in enumerate(OperationCounts._fields, start=1):
            record(operation, number)
    assert counts.total == OperationCounts(cholesky=1, inverse=2, matmul=3, matvec=4)
    assert counts.total.cubic == (1, 2, 3)


def test_several_kinds_at_once():
    with counted() as outer, counted() as inner:
        record_several(cholesky=2, matvec=3)
        record_several(inverse=1)
    record_several(cholesky=5)
    assert inner.total == outer.total == OperationCounts(cholesky=2, inverse=1, matvec=3)


@pytest.mark.parametrize(
    ("enter", "error"), [(record, KeyError), (lambda name: record_several(**{name: 1}), TypeError)]
)
def test_an_unknown_operation_is_refused(enter, error):
    with counted(), pytest.raises(error, match="sorting"):
        enter("sorting")


def test_a_block_counts_from_its_beginning_to_its_end():
    record("cholesky")
    with counted() as counts:
        assert counts.total == cholesky(0)
        record("cholesky")
        assert counts.total == cholesky(1)
    record("cholesky")
    assert counts.total == cholesky(1)


def test_an_inner_block_is_part_of_the_outer_one():
    with counted() as outer:
        record("cholesky")
        with counted() as first:
            record("cholesky", 2)
        with counted() as second:
            record("cholesky", 4)
        record("cholesky", 8)
    assert (first.total, second.total, outer.total) == (cholesky(2), cholesky(4), cholesky(15))


def test_an_exception_ends_a_block_and_keeps_its_counts():
    ledgers = []

    def fail() -> None:
        with counted() as counts:
            ledgers.append(counts)
            record("inverse")
            raise ZeroDivisionError

    with counted() as outer:
        with pytest.raises(ZeroDivisionError):
            fail()
        record("inverse")
    assert ledgers[0].total.inverse == 1
    assert outer.total.inverse == 2


def test_threads_count_for_themselves():
    together = Barrier(THREADS)

    def work(number: int) -> OperationCounts:
        together.wait()
        with counted() as counts:
            for _ in range(RECORDS):
                record("cholesky", number)
        return counts.total

    with counted() as outside, ThreadPoolExecutor(THREADS) as pool:
        totals = list(pool.map(work, range(THREADS)))
    assert totals == [cholesky(number * RECORDS) for number in range(THREADS)]
    assert outside.total == cholesky(0)


def test_threads_in_copies_of_the_context_count_to_its_block_and_lose_nothing():
    together = Barrier(THREADS)

    def work() -> None:
        together.wait()
        for _ in range(RECORDS):
            record("matmul")

    with counted() as counts, ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(copy_context().run, work) for _ in range(THREADS)]:
            future.result()
    assert counts.total.matmul == THREADS * RECORDS


def test_tasks_do_not_disturb_each_other():
    async def work(number: int) -> OperationCounts:
        with counted() as counts:
            for _ in range(3):
                record("cholesky", number)
                await asyncio.sleep(0)
        return counts.total

    async def together() -> list[OperationCounts]:
        return await asyncio.gather(*(work(number) for number in range(3)))

    with counted() as counts:
        assert asyncio.run(together()) == [cholesky(0), cholesky(3), cholesky(6)]
    assert counts.total == cholesky(9)


def test_what_goes_on_after_the_block_is_not_counted_to_it():
    with counted() as counts:
        context = copy_context()
        record("cholesky")
    context.run(record, "cholesky")
    assert counts.total == cholesky(1)


def steps():
    """Records one operation each time it is resumed."""
    with counted() as counts:
        while True:
            record("cholesky")
            yield counts.total


def test_a_generator_that_waits_in_its_block_does_not_disturb_the_others():
    with counted() as outer:
        with counted() as first:
            generator = steps()
            assert next(generator) == cholesky(1)
        with counted() as second:
            assert next(generator) == cholesky(2)
            generator.close()
            record("cholesky")
    record("cholesky")
    assert (first.total, second.total, outer.total) == (cholesky(1), cholesky(2), cholesky(3))


def test_a_generator_that_ends_in_another_context():
    with counted() as outer:
        generator = steps()
        next(generator)
        copy_context().run(generator.close)
        record("cholesky")
    assert outer.total == cholesky(2)
