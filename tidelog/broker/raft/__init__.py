"""The metadata quorum on this node: its log, files, connections and the task that drives it."""
