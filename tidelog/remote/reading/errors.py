"""The errors that clients receive if remote storage cannot serve a request.

| cause | error |
|---|---|
| no segment has the offset | OFFSET_OUT_OF_RANGE |
| the remote metadata is not read yet | REPLICA_NOT_AVAILABLE, so that clients retry |
| the bytes are not those that were copied | CORRUPT_MESSAGE |
| remote storage fails, or does not respond | UNKNOWN_SERVER_ERROR |

Source: RemoteLogReader, DelayedRemoteFetch, RemotePartitionMetadataStore of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.remote.ports.metadata_manager import RemoteMetadataError, RemoteMetadataNotReady
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.remote.reading.batch_stream import DamagedSegment
from tidelog.storage.disk.errors import CorruptFile

_log = logging.getLogger(__name__)


@contextmanager
def errors_for_clients(partition: TopicIdPartition, operation: str) -> Iterator[None]:
    """Convert errors of remote storage and metadata to KafkaError, and log those that operators need."""
    try:
        yield
    except RemoteMetadataNotReady as error:
        raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{partition}: {error}") from error
    except (DamagedSegment, CorruptFile) as error:
        _log.error("Damaged data in remote storage, %s of %s: %s", operation, partition, error)
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{operation} of {partition}: {error}") from error
    except (RemoteStorageError, RemoteMetadataError, OSError) as error:
        _log.warning("Remote storage failed, %s of %s: %s", operation, partition, error)
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{operation} of {partition}: {error}") from error
