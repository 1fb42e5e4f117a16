"""The controller of a node: the handlers of its APIs, its periodic tasks and its metrics."""
