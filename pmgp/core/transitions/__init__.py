"""Moves that leave a given density invariant; they know nothing of Gaussian processes.

Plain ones are functions of a step size. Adaptive ones (`AdaptiveTransition`) learn while a chain tunes: a random walk,
Hamiltonian Monte Carlo and Langevin proposals in coordinates that they learn, and a mixture with independent proposals.

May import: core.numerics, core.adaptation.
"""
