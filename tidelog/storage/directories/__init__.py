"""The log directories of a node and their checkpoints."""
