"""What requests of clients need of remote storage: a reader, and where they wait for it.

Nothing here exists on a node without remote storage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from broker.purgatory.purgatory import Purgatory
from remote.reader.requests import RemoteRead, RemoteReadRequest, TimestampSearch
from storage.log import RecordPlace


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
        """How long nothing should be read, as more bytes were than the quota allows; 0: read (KIP-956)."""
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
