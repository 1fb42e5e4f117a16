"""The coordinators of groups and transactions, and their shared parts."""
