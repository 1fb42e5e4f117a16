"""A remote segment and its indexes as read-only files, so that they are inspected like local ones.

I/O: blocks. Errors: RemoteStorageError.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

from tidelog.remote.index_cache.memory_file import MemoryFile
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import ReadableStream, RemoteStorageManager
from tidelog.remote.ports.streams import read_up_to
from tidelog.storage.disk.files import File
from tidelog.storage.disk.log_files import LOG_SUFFIX
from tidelog.storage.disk.read_only_files import ReadOnlyFileSystem, UnwritableFile


class StreamedFile(UnwritableFile):
    """The log file of a segment, read by one request from the front; earlier bytes are dropped.

    Bounds: keeps the bytes of the last `pread`. Reading earlier bytes opens another stream.
    """

    def __init__(
        self,
        path: str,
        storage: RemoteStorageManager,
        metadata: RemoteLogSegmentMetadata,
        on_bytes: Callable[[int], None],
    ) -> None:
        self.path = path
        self._storage = storage
        self._metadata = metadata
        self._on_bytes = on_bytes
        self._stream: ReadableStream | None = None
        self._window = b""
        self._window_start = 0

    def size(self) -> int:
        return self._metadata.segment_size_bytes

    def pread(self, length: int, position: int) -> bytes:
        length = min(length, self.size() - position)
        if length <= 0:
            return b""
        window_end = self._window_start + len(self._window)
        if self._stream is None or not self._window_start <= position <= window_end:
            self.close()
            self._stream = self._storage.fetch_log_segment(self._metadata, position)
            self._window, window_end = b"", position
        else:
            self._window = self._window[position - self._window_start :]
        self._window_start = position
        missing = length - len(self._window)
        if missing > 0:
            more = read_up_to(self._stream, missing)
            self._on_bytes(len(more))
            self._window = self._window + more if self._window else more
        return self._window[:length]

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def fileno(self) -> int:
        raise io.UnsupportedOperation(f"{self.path} is in remote storage")


class TierFiles(ReadOnlyFileSystem):
    """The log file of one segment and its small files, which are `in_memory` by path."""

    def __init__(self, log: StreamedFile, in_memory: Mapping[str, bytes]) -> None:
        self._log = log
        self._in_memory = in_memory

    def open(self, path: str, *, create: bool) -> File:
        if path == self._log.path:
            return self._log
        if path not in self._in_memory:
            raise FileNotFoundError(path)
        return MemoryFile(path, self._in_memory[path])

    def exists(self, path: str) -> bool:
        return path == self._log.path or path in self._in_memory


def log_path(metadata: RemoteLogSegmentMetadata) -> str:
    """Return the path of the log file of a segment, from which the paths of its indexes are derived."""
    return f"{metadata.topic_id_partition.topic_partition}/{metadata.start_offset:020d}{LOG_SUFFIX}"
