"""The command ``pmgp``, which says what to install where the command line's own packages are missing."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line.

    Raises
    ------
    SystemExit
        Always; where a package of the extra ``cli`` is missing, with the words that say so.
    """
    try:
        from pmgp.app.cli import app
    except ModuleNotFoundError as error:
        sys.exit(f"error: the command line needs {error.name}: pip install 'pmgp[cli]' installs all that it takes")
    app()
