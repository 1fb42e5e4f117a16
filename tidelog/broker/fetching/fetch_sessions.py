"""Incremental fetch sessions (KIP-227): the partitions of each reader, so that it need not repeat them.

A full fetch (epoch 0) opens a session. Each later fetch names only the partitions that changed, and its
response contains only partitions with records or changed offsets. If the cache is full, no session is opened,
and the reader continues with full fetches.

The request's session id and epoch determine the result:

    any id, epoch -1      full fetch without a session; an existing session of that id is closed
    any id, epoch 0       full fetch that opens a session; an existing session of that id is closed
    unknown id            FETCH_SESSION_ID_NOT_FOUND
    known id, wrong epoch INVALID_FETCH_SESSION_EPOCH
    known id, next epoch  incremental fetch; the session is closed when it has no partition left

Bounds: `max_sessions` (max.incremental.fetch.session.cache.slots), `SESSION_PARTITIONS_MAX` in each session
and `PARTITIONS_MAX` in all. A full fetch of more partitions opens no session. An incremental fetch that adds
more closes its session with FETCH_SESSION_ID_NOT_FOUND; readers then start with a full fetch. Kafka bounds
the number of sessions only. As in Kafka, partitions that do not exist count and stay in the session: the
reader must get a response when such a partition is created.
I/O: none. Source: KIP-227, org.apache.kafka.server.FetchSession.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import Steps
from tidelog.protocol.views.fetch_request_view import FetchPartition, FetchRequestView
from tidelog.protocol.views.fetch_response_view import FetchPartitionResult

SESSIONLESS: Final = 0
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MIN_EVICTION_AGE_MS: Final = 120_000
"""A session that was used or created within this time is evicted only for a more important one."""
SESSION_PARTITIONS_MAX: Final = 20_000
PARTITIONS_MAX: Final = 100_000
"""About 50 MB."""

_PARTITIONS_PER_STEP: Final = 500
_TOPIC_IDS_FROM_VERSION: Final = 13

PartitionKey = tuple[str | UUID, int]


@dataclass(slots=True)
class FetchSession:
    """The partitions of one reader, in the order in which the next fetch serves them.

    A session has one object per partition that the garbage collector visits: a collection of all sessions
    would else hold the event loop for more than 20 ms.
    """

    session_id: int
    uses_topic_ids: bool
    is_follower: bool
    created_ms: int
    last_used_ms: int
    next_epoch: int = 1
    partitions: dict[PartitionKey, FetchPartition] = field(default_factory=dict)
    """The last request of each partition."""
    sent_offsets: dict[PartitionKey, tuple[int, int]] = field(default_factory=dict)
    """High watermark and log start offset of each partition in the last response; none after an error."""

    def update(self, request: FetchRequestView) -> None:
        """Add, change and remove partitions, as listed in an incremental request."""
        for partition in request.partitions:
            self.partitions[partition_key(partition)] = partition
        for key in request.forgotten:
            self.partitions.pop(key, None)
            self.sent_offsets.pop(key, None)

    def must_send(self, key: PartitionKey, result: FetchPartitionResult) -> bool:
        """Return whether an incremental response must contain `result`, and record it as sent."""
        if result.error_code:
            # The reader has no offsets after an error, so the next result must be sent.
            self.sent_offsets.pop(key, None)
            return True
        offsets = (result.high_watermark, result.log_start_offset)
        if self.sent_offsets.get(key) != offsets:
            self.sent_offsets[key] = offsets
            return True
        return (
            bool(result.records_length)
            or result.preferred_read_replica != -1
            or result.diverging_epoch is not None
        )


def partition_key(partition: FetchPartition) -> PartitionKey:
    """Return the key of a partition: its topic id from version 13 on, else its topic name, and its index."""
    topic = partition.topic if partition.topic is not None else partition.topic_id
    assert topic is not None
    return topic, partition.partition


def _distinct(partitions: Sequence[FetchPartition]) -> Sequence[FetchPartition]:
    """Return `partitions` without repetitions; the last entry of a partition counts, as in Kafka."""
    if len(partitions) < 2:
        return partitions
    return list({partition_key(partition): partition for partition in partitions}.values())


def distinct_in_steps(partitions: Sequence[FetchPartition]) -> Steps[list[FetchPartition]]:
    """Return `partitions` without repetitions; the last entry of a partition counts, as in Kafka."""
    by_key: dict[PartitionKey, FetchPartition] = {}
    for number, partition in enumerate(partitions, 1):
        by_key[partition_key(partition)] = partition
        if not number % _PARTITIONS_PER_STEP:
            yield None
    return list(by_key.values())


@dataclass(slots=True)
class FetchContext:
    """The partitions that one fetch request reads, and the selection of those in the response."""

    partitions: Sequence[FetchPartition]
    session: FetchSession | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        """The session id of the response; 0 if there is no session."""
        return SESSIONLESS if self.session is None else self.session.session_id

    def select(
        self, results: Sequence[tuple[FetchPartition, FetchPartitionResult]]
    ) -> list[tuple[FetchPartition, FetchPartitionResult]]:
        """Return the results to send; move partitions with data to the end of the session's order.

        The results may be passed in several parts.
        """
        session = self.session
        if session is None:
            return list(results)
        selected = []
        for requested, result in results:
            key = partition_key(requested)
            if key not in session.partitions:
                continue
            if session.must_send(key, result) or not self.is_incremental:
                selected.append((requested, result))
            if result.records_length and self.is_incremental:
                session.partitions[key] = session.partitions.pop(key)
        return selected


class FetchSessionCache:
    """All fetch sessions of one broker; `new_session_id` returns random positive int32 numbers."""

    def __init__(self, max_sessions: int, new_session_id: Callable[[], int]) -> None:
        self._max_sessions = max_sessions
        self._new_session_id = new_session_id
        self._sessions: dict[int, FetchSession] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions in all sessions."""
        return self._partition_count

    def context(
        self, request: FetchRequestView, version: int, now_ms: int, *, is_distinct: bool = False
    ) -> FetchContext:
        """Find or open the session of a request.

        `is_distinct` states that the request names no partition twice.
        Errors: KafkaError with the error code of the whole response.
        """
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._end(self._sessions.get(request.session_id))
            requested = request.partitions if is_distinct else _distinct(request.partitions)
            if request.session_epoch == FINAL_EPOCH:
                return FetchContext(requested)
            return FetchContext(requested, self._open(request, requested, version, now_ms))
        return self._continue(request, version, now_ms)

    def session_id_without_data(self, context: FetchContext) -> int:
        """Return the session id of a throttled response, which contains no partitions (KIP-219).

        The client starts over if the request was not incremental: the session that it has opened is closed.
        """
        session = context.session
        if session is None or context.is_incremental:
            return context.session_id
        if self._sessions.get(session.session_id) is session:
            self._end(session)
        return SESSIONLESS

    def _continue(self, request: FetchRequestView, version: int, now_ms: int) -> FetchContext:
        """Apply an incremental request to its session. Errors: those of `context`."""
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {request.session_id}")
        if session.next_epoch != request.session_epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session.session_id} expects epoch {session.next_epoch}, "
                f"not {request.session_epoch}",
            )
        if session.uses_topic_ids != (version >= _TOPIC_IDS_FROM_VERSION):
            raise KafkaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "a fetch session uses either topic ids or topic names"
            )
        self._update(session, request)
        if not session.partitions:
            self._end(session)
            return FetchContext(())
        session.next_epoch = session.next_epoch + 1 if session.next_epoch < 0x7FFFFFFF else 1
        session.last_used_ms = now_ms
        return FetchContext(list(session.partitions.values()), session, is_incremental=True)

    def _update(self, session: FetchSession, request: FetchRequestView) -> None:
        """Add, change and remove partitions; close the session if it exceeds the bounds."""
        count_before = len(session.partitions)
        entry_count = len(request.partitions) + len(request.forgotten)
        if entry_count <= SESSION_PARTITIONS_MAX:
            session.update(request)
            self._partition_count += len(session.partitions) - count_before
        if (
            entry_count > SESSION_PARTITIONS_MAX
            or len(session.partitions) > SESSION_PARTITIONS_MAX
            or (len(session.partitions) > count_before and self._partition_count > PARTITIONS_MAX)
        ):
            self._end(session)
            text = f"fetch session {session.session_id} has more than {SESSION_PARTITIONS_MAX} partitions"
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, text)

    def _end(self, session: FetchSession | None) -> None:
        if session is not None:
            del self._sessions[session.session_id]
            self._partition_count -= len(session.partitions)

    def _open(
        self, request: FetchRequestView, requested: Sequence[FetchPartition], version: int, now_ms: int
    ) -> FetchSession | None:
        """Open a session with the partitions of a full fetch; return None if there is no room for it."""
        is_follower = request.replica_id >= 0
        if not requested or not self._make_room(is_follower, len(requested), now_ms):
            return None
        session_id = self._new_session_id()
        while session_id in self._sessions or session_id == SESSIONLESS:
            session_id = self._new_session_id()
        uses_topic_ids = version >= _TOPIC_IDS_FROM_VERSION
        session = FetchSession(session_id, uses_topic_ids, is_follower, now_ms, now_ms)
        for partition in requested:
            session.partitions[partition_key(partition)] = partition
        self._sessions[session_id] = session
        self._partition_count += len(session.partitions)
        return session

    def _make_room(self, is_follower: bool, partition_count: int, now_ms: int) -> bool:
        """Evict sessions until there is room for one more; return whether there is.

        Idle sessions are evicted first, then less important ones.
        """
        if partition_count > SESSION_PARTITIONS_MAX or self._max_sessions == 0:
            return False
        if self._has_room_for(partition_count):
            return True
        sessions = sorted(self._sessions.values(), key=lambda session: session.last_used_ms)
        for idle in sessions:
            if now_ms - idle.last_used_ms <= MIN_EVICTION_AGE_MS:
                break
            self._end(idle)
            if self._has_room_for(partition_count):
                return True
        return self._evict_less_important(is_follower, partition_count, now_ms)

    def _evict_less_important(self, is_follower: bool, partition_count: int, now_ms: int) -> bool:
        """Evict sessions that are less important than a new one until it has room; return whether it has.

        Followers are more important than clients, and larger sessions than smaller ones. A recent session of
        a client is evicted only for a follower.
        """
        candidates = [
            session
            for session in self._sessions.values()
            if (is_follower and not session.is_follower) or now_ms - session.created_ms > MIN_EVICTION_AGE_MS
        ]
        candidates.sort(key=lambda session: (session.is_follower, len(session.partitions)))
        for candidate in candidates:
            if (is_follower, partition_count) <= (candidate.is_follower, len(candidate.partitions)):
                break
            self._end(candidate)
            if self._has_room_for(partition_count):
                return True
        return False

    def _has_room_for(self, partition_count: int) -> bool:
        return (
            len(self._sessions) < self._max_sessions
            and self._partition_count + partition_count <= PARTITIONS_MAX
        )
