"""Remote storage for readers without a broker: which segments exist, and which parts of them are readable.

    metadata_tier   from `__remote_log_metadata` and the leaders: the same data that brokers use
    bucket_tier     from the manifests in the object store, without any broker
    both return     a PartitionTier for each partition, which uses leader epochs like brokers
    timestamps, aborted_transactions    from the indexes of segments

Nothing here writes anything, neither to brokers nor to the object store.
"""
