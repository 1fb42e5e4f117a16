"""The records of `__cluster_metadata`, one file for each type, as declarations for `tidelog.protocol.codec`."""
