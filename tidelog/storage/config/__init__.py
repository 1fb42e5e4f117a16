"""The topic-level configuration of a log."""
