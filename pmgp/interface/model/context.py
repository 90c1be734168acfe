"""The model that a function is called for."""

from __future__ import annotations

from typing import Any

import pymc as pm


def current_model(model: Any) -> pm.Model:
    """Return the model that is given, or else that of the ``with`` block.

    Raises
    ------
    TypeError
        If there is neither, or if what is given is no model, such as a number of draws in its place.
    """
    if model is None:
        model = pm.Model.get_context(error_if_none=False)
        if model is None:
            raise TypeError("there is no model: give one, as in model=model, or call this in a block `with model:`")
    if not isinstance(model, pm.Model):
        raise TypeError(
            f"a pymc.Model is expected where {model!r} is given: inside `with model:`, leave the model out and give "
            "other arguments by name, as in pmgp.sample(draws=1000)"
        )
    return model
