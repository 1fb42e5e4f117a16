"""The metadata of a node: replayed from the log, changed by commands, published, written to snapshots."""
