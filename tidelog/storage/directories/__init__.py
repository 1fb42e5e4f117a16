"""The log directories of a node and the files that describe them."""
