"""Compaction of a log: keep the latest record of each key, as Apache Kafka's LogCleaner does.

The event loop that owns a log creates a `CleaningPlan`. A thread reads the old segments of the plan and
writes new ones to `.cleaned` files. The loop replaces old segments by new ones (`log.segment_replacement`).
`batch_filter` decides about each batch, with the latest offset of each key in `offset_map` and the state of
`cleaned_transactions`. Nothing here waits or reads a clock: `now_ms` is an argument.
"""
