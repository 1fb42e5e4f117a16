"""Plans what a query reads: options, offsets and ranges. Pure: no I/O and no Spark."""
