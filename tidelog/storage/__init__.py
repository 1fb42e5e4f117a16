"""The partition log on disk, in Apache Kafka's own files: segments, indexes, checkpoints, producer state.

Cores here are sans-I/O but for the file system, which is passed in (`tidelog.storage.disk.files.FileSystem`);
clocks are passed in as `now_ms`. This package imports only `protocol`.
"""
