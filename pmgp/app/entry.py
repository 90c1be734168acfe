"""The command ``pmgp``, with advice on installation if packages of the command line are missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from pmgp.app.cli import app
    except ModuleNotFoundError as error:
        sys.exit(f"error: the command line needs {error.name}: pip install 'pmgp[cli]' installs all that it needs")
    app()
