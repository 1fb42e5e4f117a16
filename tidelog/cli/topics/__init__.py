"""`tidelog topic`: topics, their replicas and log directories."""
