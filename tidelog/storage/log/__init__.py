"""One partition's log: offsets, appends, reads, truncation and retention."""
