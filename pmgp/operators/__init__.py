"""Transitions that leave p(f|theta, y) invariant."""

from pmgp.operators.elliptical_slice import EllipticalSlice

__all__ = ["EllipticalSlice"]
