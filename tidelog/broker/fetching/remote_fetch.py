"""Remote storage for client requests: a reader, its memory bound, and purgatories for waiting requests.

A node without remote storage has none of these.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from tidelog.base.dataclass import dataclass
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.remote.reading.requests import RemoteRead, RemoteReadRequest, TimestampSearch
from tidelog.storage.log.partition_log import RecordPlace

REMOTE_FETCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""The default of remote.fetch.max.memory.bytes."""
_SHARE: Final = 4
_LEAST_SHARE: Final = 64


class RemoteFetchMemory:
    """The bound on remote data that fetches have read but not yet passed to their responses.

    A read takes memory for the bytes that it may return, at most a quarter of the free memory. The first
    batch is returned regardless of its size, even if no memory is free.
    """

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int = REMOTE_FETCH_BYTES_MAX) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    @property
    def is_used_up(self) -> bool:
        """Whether no further fetch may read from remote storage."""
        return self.limit_bytes - self.used_bytes < self.limit_bytes // _LEAST_SHARE

    def take(self, wanted_bytes: int) -> int:
        """Take up to `wanted_bytes`; return the number of bytes taken."""
        granted = min(wanted_bytes, (self.limit_bytes - self.used_bytes) // _SHARE)
        self.used_bytes += granted
        return granted

    def give_back(self, granted_bytes: int) -> None:
        """Free bytes that `take` returned."""
        self.used_bytes -= granted_bytes
        assert self.used_bytes >= 0, f"remote fetch memory is {self.used_bytes} bytes"


class RemoteReader(Protocol):
    """Reads remote segments.

    Errors: KafkaError with the error code of the response, such as OFFSET_OUT_OF_RANGE for an offset that no
    remote segment contains. Any other error, such as a full pool, is UNKNOWN_SERVER_ERROR for the client. A
    cancelled awaitable stops reading as soon as it can.
    """

    def read(self, request: RemoteReadRequest) -> Awaitable[RemoteRead]:
        """Return batches from an offset on."""
        ...

    def offset_for_timestamp(self, search: TimestampSearch) -> Awaitable[RecordPlace | None]:
        """Return the first remote record at or after a timestamp, below the local log; None without one."""
        ...

    def fetch_throttle_time_ms(self) -> int:
        """Return how long clients must wait for quota (KIP-956) or memory; 0 if they may read now."""
        ...

    @property
    def memory(self) -> RemoteFetchMemory:
        """The memory bound of all remote reads."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """Remote storage for the handlers of Fetch and ListOffsets."""

    reader: RemoteReader
    fetches: Purgatory
    list_offsets: Purgatory
    fetch_max_wait_ms: Callable[[], int]
    """Returns the current remote.fetch.max.wait.ms (KIP-1018)."""
    list_offsets_timeout_ms: Callable[[], int]
    """Returns remote.list.offsets.request.timeout.ms, for requests without a timeout (KIP-1075)."""
