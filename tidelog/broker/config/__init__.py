"""The configuration of a node: keys, parsing, checks across keys, and changes while it runs."""
