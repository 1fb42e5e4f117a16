"""The coordinators of groups and transactions, and the machinery that they share."""
