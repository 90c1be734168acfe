"""The work of the screen and of estimates, in operations of a matrix product that take the same time.

The constants were measured for n from 50 to 700 with 16 to 256 draws; for sequential sampling, with 450 to 1284 latent
values of three and six vectors.
"""

# An iteration on the screen: a sweep of the approximation and the factorization of K, per n^3, and the elements of K,
# per n^2. With several latent vectors, a sweep costs 3 n^3 for each vector of n sites, and at each site moments whose
# cost grows with the square of the number of vectors.
SCREEN_SWEEP, SCREEN_FACTOR, SCREEN_ELEMENT = 2.0 / 3.0, 1.0 / 3.0, 150.0
SCREEN_BLOCK_SWEEP, SCREEN_BLOCK_MOMENTS = 3.0, 1e5
# A likelihood's term at one draw; one latent value of a term that depends on several.
TERM, BLOCK_TERM = 7e2, 3e3
# The fixed cost of a call of each estimator.
IMPORTANCE_CALL, ORTHANT_CALL, SEQUENTIAL_CALL = 7e5, 6e6, 1.2e8
# Orthants: the preparation, per n^3 (two factorizations, a product and a solve, 8/3, and copies of matrices); a step of
# the recursion, per earlier variable, and a normal between limits.
ORTHANT_PREPARATION, ORTHANT_STEP, ORTHANT_VARIABLE = 4.0, 3.0, 2e3
# Sequential sampling: the factor for all vectors, per n^3, and its elements, per n^2; a latent value of a particle.
SEQUENTIAL_FACTOR, SEQUENTIAL_ELEMENT, SEQUENTIAL_VALUE = 0.6, 9e2, 5e3
