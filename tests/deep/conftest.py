"""Programs of these tests run for less time than XLA takes to optimize them."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
