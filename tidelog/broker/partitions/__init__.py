"""The partitions on this node: who may append, who may read, and which requests wait for them."""
