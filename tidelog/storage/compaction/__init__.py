"""Compaction of a log: keep the latest record of each key, as Apache Kafka's LogCleaner does.

The loop that owns a log makes a `CleaningPlan`; a thread reads the old segments by it and writes new ones
beside them; the loop puts each in the place of those it was made from (`segment_replacement`). What
happens to one batch is decided in `batch_filter`, with the keys that `offset_map` remembers and what
`cleaned_transactions` knows. Nothing here waits, and no clock is read: `now_ms` is passed in.
"""
