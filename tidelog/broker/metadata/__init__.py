"""The shell around `cluster`: the metadata log on disk, and what a node takes from it."""
