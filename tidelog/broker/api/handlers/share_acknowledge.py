"""ShareAcknowledge (key 79), versions 1-2: acknowledge records that a member of a share group has acquired.

- 2: the acknowledge type RENEW (KIP-1222), and the duration of locks in the response

The last request of a session has the epoch -1; afterwards the remaining records of the member are released.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from tidelog.broker.api.handlers.share_acknowledgements import (
    AcknowledgementBatch,
    PendingResults,
    RenewalRules,
    ShareAcknowledger,
    check_member,
    stored_result,
    when_stored,
)
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.partitions.current_leaders import (
    ERRORS_THAT_NAME_THE_LEADER,
    CurrentLeader,
    CurrentLeaders,
)
from tidelog.broker.share_partitions.member_sessions import MemberSessions
from tidelog.broker.share_partitions.settings import ShareGroupSettings
from tidelog.broker.share_partitions.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MemberKey,
    TopicIdAndIndex,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from tidelog.protocol.steps import Steps, map_items

FIRST_VERSION_WITH_RENEWAL: Final = 2


class ShareAcknowledgeHandler:
    """Responds when the changes of all partitions are stored."""

    def __init__(
        self,
        acknowledger: ShareAcknowledger,
        sessions: MemberSessions,
        settings: ShareGroupSettings,
        leaders: CurrentLeaders,
        is_enabled: Callable[[], bool],
    ) -> None:
        self._acknowledger = acknowledger
        self._sessions = sessions
        self._settings = settings
        self._leaders = leaders
        self._is_enabled = is_enabled

    def handle(
        self, context: RequestContext, request: ShareAcknowledgeRequest
    ) -> Steps[asyncio.Future[Steps[ShareAcknowledgeResponse]]]:
        """Return the future of the response. Raise KafkaError for an error of the whole request."""
        if not self._is_enabled():
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "share groups need share.version 1")
        member = check_member(request.group_id, request.member_id)
        if request.share_session_epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "a share session begins with ShareFetch")
        requested: dict[TopicIdAndIndex, Sequence[AcknowledgementBatch]] = {}
        for topic in request.topics:
            for partition in topic.partitions:
                name = TopicIdAndIndex(topic.topic_id, partition.partition_index)
                requested[name] = partition.acknowledgement_batches
                yield None
        session = self._sessions.sessions.next(member, request.share_session_epoch)
        rules = RenewalRules(context.header.api_version >= FIRST_VERSION_WITH_RENEWAL, request.is_renew_ack)
        is_last = request.share_session_epoch == FINAL_EPOCH
        with self._sessions.ending_on_failure(session, is_last=is_last):
            results = yield from self._acknowledger.acknowledge(context, member, requested, rules)
        response: asyncio.Future[Steps[ShareAcknowledgeResponse]] = asyncio.get_running_loop().create_future()

        def on_stored() -> None:
            if is_last:
                self._sessions.end(session)
            if not response.done():
                response.set_result(self._response(context, member, results))

        when_stored(results, on_stored)
        return response

    def _response(
        self, context: RequestContext, member: MemberKey, results: PendingResults
    ) -> Steps[ShareAcknowledgeResponse]:
        topics: defaultdict[UUID, list[PartitionData]] = defaultdict(list)
        leaders: list[CurrentLeader | None] = []
        for (topic_id, index), pending in results.items():
            result = stored_result(pending)
            leader = None
            if result.error_code in ERRORS_THAT_NAME_THE_LEADER:
                leader = self._leaders.leader_of(None, topic_id, index)
                leaders.append(leader)
            leader_id, leader_epoch = leader or (0, 0)
            topics[topic_id].append(
                PartitionData(
                    partition_index=index,
                    error_code=result.error_code,
                    error_message=result.error_message,
                    current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
                )
            )
            yield None
        response_topics = yield from map_items(
            lambda each: ShareAcknowledgeTopicResponse(topic_id=each[0], partitions=tuple(each[1])),
            topics.items(),
        )
        endpoints = self._leaders.endpoints(leaders, context.listener) if leaders else ()
        return ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=self._settings.limits_of(member.group_id).lock_duration_ms,
            responses=response_topics,
            node_endpoints=tuple(
                NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
                for each in endpoints
            ),
        )
