"""Errors that name an operation in a model that has no gradient."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytensor.gradient import DisconnectedInputError, NullTypeGradError
from pytensor.graph.utils import MethodNotDefined

from pmgp.interface.model.latent_variable import ModelError


@contextmanager
def naming_missing_gradients(variables: str, advice: str) -> Iterator[None]:
    """Raise an error that names the operation without a gradient, with advice, in place of PyTensor's error."""
    try:
        yield
    except (NotImplementedError, MethodNotDefined, NullTypeGradError, DisconnectedInputError) as error:
        raise ModelError(f"an operation in the model has no gradient in {variables} ({error}); {advice}") from error
