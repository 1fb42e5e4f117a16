"""The log cleaner: tasks that compact logs in threads; its core is `tidelog.storage.compaction`."""
