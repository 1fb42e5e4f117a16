"""Fetch sessions: what a reader asked for last time, so that it need not ask again (KIP-227).

A full fetch (epoch 0) opens a session; each later fetch names only what changed, and is
answered with only what changed. A session that does not fit into the cache is simply not
opened: the reader goes on with full fetches.

How a request is met, by (session id, epoch):

    any id, epoch -1      full fetch, no session; an old session of that id is closed
    any id, epoch 0       full fetch that opens a new session; an old one is closed
    unknown id            FETCH_SESSION_ID_NOT_FOUND
    known id, wrong epoch INVALID_FETCH_SESSION_EPOCH
    known id, next epoch  incremental fetch; the session ends when it holds no partition any more

Bounds: `max_sessions` (max.incremental.fetch.session.cache.slots), `SESSION_PARTITIONS_MAX` in each and
`PARTITIONS_MAX` in all. A full fetch of more partitions opens no session; an incremental one that adds more
ends its session with FETCH_SESSION_ID_NOT_FOUND, upon which readers begin again with a full fetch. Kafka
bounds sessions only. Partitions that do not exist count like others, and stay in the session as in Kafka: a
reader that has named a partition counts on hearing of it once it exists.
I/O: none. Source: KIP-227, org.apache.kafka.server.FetchSession.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.fetch_request_view import FetchPartition, FetchRequestView
from tidelog.protocol.fetch_response_view import FetchPartitionResult

SESSIONLESS = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
MIN_EVICTION_AGE_MS = 120_000
SESSION_PARTITIONS_MAX: Final = 20_000
PARTITIONS_MAX: Final = 100_000
"""About 40 MB."""

PartitionKey = tuple[str | UUID, int]


@dataclass(slots=True)
class CachedPartition:
    """What a session remembers of one partition: the last request and the last answer."""

    requested: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def has_news(self, result: FetchPartitionResult) -> bool:
        """Whether `result` must be sent in an incremental answer; remembers it as sent."""
        news = (
            result.error_code != 0
            or bool(result.records_length)
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
            or result.preferred_read_replica != -1
            or result.diverging_epoch is not None
        )
        if result.error_code:
            # An error says nothing of the offsets: whatever comes next is news again.
            self.high_watermark = -1
        else:
            self.high_watermark = result.high_watermark
            self.log_start_offset = result.log_start_offset
        return news


@dataclass(slots=True)
class FetchSession:
    """One reader's partitions, in the order in which they are to be served next."""

    session_id: int
    uses_topic_ids: bool
    is_follower: bool
    created_ms: int
    last_used_ms: int
    next_epoch: int = 1
    partitions: dict[PartitionKey, CachedPartition] = field(default_factory=dict)

    def update(self, request: FetchRequestView) -> None:
        """Add, change and forget partitions as an incremental request says."""
        for partition in request.partitions:
            key = partition_key(partition)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(partition)
            else:
                cached.requested = partition
        for topic, index in request.forgotten:
            self.partitions.pop((topic, index), None)


def partition_key(partition: FetchPartition) -> PartitionKey:
    """A partition by what the request named it: topic id from v13 on, else topic name."""
    topic = partition.topic if partition.topic is not None else partition.topic_id
    assert topic is not None
    return topic, partition.partition


def _named_once(partitions: Sequence[FetchPartition]) -> Sequence[FetchPartition]:
    """The partitions of a full request; of one that is named several times the last entry, as in Kafka."""
    if len(partitions) < 2:
        return partitions
    return list({partition_key(partition): partition for partition in partitions}.values())


@dataclass(slots=True)
class FetchContext:
    """What one fetch request reads, and how its answer is thinned out."""

    partitions: Sequence[FetchPartition]
    session: FetchSession | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        """The id to answer with; 0 when there is no session."""
        return SESSIONLESS if self.session is None else self.session.session_id

    def select(
        self, results: Sequence[tuple[FetchPartition, FetchPartitionResult]]
    ) -> list[tuple[FetchPartition, FetchPartitionResult]]:
        """The results to send; partitions that gave data go to the end of the session's order."""
        session = self.session
        if session is None:
            return list(results)
        selected = []
        for requested, result in results:
            key = partition_key(requested)
            cached = session.partitions.get(key)
            if cached is None:
                continue
            if cached.has_news(result) or not self.is_incremental:
                selected.append((requested, result))
            if result.records_length and self.is_incremental:
                session.partitions[key] = session.partitions.pop(key)
        return selected


class FetchSessionCache:
    """All sessions of one broker; `new_session_id` gives random positive int32 numbers."""

    def __init__(self, max_sessions: int, new_session_id: Callable[[], int]) -> None:
        self._max_sessions = max_sessions
        self._new_session_id = new_session_id
        self._sessions: dict[int, FetchSession] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Partitions remembered over all sessions (metric NumIncrementalFetchPartitionsCached)."""
        return self._partition_count

    def context(self, request: FetchRequestView, version: int, now_ms: int) -> FetchContext:
        """Find or open the session of a request; raises KafkaError for the whole answer."""
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._end(self._sessions.get(request.session_id))
            requested = _named_once(request.partitions)
            if request.session_epoch == FINAL_EPOCH:
                return FetchContext(requested)
            return FetchContext(requested, self._open(request, requested, version, now_ms))
        return self._continue(request, version, now_ms)

    def _continue(self, request: FetchRequestView, version: int, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {request.session_id}")
        if session.next_epoch != request.session_epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session.session_id} expects epoch {session.next_epoch}, "
                f"not {request.session_epoch}",
            )
        if session.uses_topic_ids != (version >= 13):
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "a session keeps to ids or to names")
        self._update(session, request)
        if not session.partitions:
            self._end(session)
            return FetchContext(())
        session.next_epoch = session.next_epoch + 1 if session.next_epoch < 0x7FFFFFFF else 1
        session.last_used_ms = now_ms
        requested = [cached.requested for cached in session.partitions.values()]
        return FetchContext(requested, session, is_incremental=True)

    def _update(self, session: FetchSession, request: FetchRequestView) -> None:
        """Add, change and forget partitions; end the session rather than have it grow beyond the bounds."""
        before = len(session.partitions)
        named = len(request.partitions) + len(request.forgotten)
        if named <= SESSION_PARTITIONS_MAX:
            session.update(request)
            self._partition_count += len(session.partitions) - before
        if (
            named > SESSION_PARTITIONS_MAX
            or len(session.partitions) > SESSION_PARTITIONS_MAX
            or (len(session.partitions) > before and self._partition_count > PARTITIONS_MAX)
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
        is_follower = request.replica_id >= 0
        if not requested or not self._make_room(is_follower, len(requested), now_ms):
            return None
        session_id = self._new_session_id()
        while session_id in self._sessions or session_id == SESSIONLESS:
            session_id = self._new_session_id()
        session = FetchSession(session_id, version >= 13, is_follower, now_ms, now_ms)
        for partition in requested:
            session.partitions[partition_key(partition)] = CachedPartition(partition)
        self._sessions[session_id] = session
        self._partition_count += len(session.partitions)
        return session

    def _make_room(self, is_follower: bool, partition_count: int, now_ms: int) -> bool:
        """Evict sessions until there is room for one more: idle ones first, then such that matter less."""
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
        return self._evict_lesser(is_follower, partition_count, now_ms)

    def _evict_lesser(self, is_follower: bool, partition_count: int, now_ms: int) -> bool:
        # Followers outrank clients; among equals the session with more partitions saves more. A young one
        # goes only for one that outranks it, and does not shield older ones that matter less than the new.
        candidates = [
            session
            for session in self._sessions.values()
            if (is_follower and not session.is_follower) or now_ms - session.created_ms > MIN_EVICTION_AGE_MS
        ]
        candidates.sort(key=lambda session: (session.is_follower, len(session.partitions)))
        for least in candidates:
            if (is_follower, partition_count) <= (least.is_follower, len(least.partitions)):
                break
            self._end(least)
            if self._has_room_for(partition_count):
                return True
        return False

    def _has_room_for(self, partition_count: int) -> bool:
        return (
            len(self._sessions) < self._max_sessions
            and self._partition_count + partition_count <= PARTITIONS_MAX
        )
