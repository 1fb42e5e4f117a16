"""What requests of clients need of remote storage: a reader, and where they wait for it.

Nothing here exists on a node without remote storage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.remote.reading.requests import RemoteRead, RemoteReadRequest, TimestampSearch
from tidelog.storage.log.partition_log import RecordPlace

REMOTE_FETCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""The default of remote.fetch.max.memory.bytes."""
_SHARE: Final = 4
_LEAST_SHARE: Final = 64


class RemoteFetchMemory:
    """The bound on data of the tier that fetches read and have not handed to their responses yet.

    A read takes memory for the bytes it may return, at most a quarter of what is left, so that it may be
    given less than it asks for. The first batch is returned whatever its size, also when nothing is left.
    """

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int = REMOTE_FETCH_BYTES_MAX) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    @property
    def is_used_up(self) -> bool:
        """Whether no further fetch should read."""
        return self.limit_bytes - self.used_bytes < self.limit_bytes // _LEAST_SHARE

    def take(self, wanted_bytes: int) -> int:
        """Take up to `wanted_bytes`; return how many that are."""
        granted = min(wanted_bytes, (self.limit_bytes - self.used_bytes) // _SHARE)
        self.used_bytes += granted
        return granted

    def give_back(self, granted_bytes: int) -> None:
        """Return what was taken."""
        self.used_bytes -= granted_bytes
        assert self.used_bytes >= 0, f"remote fetch memory is {self.used_bytes} bytes"


class RemoteReader(Protocol):
    """Reads remote segments.

    Errors: KafkaError with the code for the reply, such as OFFSET_OUT_OF_RANGE for an offset that no
    remote segment holds; anything else, a full pool too, is UNKNOWN_SERVER_ERROR to the client. An
    awaitable that is cancelled stops reading as soon as it can.
    """

    def read(self, request: RemoteReadRequest) -> Awaitable[RemoteRead]:
        """Batches from an offset on."""
        ...

    def offset_for_timestamp(self, search: TimestampSearch) -> Awaitable[RecordPlace | None]:
        """The first remote record at or after a point in time, below the local log; None without one."""
        ...

    def fetch_throttle_time_ms(self) -> int:
        """How long nothing should be read: the quota (KIP-956) or the memory is used up; 0: read."""
        ...

    @property
    def memory(self) -> RemoteFetchMemory:
        """Where a fetch takes memory for what it reads."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """What the handlers of Fetch and ListOffsets are given on a node with remote storage."""

    reader: RemoteReader
    fetches: Purgatory
    list_offsets: Purgatory
    fetch_max_wait_ms: Callable[[], int]
    """remote.fetch.max.wait.ms, as it is now (KIP-1018)."""
    list_offsets_timeout_ms: Callable[[], int]
    """remote.list.offsets.request.timeout.ms, for requests that do not name one (KIP-1075)."""
