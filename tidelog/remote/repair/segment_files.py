"""The files of a segment whose log was fetched from a replica (shell).

| file | source |
|---|---|
| log | the batches of a replica |
| offset index, time index | built from these batches, as a broker builds them |
| transaction index, producer snapshot, leader epochs | the remote segment: they depend on earlier segments |

Errors: NotRepairable; RemoteStorageError; OSError.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidelog.protocol.batch import BatchHeader
from tidelog.remote.inspection.findings import Finding, Kind
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import (
    IndexType,
    LogSegmentData,
    RemoteResourceNotFound,
    RemoteStorageError,
    RemoteStorageManager,
)
from tidelog.remote.ports.streams import read_all
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.log_files import LOG_SUFFIX, TXN_INDEX_SUFFIX, file_name
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.segment.segment import LogSegment

_SMALL_FILE_BYTES_MAX: Final = 1 << 30
_IRREPLACEABLE: Final = {
    Kind.BAD_TRANSACTION_INDEX: "transaction index",
    Kind.BAD_PRODUCER_SNAPSHOT: "producer snapshot",
    Kind.BAD_LEADER_EPOCHS: "leader epochs",
}


class NotRepairable(Exception):
    """A segment cannot be repaired; the message has the reason."""


def log_path(directory: Path, metadata: RemoteLogSegmentMetadata) -> Path:
    """Return the path of the segment's log in `directory`."""
    return directory / file_name(metadata.start_offset, LOG_SUFFIX)


def complete_files(
    directory: Path,
    metadata: RemoteLogSegmentMetadata,
    headers: Iterable[BatchHeader],
    storage: RemoteStorageManager,
    config: LogConfig,
) -> LogSegmentData:
    """Return the files of the segment, whose log is in `directory` and has the batches `headers`."""
    segment = LogSegment(OsFileSystem(), str(directory), metadata.start_offset, config, 0, create=False)
    segment.files.open_for_appending()
    position = 0
    for header in headers:
        segment.reindex(header, position)
        position += header.size_bytes
    segment.seal()
    offset_index, time_index = segment.offset_index.file.path, segment.time_index.file.path
    segment.files.release_descriptors()

    def remote_file(index_type: IndexType) -> bytes:
        """Return a file of the remote segment. Errors: RemoteResourceNotFound; NotRepairable."""
        try:
            return read_all(storage.fetch_index(metadata, index_type), _SMALL_FILE_BYTES_MAX)
        except RemoteResourceNotFound:
            raise
        except RemoteStorageError as error:
            raise NotRepairable(f"its {index_type.value} cannot be read: {error}") from error

    snapshot = directory / "producer-snapshot"
    transactions: Path | None = None
    try:
        snapshot.write_bytes(remote_file(IndexType.PRODUCER_SNAPSHOT))
        leader_epochs = remote_file(IndexType.LEADER_EPOCH)
    except RemoteResourceNotFound as error:
        raise NotRepairable(f"its small files do not exist: {error}") from error
    if not metadata.is_txn_index_empty:
        with suppress(RemoteResourceNotFound):  # older brokers do not record that there is none
            data = remote_file(IndexType.TRANSACTION)
            transactions = directory / file_name(metadata.start_offset, TXN_INDEX_SUFFIX)
            transactions.write_bytes(data)
    return LogSegmentData(
        log=str(log_path(directory, metadata)),
        offset_index=offset_index,
        time_index=time_index,
        producer_snapshot=str(snapshot),
        leader_epochs=leader_epochs,
        transaction_index=None if transactions is None else str(transactions),
    )


def require_replaceable(findings: Iterable[Finding]) -> None:
    """Raise NotRepairable if one of the files is damaged that can only be read from the remote segment."""
    for finding in findings:
        if finding.kind in _IRREPLACEABLE:
            raise NotRepairable(f"its {_IRREPLACEABLE[finding.kind]} is damaged: {finding.detail}")
