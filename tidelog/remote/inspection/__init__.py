"""Inspection and verification of remote storage: the reports of `tidelog tier`.

    gather     offsets, leader epochs, configs from the brokers; records of `__remote_log_metadata`
    bucket     the objects in the object store, and the manifests
    cores      coverage, states, objects, placing, scheduled_deletions: pure functions over the gathered data
    deep       every byte of one segment, compared with its indexes and its metadata

Nothing here writes anything, neither to brokers nor to the object store.
"""
