"""`tidelog tier`: the segments of topics in remote storage."""
