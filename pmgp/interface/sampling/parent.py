"""A worker ends when its parent is gone.

PyMC's workers wait for their parent's word at a pipe. Where they are forked they hold a copy of its other end: a parent
that was killed leaves them waiting for ever, and with them the files that they write.
"""

from __future__ import annotations

import os
import threading
import time

EVERY = 0.2
"""Seconds between two looks."""


def end_with_parent(main: int) -> None:
    """End this process soon after its parent, at whatever it is; do nothing in the process `main` itself.

    Parameters
    ----------
    main : int
        The process that made the workers, or had them made by a server of its.
    """
    if os.getpid() != main and hasattr(os, "getppid"):
        threading.Thread(target=_watch, args=(main, os.getppid()), daemon=True).start()


def _watch(main: int, parent: int) -> None:
    # A process whose parent is gone is given to another one, mostly to the first of all.
    while os.getppid() == parent and (parent != 1 or main == 1):
        time.sleep(EVERY)
    os._exit(1)
