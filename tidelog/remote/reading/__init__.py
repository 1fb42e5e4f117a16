"""Reading from remote segments: batches by offset, records by timestamp, aborted transactions, leader
epochs.
"""
