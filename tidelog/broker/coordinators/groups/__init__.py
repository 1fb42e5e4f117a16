"""The group coordinator: classic, consumer and share groups, and committed offsets, in `__consumer_offsets`.

`coordinator.GroupCoordinator` is the core for one partition of that topic: plain functions, no I/O; the time
is an argument. `service.GroupService` is the shell that owns the log, the clock and the replies that wait.
"""
