"""One segment of a log: the file of batches and its indexes."""
