"""The requests and responses of each API, one file for each, as declarations for `tidelog.protocol.codec`."""
