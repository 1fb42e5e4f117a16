"""The bundled RemoteStorageManager: segments as objects in an object store.

manager, config    the adapter and its configuration
segment_writer     copies of segments: three objects each, which are verified
segment_files      manifests and indexes, cached
chunks             the chunk cache, read-ahead, streams over a segment
layout             the names and the contents of a segment's objects
stores             the object stores: S3, any fsspec file system, a local directory
"""
