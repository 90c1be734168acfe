"""Programs of these tests run for less time than XLA takes to optimize them."""

from tests.quick_compilation import quick_compilation

__all__ = ["quick_compilation"]
