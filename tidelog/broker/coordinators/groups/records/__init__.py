"""The records of groups in `__consumer_offsets`: their types, as values and as bytes."""
