"""The tier as those see it who read it without a broker: which segments there are, and what of them counts.

    metadata_tier   what `__remote_log_metadata` and the leaders say: the same that brokers go by
    bucket_tier     what the manifests in the object store say, when there is no broker
    both give       a PartitionTier for each partition, which answers by leader epochs as brokers do
    timestamps, aborted_transactions    by the small files of segments

Nothing here writes anything, neither to brokers nor to the object store.
"""
