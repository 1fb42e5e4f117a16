"""Reading from remote segments: batches, records by timestamp, aborted transactions, leader epochs."""
