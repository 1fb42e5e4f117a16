"""Replication between brokers: ISR changes of leaders, fetchers of followers, and replication quotas."""
