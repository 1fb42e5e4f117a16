"""The log cleaner: tasks on the loop that have logs compacted in threads (the core is `storage.cleaner`)."""
