"""How the parts of a node are put together; `tidelog.broker.node` says in which order they start and stop."""
