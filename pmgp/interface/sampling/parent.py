"""The end of workers whose parent is gone.

PyMC's workers wait at a pipe for messages of their parent. Forked workers hold a copy of its other end, so that after a
kill of the parent they would wait forever and keep their files open.
"""

from __future__ import annotations

import os
import threading
import time

EVERY = 0.2
"""Seconds between two checks."""


def end_with_parent(main: int) -> None:
    """End this process soon after its parent, whatever it is doing; do nothing in the process `main` itself.

    `main` is the number of the process that made the workers, directly or through a fork server.
    """
    if os.getpid() != main and hasattr(os, "getppid"):
        threading.Thread(target=_watch, args=(main, os.getppid()), daemon=True).start()


def _watch(main: int, parent: int) -> None:
    # A process whose parent is gone gets another one, usually process 1.
    while os.getppid() == parent and (parent != 1 or main == 1):
        time.sleep(EVERY)
    os._exit(1)
