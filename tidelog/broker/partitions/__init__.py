"""The partitions of this node: their roles, appends, checks of requests, and requests that wait for them."""
