"""The reports of a run: text on the console, files in a folder, one HTML page.

May import: app, models, datasets, scores, plots, diagnostics.
"""

from pmgp.app.report.console import print_outcome, print_problem
from pmgp.app.report.files import save_posterior, write

__all__ = ["print_outcome", "print_problem", "save_posterior", "write"]
