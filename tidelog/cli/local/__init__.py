"""`tidelog dev`, `broker`, `storage` and local clusters: processes and directories of this machine."""
