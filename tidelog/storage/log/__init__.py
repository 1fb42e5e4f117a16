"""One partition's log: offsets, append, read, truncation and retention."""
