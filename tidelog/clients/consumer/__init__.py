"""The consumer: fetching, positions and subscriptions."""
