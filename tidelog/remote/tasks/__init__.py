"""What the tasks of the RemoteLogManager share: context, role, limits, and the lineage of a log."""
