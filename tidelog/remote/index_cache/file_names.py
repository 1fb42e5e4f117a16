"""The file names of the index cache: `<start offset>_<segment id>.index`, `.timeindex`, `.txnindex`.

They are Apache Kafka's names, so that Kafka and Tidelog brokers can use each other's cache.
Source: RemoteIndexCache.generateFileNamePrefixForIndex of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.ids import Offset, uuid_from_text, uuid_text
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import IndexType
from tidelog.storage.disk.log_files import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX

CACHE_DIRECTORY: Final = "remote-log-index-cache"
TEMPORARY_SUFFIX: Final = ".tmp"


class CachedIndex(Enum):
    """The indexes that readers of remote segments need, by the suffix of their files."""

    OFFSET = OFFSET_INDEX_SUFFIX
    TIME = TIME_INDEX_SUFFIX
    TRANSACTION = TXN_INDEX_SUFFIX

    @property
    def remote_type(self) -> IndexType:
        """The index type of the storage manager."""
        return _REMOTE_TYPES[self]


_REMOTE_TYPES: Final = {
    CachedIndex.OFFSET: IndexType.OFFSET,
    CachedIndex.TIME: IndexType.TIMESTAMP,
    CachedIndex.TRANSACTION: IndexType.TRANSACTION,
}
_NAME: Final = re.compile(
    rf"(\d{{1,19}})_([A-Za-z0-9_-]{{22}})({'|'.join(re.escape(kind.value) for kind in CachedIndex)})"
)


class CachedFile(NamedTuple):
    """One file of the cache."""

    start_offset: Offset
    segment_id: UUID
    kind: CachedIndex

    @property
    def name(self) -> str:
        """The name of the file in the directory."""
        return f"{self.start_offset}_{uuid_text(self.segment_id)}{self.kind.value}"

    @classmethod
    def of(cls, metadata: RemoteLogSegmentMetadata, kind: CachedIndex) -> CachedFile:
        """Return the file of an index of a segment."""
        return cls(metadata.start_offset, metadata.remote_log_segment_id.id, kind)

    @classmethod
    def parse(cls, name: str) -> CachedFile | None:
        """Return the file with this name; None if it is not a name of the cache."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        offset, segment_id, suffix = match.groups()
        return cls(int(offset), uuid_from_text(segment_id), CachedIndex(suffix))
