"""The producer: batching, partitioning, sending and delivery."""
