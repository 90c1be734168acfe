"""Whole runs: sampling with a report, until there are enough effective draws, in runs that survive an interruption.

May import: core, interface.dense_jax, interface.executors, interface.model, interface.sparse, interface.steps,
interface.recommendation, interface.importance, diagnostics.
"""

from pmgp.interface.sampling.address import Folder, StoreError, folder_of
from pmgp.interface.sampling.cross_validation import cross_validate
from pmgp.interface.sampling.drawing import NoDrawsError
from pmgp.interface.sampling.model_evidences import evidences
from pmgp.interface.sampling.report import Report, report
from pmgp.interface.sampling.run import resume, sample
from pmgp.interface.sampling.stored_run import StoredRun, delete

__all__ = [
    "Folder",
    "NoDrawsError",
    "Report",
    "StoreError",
    "StoredRun",
    "cross_validate",
    "delete",
    "evidences",
    "folder_of",
    "report",
    "resume",
    "sample",
]
