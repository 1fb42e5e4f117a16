"""One node: its parts, their construction, and the order in which they start and stop."""
