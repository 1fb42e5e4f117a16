"""The transaction coordinator: producers with a transactional id, and the ends of their transactions.

`coordinator.TransactionCoordinator` is the core for one partition of `__transaction_state`: plain
functions, no I/O; the time is an argument. `service.TransactionService` is the shell that owns the log, the
clock and producer ids. `marker_sender.MarkerSender` sends the end of a transaction to the leaders of its
partitions.
"""
