"""The metadata of remote segments, in memory and in `__remote_log_metadata` (KIP-405)."""
