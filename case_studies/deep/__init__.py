"""Deep processes on random features: error over time, depth, treatments of the frequencies, and a Markov chain."""
