"""A tiered cluster under load with a faulty object store and killed nodes; every byte is read again."""
