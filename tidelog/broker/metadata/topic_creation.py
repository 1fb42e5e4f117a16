"""Creates topics that a request needs: of clients, if auto.create.topics.enable, of coordinators and groups.

The request does not wait. Its response states that the topic does not exist yet, and the client repeats it,
as in Kafka 4. A topic that a client requests is created on behalf of the client: by its principal, and within
its quota of controller mutations. The topics of the coordinators have their own partitions and configs.

Bounds: a topic is requested once while its creation is in progress; at most `MAX_IN_FLIGHT` topics at a time,
more are left to the next request. Source: AutoTopicCreationManager of Apache Kafka 4.3, and the topic configs
of its coordinators.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeAlias, TypeVar

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_channel import ControllerChannel
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.topic_names import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    invalid_name_reason,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

logger = logging.getLogger(__name__)

ErrorReport: TypeAlias = Callable[[str, str], None]
"""Called with the name of a topic that could not be created, and the reason."""

MAX_IN_FLIGHT: Final = 1000
CLOSE_TIMEOUT_S: Final = 1.0


class ClientRequests(Protocol):
    """Sends requests to the controller on behalf of clients; implemented by Forwarder."""

    def highest_version(self, key: ApiKey) -> int:
        """Return the highest version of an API that the controller serves, too."""
        ...

    async def forward(
        self, context: RequestContext, message: ApiMessage, response: type[ResponseT]
    ) -> ResponseT:
        """Return the response to `message`; raise KafkaError without one."""
        ...


class TopicCreation:
    """Creates topics in the background; `close` waits at most CLOSE_TIMEOUT_S for them."""

    def __init__(
        self, channel: ControllerChannel, clients: ClientRequests, config: BrokerConfig, clock: Clock
    ) -> None:
        """Request topics of this broker over `channel`, and those that clients need by `clients`."""
        self._channel = channel
        self._clients = clients
        self._config = config
        self._clock = clock
        self._in_flight: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_errors: dict[str, str] = {}

    def request(self, names: Iterable[str], client: RequestContext | None = None) -> dict[str, ErrorCode]:
        """Begin to create topics, and return the error for each name.

        `client` is the request that needs them; None for topics of the coordinators.
        UNKNOWN_TOPIC_OR_PARTITION until the topic exists, INVALID_TOPIC_EXCEPTION for an invalid name.
        """
        errors: dict[str, ErrorCode] = {}
        valid: list[str] = []
        for name in names:
            if invalid_name_reason(name) is not None:
                errors[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
                continue
            errors[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            valid.append(name)
        self.create((creatable_topic(self._config, name) for name in valid), client, self._report)
        return errors

    def create(
        self, topics: Iterable[CreatableTopic], client: RequestContext | None, report: ErrorReport
    ) -> None:
        """Begin to create topics with their own partitions and configs; `report` gets the errors.

        A topic whose creation is in progress is omitted.
        """
        started: list[CreatableTopic] = []
        for topic in topics:
            if topic.name not in self._in_flight and len(self._in_flight) < MAX_IN_FLIGHT:
                self._in_flight.add(topic.name)
                started.append(topic)
        if started:
            creation = self._create(started, client, report)
            task = asyncio.get_running_loop().create_task(creation, name="create-topics")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def ensure(self, topic: str) -> None:
        """Begin to create one topic, unless that is in progress; do not wait for it."""
        self.request([topic])

    async def close(self) -> None:
        """Wait for creations in progress, but not long, because there may be no controller."""
        tasks = list(self._tasks)
        if tasks:
            _, open_tasks = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT_S)
            for task in open_tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _create(
        self, topics: Sequence[CreatableTopic], client: RequestContext | None, report: ErrorReport
    ) -> None:
        names = [topic.name for topic in topics]
        request = CreateTopicsRequest(topics=tuple(topics), timeout_ms=self._config.request_timeout_ms)
        try:
            response = await (self._send(request) if client is None else self._forward(request, client))
        except KafkaError as error:
            for name in names:
                report(name, str(error))
        else:
            for result in response.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    report(result.name, result.error_message or ErrorCode(result.error_code).text)
        finally:
            self._in_flight.difference_update(names)

    async def _send(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        deadline = self._clock.monotonic_ms() + self._config.request_timeout_ms
        return await self._channel.request(request, CreateTopicsResponse, deadline=deadline)

    async def _forward(self, request: CreateTopicsRequest, client: RequestContext) -> CreateTopicsResponse:
        key, header = ApiKey.CREATE_TOPICS, client.header
        new_header = RequestHeader(
            key, self._clients.highest_version(key), header.correlation_id, header.client_id
        )
        return await self._clients.forward(replace(client, header=new_header), request, CreateTopicsResponse)

    def _report(self, name: str, text: str) -> None:
        """Log why a topic cannot be created, unless that was the last error of the topic, too."""
        if self._last_errors.get(name) == text:
            return
        if len(self._last_errors) >= MAX_IN_FLIGHT:
            self._last_errors.clear()
        self._last_errors[name] = text
        logger.warning("Cannot create topic %s automatically: %s", name, text)


def creatable_topic(config: BrokerConfig, name: str) -> CreatableTopic:
    """Return partitions, replicas and configs of a topic that is created automatically."""
    if name == GROUP_METADATA_TOPIC:
        return _topic(
            name,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        return _topic(
            name,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            },
        )
    if name == SHARE_GROUP_STATE_TOPIC:
        return _topic(
            name,
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "retention.ms": "-1",
            },
        )
    return _topic(name, config.num_partitions, config.default_replication_factor, {})


def _topic(name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
