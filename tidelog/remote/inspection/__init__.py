"""Looking at what is in the tier, and proving that it is whole: what `tidelog tier` shows.

    gather     offsets, leader epochs, configs from the brokers; records of `__remote_log_metadata`
    bucket     what lies in the object store, and the manifests
    cores      coverage, states, objects, placing, departures: plain functions over what was gathered
    deep       every byte of one segment against its indexes and its metadata

Nothing here writes anything, neither to brokers nor to the object store.
"""
