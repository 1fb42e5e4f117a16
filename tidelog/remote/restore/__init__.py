"""Restore of topics from their segments in remote storage alone.

recovered_log   the log that a set of segments contains: its offsets and leader epochs (pure)
survey          the topics in a bucket, from manifests, checkpoints and producer snapshots
plan            which segments of which topics are restored, and why others are not (pure)
time_travel     the partitions of a topic as of a time, whose segments refer to those of another topic
tail_segment    the first batches of a segment as a segment of its own
references      the steps that only topics with references need
registration    the records of `__remote_log_metadata` for restored segments
"""
