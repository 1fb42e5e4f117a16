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
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidelog.base.clock import Clock
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.remote.ports.metadata_manager import RemoteMetadataError, RemoteMetadataNotReady
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.ports.storage_manager import DamagedSegment, RemoteStorageError, StoreUnavailable
from tidelog.storage.disk.errors import CorruptFile

_REPEATED_AFTER_MS: Final = 60_000
_DAMAGES_MAX: Final = 1000

_log = logging.getLogger(__name__)


class ReadErrors:
    """Converts errors of reads to the errors that clients receive, and logs those that operators need.

    Clients retry soon. Therefore the same damage is logged once per minute.
    Bounds: the times of the last 1,000 damaged places are kept.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged_ms: OrderedDict[str, int] = OrderedDict()

    @contextmanager
    def converted(self, partition: TopicIdPartition, operation: str) -> Iterator[None]:
        """Convert errors of remote storage and metadata to KafkaError."""
        try:
            yield
        except RemoteMetadataNotReady as error:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{partition}: {error}") from error
        except (DamagedSegment, CorruptFile) as error:
            self._log_damage(partition, operation, str(error))
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{operation} of {partition}: {error}") from error
        except (RemoteStorageError, RemoteMetadataError, OSError) as error:
            if not isinstance(error, StoreUnavailable):  # The observer of the store reports an outage.
                _log.warning("Remote storage failed, %s of %s: %s", operation, partition, error)
            text = f"{operation} of {partition}: {error}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from error

    def _log_damage(self, partition: TopicIdPartition, operation: str, damage: str) -> None:
        now_ms = self._clock.monotonic_ms()
        logged_ms = self._logged_ms.get(damage)
        if logged_ms is not None and now_ms - logged_ms < _REPEATED_AFTER_MS:
            return
        self._logged_ms[damage] = now_ms
        self._logged_ms.move_to_end(damage)
        if len(self._logged_ms) > _DAMAGES_MAX:
            self._logged_ms.popitem(last=False)
        _log.error(
            "Damaged data in remote storage, %s of %s: %s; run tidelog tier repair",
            operation,
            partition,
            damage,
        )
