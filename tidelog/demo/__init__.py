"""`make demo`: writes text to a real cluster, reads it with three clients, and compares every byte."""
