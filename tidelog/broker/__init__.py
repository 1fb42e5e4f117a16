"""The broker: network, dispatch, handlers, coordinators, purgatory and the wiring of a node."""
