"""The coordinators of groups, transactions and the states of share partitions, and their shared parts."""
