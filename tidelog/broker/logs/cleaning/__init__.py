"""The log cleaner: tasks that compact logs in worker processes; its core is `tidelog.storage.compaction`."""
