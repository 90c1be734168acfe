"""Random numbers by name: a stream is made from a seed and the words and numbers that say what it is for.

Nothing depends on where a name stands in a list, so that a model, a data set or a method can be added anywhere, and all
other cells keep their random numbers.
"""

from __future__ import annotations

import json
from hashlib import sha256
from numbers import Integral

import numpy as np

__all__ = ["stream"]


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Random numbers of one place in a study, independent of those of all others.

    Parameters
    ----------
    seed : int
    *names : str or int
        What the stream is for, for example ``"chain", "Glass", 20, 3``. The word ``"3"`` is a different name from
        the number 3, and ``"a", "b"`` differ from ``"ab"``.

    Returns
    -------
    numpy.random.Generator
        The same on every machine: its entropy is the SHA-256 of the seed and the names.

    Raises
    ------
    TypeError
        If the seed is not an integer, or a name neither that nor a word.
    """
    words = json.dumps([_number(seed), *(name if isinstance(name, str) else _number(name) for name in names)])
    return np.random.default_rng(np.random.SeedSequence(int.from_bytes(sha256(words.encode()).digest())))


def _number(name: object) -> int:
    """A plain integer, also from one of NumPy's."""
    if not isinstance(name, Integral):
        raise TypeError(f"a stream is named by words and integers, not by {name!r}")
    return int(name)
