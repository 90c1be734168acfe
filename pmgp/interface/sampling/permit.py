"""The permit of a run's workers: a file in the run's folder that they must see before they draw, and while they do.

A worker that does not find it shares no folder with the process that gave the task. A worker that no longer finds it,
or finds the permit of a later call, stops; so a worker that nobody can reach any more does not continue for long.
"""

from __future__ import annotations

import platform
import uuid
from typing import NamedTuple

from pmgp.interface.sampling import blocks
from pmgp.interface.sampling.address import Folder, StoreError

PERMIT = "workers"


class Permit(NamedTuple):
    """A permit to draw into a run's folder.

    The file holds the token, which is different for each call.
    """

    run: Folder
    token: str

    @classmethod
    def given(cls, run: Folder) -> Permit:
        """Write a new permit; any earlier one ends."""
        permit = cls(run, uuid.uuid4().hex)
        blocks.replace_text(run / PERMIT, permit.token)
        return permit

    def holds(self) -> bool:
        """Return whether the file still has this permit."""
        try:
            return (self.run / PERMIT).read_bytes().decode() == self.token
        except FileNotFoundError:
            return False

    def check(self) -> None:
        """Refuse to draw where the folder is not that of the process that gave the task."""
        if not self.holds():
            raise StoreError(
                f"the worker on {platform.node()} does not find this run in {self.run}: set out= to a folder that "
                "this machine and all workers share"
            )


def withdraw(run: Folder) -> None:
    """Let all workers stop that draw into a run's folder, also those of a process that was killed."""
    (run / PERMIT).unlink(missing_ok=True)
