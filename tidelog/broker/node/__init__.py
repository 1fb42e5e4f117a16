"""One node: its parts, how they are constructed, and the order in which they start and stop."""
