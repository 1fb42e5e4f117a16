"""Inspection and verification of remote storage: the reports of `tidelog tier`.

    broker_queries  requests to brokers: offsets, leader epochs, configs
    cluster         the view of brokers: these offsets, and the records of `__remote_log_metadata`
    bucket          the objects in the object store, and the manifests
    offline         the view of a bucket alone, from its manifests
    cores           coverage, states, objects, placing, scheduled_deletions: pure functions over a view
    deep            every byte of one segment, compared with its indexes and its metadata

Nothing here writes anything, neither to brokers nor to the object store.
"""
