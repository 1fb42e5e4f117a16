"""Load generators; each runs with `python -m`, takes JSON and prints JSON."""
