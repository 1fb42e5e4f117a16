"""What consumer, share and streams groups have in common: look-up of members, subscriptions by topic name."""
