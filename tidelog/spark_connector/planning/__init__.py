"""What a query was told and what it should read: options, offsets, ranges. Pure, and without Spark."""
