"""Sampling theta with f: Tables 3 to 6 of the comparative evaluation again, and a picture of why."""
