"""Defaults that the command line shows before anything heavy is imported."""

import os

CHAINS = 4
"""The usual number for R-hat (Vehtari et al. 2021)."""
CORES = min(CHAINS, os.cpu_count() or 1)
