"""Transitions that leave p(f|theta, y) invariant."""

from pmgp.operators.base import LatentOperator
from pmgp.operators.elliptical_slice import EllipticalSlice
from pmgp.operators.hmc import LatentHMC
from pmgp.operators.metropolis import LatentMetropolis
from pmgp.operators.smmala import LatentSMMALA
from pmgp.operators.step_size import StepSize

__all__ = ["EllipticalSlice", "LatentHMC", "LatentMetropolis", "LatentOperator", "LatentSMMALA", "StepSize"]
