"""The metadata quorum on this node: its log, files, connections, and the task that runs its steps."""
