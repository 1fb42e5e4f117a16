"""Replication of one partition as pure state: what its leader knows of followers, what a follower does."""
