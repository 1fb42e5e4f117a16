"""What puts servers under load; each runs with `python -m`, takes JSON and prints JSON."""
