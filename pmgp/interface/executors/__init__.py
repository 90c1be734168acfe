"""Calls on the workers of any `concurrent.futures.Executor`: each call runs until it ends, and every wait has a limit.

May import: nothing.
"""

from pmgp.interface.executors.calls import (
    EVERY,
    STALL_LIMIT,
    Ended,
    Executors,
    WorkerError,
    check_executor,
    pickled,
    run_all,
    table_of,
)
from pmgp.interface.executors.cells import Cells
from pmgp.interface.executors.workers import executor_of

__all__ = [
    "EVERY",
    "STALL_LIMIT",
    "Cells",
    "Ended",
    "Executors",
    "WorkerError",
    "check_executor",
    "executor_of",
    "pickled",
    "run_all",
    "table_of",
]
