"""Responds to ShareFetch requests: selects and counts results, throttles clients, names current leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import cast
from uuid import UUID

from tidelog.broker.api.handlers.share_acknowledgements import PendingResults, stored_result
from tidelog.broker.network.request import Request, ResponsePart
from tidelog.broker.observability.topic_traffic import OTHER_TOPICS, TopicTraffic
from tidelog.broker.partitions.current_leaders import (
    ERRORS_THAT_NAME_THE_LEADER,
    CurrentLeader,
    CurrentLeaders,
)
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.share_partitions.settings import ShareGroupSettings
from tidelog.broker.share_partitions.share_sessions import ShareSession, TopicIdAndIndex
from tidelog.protocol.share_groups.fetch_response_view import (
    ShareFetchResult,
    TopicResults,
    encode_share_fetch_response,
)
from tidelog.protocol.steps import Steps


class ShareFetchResponder:
    """Sends the responses of share fetches."""

    def __init__(
        self,
        replicas: ReplicaManager,
        leaders: CurrentLeaders,
        traffic: TopicTraffic,
        settings: ShareGroupSettings,
    ) -> None:
        self._replicas = replicas
        self._leaders = leaders
        self._traffic = traffic
        self._settings = settings

    def respond(
        self,
        request: Request,
        session: ShareSession,
        group_id: str,
        results: Mapping[TopicIdAndIndex, ShareFetchResult],
        acknowledged: PendingResults,
    ) -> Steps[None]:
        """Respond with the acquired records, and with the results of acknowledgements."""
        selected: dict[TopicIdAndIndex, ShareFetchResult] = {}
        size_bytes = 0
        for partition, result in results.items():
            length = result.records_length
            if length:
                size_bytes += length
                topic = self._replicas.topic_name(partition.topic_id)
                self._traffic.record_fetched(topic or OTHER_TOPICS, length)
            if session.must_send(partition, has_records=length > 0, has_error=result.error_code != 0):
                selected[partition] = result
        for partition, pending in acknowledged.items():
            result = selected.setdefault(partition, ShareFetchResult())
            result.acknowledge_error_code, result.acknowledge_error_message = stored_result(pending)
            yield None
        self._traffic.record_fetch(len(results), replicated_bytes=0)
        throttle_time_ms = 0
        if request.quota is not None:
            throttle_time_ms = request.quota.throttle_fetch(request, size_bytes, keeps_records=True)
        leaders = self._set_leaders(selected)
        topics = yield from _by_topic(selected)
        parts = yield from encode_share_fetch_response(
            request.header.correlation_id,
            topics,
            throttle_time_ms=throttle_time_ms,
            lock_timeout_ms=self._settings.limits_of(group_id).lock_duration_ms,
            node_endpoints=self._leaders.endpoints(leaders, request.listener) if leaders else (),
        )
        # Records are file slices of the log. The network sends them without copying.
        request.respond(cast(list[ResponsePart], parts))

    def _set_leaders(self, results: Mapping[TopicIdAndIndex, ShareFetchResult]) -> list[CurrentLeader | None]:
        """Set the leader in the results of partitions with other leaders; return these leaders."""
        leaders: list[CurrentLeader | None] = []
        for (topic_id, index), result in results.items():
            if result.error_code in ERRORS_THAT_NAME_THE_LEADER:
                leader = self._leaders.leader_of(None, topic_id, index)
                result.leader = leader or (-1, -1)
                leaders.append(leader)
        return leaders


def _by_topic(results: Mapping[TopicIdAndIndex, ShareFetchResult]) -> Steps[list[TopicResults]]:
    topics: defaultdict[UUID, list[tuple[int, ShareFetchResult]]] = defaultdict(list)
    for (topic_id, index), result in results.items():
        topics[topic_id].append((index, result))
        yield None
    return [TopicResults(topic_id, partitions) for topic_id, partitions in topics.items()]
