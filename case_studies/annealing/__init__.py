"""Annealed importance sampling for p(y|theta): Figures 1 and 2 and Table I of the annealing article again."""
