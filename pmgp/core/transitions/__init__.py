"""Moves that leave a given density invariant; they know nothing about Gaussian processes.

Plain moves are functions of a step size. Adaptive ones (`AdaptiveTransition`) learn while a chain tunes: a random walk,
Hamiltonian Monte Carlo and Langevin proposals in learned coordinates, a mixture with independent proposals, and an
alternation of that mixture with trajectories.

May import: core.numerics, core.adaptation.
"""
