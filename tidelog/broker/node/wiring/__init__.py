"""How the parts of a node are put together; `broker.node.node` says in which order they start and stop."""
