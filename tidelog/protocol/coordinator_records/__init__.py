"""The records that coordinators write to internal topics, as declarations for `tidelog.protocol.codec`."""
