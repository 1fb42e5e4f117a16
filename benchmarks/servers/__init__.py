"""What the broker is measured against; each server runs with `python -m` and prints its address."""
