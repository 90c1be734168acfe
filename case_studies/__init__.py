"""Studies that run on their own: one notebook each, with the code of the larger ones beside it."""
