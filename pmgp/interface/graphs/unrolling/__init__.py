"""Terms of a likelihood as elementwise functions of f, of data and of scalars.

A likelihood that factorizes over f is such a function, but its graph may not look like one: mixtures stack their
components, ordered outcomes their categories, and checks of parameters take all observations together. Here axes of
a few elements are unrolled, each element becoming a graph of its own, so that the observations' axis alone remains.
Numba compiles the one loop that is left in a fraction of the time. An observation, or a draw of f, that is outside of
a parameter's domain has no say in the density of the others.

May import: nothing else of the package.
"""

from pmgp.interface.graphs.unrolling.elementwise import elementwise, unrolled_sum
from pmgp.interface.graphs.unrolling.unrolled import NotElementwiseError

__all__ = ["NotElementwiseError", "elementwise", "unrolled_sum"]
