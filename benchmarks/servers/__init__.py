"""Reference servers; each runs with `python -m` and prints its address."""
