"""The producers of one partition: sequences, epochs, transactions and snapshots."""
