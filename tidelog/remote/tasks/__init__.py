"""The shared parts of the RemoteLogManager's tasks: context, role, limits, and the lineage of a log."""
