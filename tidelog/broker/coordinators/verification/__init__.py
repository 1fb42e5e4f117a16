"""Whether a partition is part of a transaction: its coordinator is asked before the first batch."""
