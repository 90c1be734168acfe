"""What preconditioners that iterate have in common: the solver inside, and what they refuse."""

from __future__ import annotations

from typing import NoReturn

from pmgp.core.iterative.solvers import ConjugateGradients

__all__ = ["INNER", "UnknownLogDeterminantError", "refuse_log_determinant"]

INNER = ConjugateGradients(tolerance=1e-4, cap=10_000)
"""The solver inside a preconditioner that iterates; it measures residuals relative to the right-hand side."""


class UnknownLogDeterminantError(ValueError):
    """A preconditioner has no log-determinant and no draws, which would need a factorization of the whole matrix."""


def refuse_log_determinant(kind: str) -> NoReturn:
    """Raise an error that names alternatives to a preconditioner without log-determinant and draws."""
    raise UnknownLogDeterminantError(
        f"the log-determinant of a {kind} preconditioner, and draws from N(0, P), would need a factorization of the "
        "whole of P, so it is only for solutions. Use random_pivots, or another preconditioner of low rank"
    )
