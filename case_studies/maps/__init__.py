"""Maps: a notebook, and the stored chains of one of its sections, a log-Gaussian Cox process of pine saplings."""
