"""What clients are told when the tier cannot answer.

| | error |
|---|---|
| no segment has the offset | OFFSET_OUT_OF_RANGE |
| what is in the tier is not known here yet | REPLICA_NOT_AVAILABLE, as clients try again |
| the bytes are not what was copied | CORRUPT_MESSAGE |
| the tier fails, or does not answer | UNKNOWN_SERVER_ERROR |

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
    """Turn what remote storage and metadata raise into a KafkaError, and log what an operator should know."""
    try:
        yield
    except RemoteMetadataNotReady as error:
        raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{partition}: {error}") from error
    except (DamagedSegment, CorruptFile) as error:
        _log.error("%s of %s from the tier: %s", operation, partition, error)
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{operation} of {partition}: {error}") from error
    except (RemoteStorageError, RemoteMetadataError, OSError) as error:
        _log.warning("%s of %s from the tier failed: %s", operation, partition, error)
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{operation} of {partition}: {error}") from error
