"""The state of classic groups: the members, their protocols, their waiting requests, and the rebalance."""
