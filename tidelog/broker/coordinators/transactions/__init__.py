"""The transaction coordinator: who writes under a transactional id, and how its transaction ends.

`coordinator.TransactionCoordinator` is the core for one partition of `__transaction_state`: plain
functions, no I/O, time passed in. `service.TransactionService` is the shell that owns the log, the
clock and producer ids; `marker_sender.MarkerSender` tells the leaders of partitions how a transaction
ended.
"""
