"""ShareFetch (key 78), versions 1-2: acquire records for a member of a share group, and acknowledge others.

- 1: max_records and batch_size
- 2: the mode of acquisition (KIP-1206), and the acknowledge type RENEW (KIP-1222)

A request that acquires fewer than `min_bytes` waits in the purgatory ShareFetch for at most `max_wait_ms`.
Its acknowledgements are stored at the same time. One that renews locks fetches nothing.
A request reads at most `PARTITIONS_PER_FETCH` partitions of its session, in turn.

A throttled response has its records and the throttle time, unlike in Kafka, where it has no records: they
are acquired already, and after a few such responses they would count as delivered too often.

Source: KIP-932; KafkaApis and SharePartitionManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Final, NamedTuple, cast

from tidelog.base.dataclass import dataclass
from tidelog.broker.api.element_release import ElementRelease
from tidelog.broker.api.handlers.share_acknowledgements import (
    AcknowledgementBatch,
    PendingResults,
    RenewalRules,
    ShareAcknowledger,
    ShareTopics,
    check_member,
    when_stored,
)
from tidelog.broker.api.handlers.share_fetch_responder import ShareFetchResponder
from tidelog.broker.api.request_steps import run_raw_steps
from tidelog.broker.coordinators.share.persister import SharePartitionKey
from tidelog.broker.fetching.remote_fetch import RemoteAccess
from tidelog.broker.network.request import Request
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import (
    CurrentLeaders,
)
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import require_access
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.share_partitions.acquisition import AcquireMode
from tidelog.broker.share_partitions.delayed_share_fetch import DelayedShareFetch
from tidelog.broker.share_partitions.member_sessions import MemberSessions
from tidelog.broker.share_partitions.registry import HostedSharePartition, SharePartitions
from tidelog.broker.share_partitions.remote_share_fetch import RemoteShareFetch
from tidelog.broker.share_partitions.share_read import (
    RemotePart,
    ShareFetchLimits,
    ShareRead,
    error_result,
)
from tidelog.broker.share_partitions.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MemberKey,
    ShareSession,
    TopicIdAndIndex,
)
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.codec import decode_in_steps, decode_prefix
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.framing import encode_response
from tidelog.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.share_groups.fetch_response_view import (
    ShareFetchResult,
)
from tidelog.protocol.steps import Steps
from tidelog.protocol.views.fetch_response_view import FetchPartitionResult
from tidelog.storage.segment.txn_index import AbortedTransaction

logger = logging.getLogger(__name__)

LARGE_BODY_BYTES: Final = 8 * 1024
"""A longer body is decoded in steps."""
PARTITIONS_PER_FETCH: Final = 1000
"""Checking this many takes about 2 ms."""
FIRST_VERSION_WITH_RENEWAL: Final = 2
LIMIT_ERROR_WAIT_MS_MAX: Final = 5000
"""A client without a session waits at most this long for its error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchParts:
    """The parts of a node that ShareFetch uses; `remote` is None on a node without remote storage."""

    replicas: ReplicaManager
    share_partitions: SharePartitions
    sessions: MemberSessions
    topics: ShareTopics
    acknowledger: ShareAcknowledger
    leaders: CurrentLeaders
    authorizer: Authorizer
    slices: Slices
    traffic: TopicTraffic
    remote: RemoteAccess | None
    max_bytes: int
    is_enabled: Callable[[], bool]


class _NamedPartitions(NamedTuple):
    """The partitions that a request adds to its session, acknowledges, and removes from its session."""

    requested: dict[TopicIdAndIndex, None]
    acknowledged: dict[TopicIdAndIndex, Sequence[AcknowledgementBatch]]
    forgotten: dict[TopicIdAndIndex, None]


@dataclass(slots=True)
class _Fetch:
    """One request while it is served."""

    request: Request
    member: MemberKey
    session: ShareSession
    is_last: bool
    """Whether the session ends after the request, which fetches nothing."""
    acknowledged: PendingResults = field(default_factory=dict)
    results: dict[TopicIdAndIndex, ShareFetchResult] = field(default_factory=dict)
    hosted: list[HostedSharePartition] = field(default_factory=list)


class ShareFetchHandler:
    """Serves share fetches."""

    def __init__(self, parts: ShareFetchParts) -> None:
        self._parts = parts
        self._element_release = ElementRelease(parts.slices)
        settings = parts.share_partitions.ports.settings
        self._responder = ShareFetchResponder(parts.replicas, parts.leaders, parts.traffic, settings)

    def handle(self, request: Request) -> None:
        """Acquire and respond, or park the request. The connection is closed if it is malformed."""
        self._run(request, self._serve(request))

    def _run(self, request: Request, steps: Steps[None]) -> None:
        run_raw_steps(self._parts.slices, request, steps, lambda error: self._fail(request, error))

    def _fail(self, request: Request, error: Exception) -> None:
        """Respond with an error of the whole request."""
        if isinstance(error, DecodeError):
            request.close(f"malformed ShareFetch request: {error}")
            return
        if isinstance(error, KafkaError):
            code, text = error.code, str(error)
        else:
            logger.error("Cannot serve a ShareFetch of %s", request.peer, exc_info=error)
            code, text = ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.text
        response = ShareFetchResponse(
            throttle_time_ms=0 if request.quota is None else request.quota.throttle(request),
            error_code=code,
            error_message=text,
        )
        _, version, correlation_id, _ = request.header
        request.respond(encode_response(ApiKey.SHARE_FETCH, version, correlation_id, response))

    def _serve(self, request: Request) -> Steps[None]:
        version = request.header.api_version
        if len(request.body) > LARGE_BODY_BYTES:
            message = yield from decode_in_steps(ShareFetchRequest, request.body, version)
            self._element_release.after_request(request, message)
        else:
            message, _ = decode_prefix(ShareFetchRequest, request.body, version, 0)
        # The message is a copy.
        request.release_frame(keeps_message=True)
        try:
            member = self._check(request, message)
            named = yield from _named_partitions(message)
            self._parts.slices.release_later(named.requested, named.forgotten)
            session = self._session(request, message, member, named)
        except KafkaError as error:
            if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
                self._fail_later(request, message.max_wait_ms, error)
                return
            raise
        fetch = _Fetch(request, member, session, message.share_session_epoch == FINAL_EPOCH)
        rules = RenewalRules(version >= FIRST_VERSION_WITH_RENEWAL, message.is_renew_ack)
        if named.acknowledged:
            with self._parts.sessions.ending_on_failure(session, is_last=fetch.is_last):
                fetch.acknowledged = yield from self._parts.acknowledger.acknowledge(
                    request, member, named.acknowledged, rules
                )
        limits = self._limits(request, message, member)
        if message.is_renew_ack or fetch.is_last or not limits.max_records or not limits.max_bytes:
            self._complete(fetch)
            return
        yield from self._find_partitions(fetch, message.share_session_epoch)
        if not fetch.hosted:
            self._complete(fetch)
            return
        self._wait(fetch, limits, message.max_wait_ms)

    # ---- checks and the session

    def _check(self, request: Request, message: ShareFetchRequest) -> MemberKey:
        """Return the member. Raise KafkaError for an error of the whole request."""
        if not self._parts.is_enabled():
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "share groups need share.version 1")
        member = check_member(message.group_id, message.member_id)
        authorizer = self._parts.authorizer
        require_access(authorizer, request, AclOperation.READ, AclResourceType.GROUP, member.group_id)
        if message.is_renew_ack:
            limits = {
                "maxBytes": message.max_bytes,
                "minBytes": message.min_bytes,
                "maxRecords": message.max_records,
                "maxWaitMs": message.max_wait_ms,
            }
            wrong = [f"{name} must be set to 0" for name, value in limits.items() if value]
            if wrong:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{', '.join(wrong)}, if isRenewAck is true.")
        return member

    def _session(
        self, request: Request, message: ShareFetchRequest, member: MemberKey, named: _NamedPartitions
    ) -> ShareSession:
        """Return the session, with the partitions of the request unless it is the last one.

        Errors: those of ShareSessions; INVALID_REQUEST for acknowledgements in the first request.
        """
        partitions = list(named.requested)
        if message.share_session_epoch == INITIAL_EPOCH:
            if named.acknowledged:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "the first request of a share session cannot acknowledge"
                )
            return self._parts.sessions.open(member, partitions, request.connection.client)
        sessions = self._parts.sessions.sessions
        session = sessions.next(member, message.share_session_epoch)
        if message.share_session_epoch == FINAL_EPOCH:
            return session
        sessions.update(session, partitions, named.forgotten)
        return session

    def _fail_later(self, request: Request, max_wait_ms: int, error: KafkaError) -> None:
        """Respond after a wait, so that a client without a session does not retry at once."""
        timer = self._parts.share_partitions.ports.timers.schedule(
            min(max_wait_ms, LIMIT_ERROR_WAIT_MS_MAX), lambda: self._fail(request, error)
        )
        request.begin_waiting(lambda _: timer.cancel())

    def _limits(self, request: Request, message: ShareFetchRequest, member: MemberKey) -> ShareFetchLimits:
        parts = self._parts
        max_bytes = min(message.max_bytes, parts.max_bytes)
        if request.quota is not None:
            max_bytes = min(max_bytes, request.quota.fetch_bytes_max())
        is_exact = message.share_acquire_mode == AcquireMode.RECORD_LIMIT
        return ShareFetchLimits(
            member_id=member.member_id,
            isolation=parts.share_partitions.ports.settings.isolation_of(member.group_id),
            min_bytes=min(message.min_bytes, max_bytes),
            max_bytes=max_bytes,
            max_records=message.max_records,
            batch_size=message.batch_size,
            mode=AcquireMode.RECORD_LIMIT if is_exact else AcquireMode.BATCH_OPTIMIZED,
            remote=None if parts.remote is None else parts.remote.reader,
        )

    # ---- fetching

    def _find_partitions(self, fetch: _Fetch, epoch: int) -> Steps[None]:
        """Find the share partitions of the session, in turn; add an error for each that cannot be used."""
        for partition in _in_turn(list(fetch.session.partitions), epoch):
            try:
                self._parts.topics.require_readable(fetch.request, partition)
                key = SharePartitionKey(fetch.member.group_id, partition.topic_id, partition.partition)
                fetch.hosted.append(self._parts.share_partitions.get_or_load(key))
            except KafkaError as error:
                fetch.results[partition] = error_result(error)
            yield None

    def _wait(self, fetch: _Fetch, limits: ShareFetchLimits, max_wait_ms: int) -> None:
        """Acquire at once if enough can be acquired, else let the request wait."""
        request = fetch.request

        def on_ready() -> None:
            self._run(request, self._acquire(fetch, limits))

        def on_failed(error: Exception) -> None:
            self._fail(request, error)

        operation = DelayedShareFetch(max_wait_ms, fetch.hosted, limits, on_ready, on_failed)
        purgatory = self._parts.share_partitions.ports.fetches
        if not purgatory.try_complete_else_watch(operation, operation.keys):
            request.begin_waiting(lambda _: operation.cancel())
            request.release_frame()
            request.begin_remote_time()

    def _acquire(self, fetch: _Fetch, limits: ShareFetchLimits) -> Steps[None]:
        """Read and acquire the records of each share partition, and respond."""
        read = ShareRead(limits, len(fetch.hosted))
        remote: list[RemotePart] = []
        for hosted in fetch.hosted:
            outcome = read.read(hosted)
            if isinstance(outcome, RemotePart):
                remote.append(outcome)
            else:
                fetch.results[_partition_of(hosted)] = outcome
            yield None
        if remote:
            self._read_remote(fetch, read, remote)
        else:
            self._complete(fetch)

    def _read_remote(self, fetch: _Fetch, read: ShareRead, remote_parts: Sequence[RemotePart]) -> None:
        """Read from remote storage, acquire, and respond."""
        remote = self._parts.remote
        assert remote is not None

        def on_read(results: Sequence[FetchPartitionResult]) -> None:
            for part, result in zip(remote_parts, results, strict=True):
                fetch.results[_partition_of(part.hosted)] = _acquired_remotely(read, part, result)
            self._complete(fetch)

        def on_failed(error: Exception) -> None:
            self._fail(fetch.request, error)

        reading = RemoteShareFetch(remote_parts, self._parts.share_partitions, on_read, on_failed)
        fetch.request.begin_waiting(lambda _: reading.cancel())
        fetch.request.begin_remote_time()
        reading.start(self._parts.replicas, remote, read.limits)

    # ---- responding

    def _complete(self, fetch: _Fetch) -> None:
        """Respond when the acknowledgements of the request are stored."""

        def on_stored() -> None:
            if fetch.is_last:
                self._parts.sessions.end(fetch.session)
            else:
                self._parts.sessions.release_if_ended(fetch.session)
            steps = self._responder.respond(
                fetch.request, fetch.session, fetch.member.group_id, fetch.results, fetch.acknowledged
            )
            self._run(fetch.request, steps)

        when_stored(fetch.acknowledged, on_stored)


def _named_partitions(message: ShareFetchRequest) -> Steps[_NamedPartitions]:
    """Return the partitions that a request names, each once."""
    named = _NamedPartitions({}, {}, {})
    for topic in message.topics:
        for each in topic.partitions:
            partition = TopicIdAndIndex(topic.topic_id, each.partition_index)
            named.requested[partition] = None
            if each.acknowledgement_batches:
                named.acknowledged[partition] = each.acknowledgement_batches
            yield None
    for forgotten in message.forgotten_topics_data:
        for index in forgotten.partitions:
            named.forgotten[TopicIdAndIndex(forgotten.topic_id, index)] = None
            yield None
    return named


def _in_turn(partitions: list[TopicIdAndIndex], epoch: int) -> Sequence[TopicIdAndIndex]:
    """Return the partitions that a request reads: each request of a session begins with another one."""
    count = len(partitions)
    if count > PARTITIONS_PER_FETCH:
        begin = epoch * PARTITIONS_PER_FETCH % count
        return (partitions + partitions)[begin : begin + PARTITIONS_PER_FETCH]
    begin = epoch % max(1, count)
    return partitions[begin:] + partitions[:begin]


def _partition_of(hosted: HostedSharePartition) -> TopicIdAndIndex:
    return TopicIdAndIndex(hosted.key.topic_id, hosted.key.partition)


def _acquired_remotely(read: ShareRead, part: RemotePart, result: FetchPartitionResult) -> ShareFetchResult:
    """Acquire the records of a remote read."""
    if result.error_code:
        return ShareFetchResult(error_code=result.error_code)
    try:
        part.hosted.require_usable()
        records = cast("bytes | memoryview | None", result.records)
        aborted = cast("Sequence[AbortedTransaction] | None", result.aborted_transactions)
        return read.acquire(part.hosted, part.offset, records, aborted)
    except KafkaError as error:
        return error_result(error)
