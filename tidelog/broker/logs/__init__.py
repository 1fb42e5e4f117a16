"""The local logs of this node: creation, flushing, retention, compaction and directory locks."""
