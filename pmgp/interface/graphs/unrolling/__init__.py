"""Terms of a likelihood as elementwise functions of f, data and scalars.

A likelihood that factorizes over f is such a function, but its graph may not look like one: mixtures stack their
components, ordered outcomes stack their categories, and checks of parameters combine all observations. Here axes of
a few elements are unrolled, so each element becomes a graph of its own and only the axis of observations remains.
Numba compiles the single loop that is left in a fraction of the time. An observation, or a draw of f, that is outside
a parameter's domain does not affect the density of the others.

May import: nothing else of the package.
"""

from pmgp.interface.graphs.unrolling.elementwise import elementwise, unrolled_sum
from pmgp.interface.graphs.unrolling.unrolled import NotElementwiseError

__all__ = ["NotElementwiseError", "elementwise", "unrolled_sum"]
