"""The settings of products with JAX, resolved to its devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Settings:
    """Settings of products: the precision of tiles, and the bytes that a product may take on each device."""

    memory: float
    precision: str
    mesh: Any
