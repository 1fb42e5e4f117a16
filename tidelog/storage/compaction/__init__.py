"""Compaction of a log: keep the latest record of each key, as Apache Kafka's LogCleaner does.

The event loop that owns a log creates a `CleaningPlan`. A worker process receives its `CleaningTask`, reads
the old segments and writes new ones to `.cleaned` files. The loop replaces old segments by new ones
(`log.segment_replacement`). A worker reads many batches at a time (`batch_window`). `batch_filter` decides
about each of them, with the latest offset of each key in `offset_map` and the state of
`cleaned_transactions`; `rebuilding` removes records, and `joining` composes what is written. Nothing here
waits or reads a clock: `now_ms` is an argument.

`cleanable`, `plan`, `task`, `last_records` and `segment_groups` are used by nodes. The other modules use
numpy and are imported by workers only.
"""
