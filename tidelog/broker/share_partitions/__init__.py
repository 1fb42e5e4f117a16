"""Share partitions: partitions whose records the leader delivers to the members of share groups (KIP-932)."""
