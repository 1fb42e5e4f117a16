"""The APIs of the quorum: their requests are passed to the state machine, which handles them.

Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot of the metadata log, DescribeQuorum, and
Add-, Remove- and UpdateRaftVoter. They are served on the listeners for controllers.

A request that is not about exactly one partition of one topic gets INVALID_REQUEST here. It never reaches the
state machine, where it could end the process (CVE-2026-83525).

Source: KafkaRaftClient of Apache Kafka; KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.quorum.events import Event, RequestReceived
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.registry import APIS, ApiKey
from tidelog.protocol.schema import ApiMessage

RAFT_APIS: Final = (
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
)
_ABOUT_A_PARTITION: Final = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.DESCRIBE_QUORUM,
    }
)


class RaftHandlers:
    """Passes requests to `post`; `is_ended` returns whether the state machine has stopped."""

    def __init__(self, post: Callable[[Event], None], is_ended: Callable[[], bool]) -> None:
        self._post = post
        self._is_ended = is_ended

    def register(self, dispatcher: Dispatcher) -> None:
        """Register all of these APIs with `dispatcher`."""
        for key in RAFT_APIS:
            dispatcher.register(key, self.handle, uses_slot=False, may_wait=False)

    def handle(self, context: RequestContext, request: ApiMessage) -> asyncio.Future[ApiMessage]:
        """Return a future of the response of the state machine."""
        if self._is_ended():
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the metadata quorum on this node has ended")
        require_one_partition(request)
        response: asyncio.Future[ApiMessage] = asyncio.get_running_loop().create_future()
        self._post(RequestReceived(response, request, context.header.api_version, context.listener))
        return response


def require_one_partition(request: ApiMessage) -> None:
    """Raise KafkaError INVALID_REQUEST for a request about no partition, or about several."""
    if request.api_key not in _ABOUT_A_PARTITION:
        return
    message: Any = request
    count = sum(len(topic.partitions) for topic in message.topics)
    if len(message.topics) != 1 or count != 1:
        name = APIS[request.api_key].name
        text = f"{name} about {len(message.topics)} topics and {count} partitions; exactly one is allowed"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
