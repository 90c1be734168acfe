"""Programs of most tests run for less time than XLA takes to optimize them: import the fixture where this is so."""

import jax
import pytest

__all__ = ["quick_compilation"]


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
