"""A broker on a real socket whose responses a test defines, for errors that real brokers rarely return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.protocol.codec import decode
from tidelog.protocol.framing import encode_response, read_request_header
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdResponse
from tidelog.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.registry import APIS, ApiKey, request_type
from tidelog.protocol.schema import ZERO_UUID, ApiMessage


class ReceivedRequest(NamedTuple):
    """A received request; `frame` is without its size."""

    api_key: int
    version: int
    correlation_id: int
    message: Any
    frame: bytes


class Close:
    """Returned by a handler that closes the connection instead of a response."""


class Silence:
    """Returned by a handler that sends no response."""


ScriptedResponse = ApiMessage | bytes | type[Close] | type[Silence] | None
Handler = Callable[[ReceivedRequest], ScriptedResponse]


def responses_in_order(*responses: ScriptedResponse) -> Handler:
    """Return a handler that returns these responses in order, and then the last one again and again."""
    remaining = list(responses)

    def handler(request: ReceivedRequest) -> ScriptedResponse:
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return handler


@dataclass
class ScriptedBroker:
    """Responds to ApiVersions, Metadata and InitProducerId by itself, and to other APIs by `handlers`.

    Metadata has topic "tides" with `topic_id`, `partitions`, `leaders` and `leader_epoch`. `versions` lowers
    the highest version of single APIs.
    """

    node_id: int = 1
    port: int = 0
    partitions: int = 1
    topic_id: UUID = ZERO_UUID
    leader_epoch: int = 1
    peers: dict[int, ScriptedBroker] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    handlers: dict[int, Handler] = field(default_factory=dict)
    received_requests: list[ReceivedRequest] = field(default_factory=list)
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    def requests(self, api_key: int) -> list[Any]:
        """Return the received messages of one API."""
        return [entry.message for entry in self.received_requests if entry.api_key == api_key]

    @property
    def address(self) -> str:
        """Return host:port."""
        return f"127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, one request at a time."""
        task = asyncio.current_task()
        assert task is not None
        self.connections[task] = writer
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                if not self._respond(frame, writer):
                    break
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            del self.connections[task]

    async def close_connections(self) -> None:
        """Close every connection."""
        for writer in self.connections.values():
            writer.close()
        if self.connections:
            await asyncio.wait(list(self.connections))

    def _respond(self, frame: bytes, writer: asyncio.StreamWriter) -> bool:
        header, position = read_request_header(memoryview(frame))
        message = decode(request_type(header.api_key), frame[position:], header.api_version)
        request = ReceivedRequest(header.api_key, header.api_version, header.correlation_id, message, frame)
        self.received_requests.append(request)
        handler = self.handlers.get(header.api_key, self._standard)
        response = handler(request)
        if response is Close:
            return False
        if isinstance(response, bytes):
            writer.write(response)
        elif isinstance(response, ApiMessage):
            writer.write(encode_response(header.api_key, header.api_version, header.correlation_id, response))
        return True

    def _standard(self, request: ReceivedRequest) -> ScriptedResponse:
        if request.api_key == ApiKey.API_VERSIONS:
            return self.api_versions()
        if request.api_key == ApiKey.METADATA:
            return self.metadata()
        if request.api_key == ApiKey.INIT_PRODUCER_ID:
            return InitProducerIdResponse(producer_id=77, producer_epoch=0)
        return Close

    def api_versions(self) -> ApiVersionsResponse:
        """Return all supported versions, limited by `versions`."""
        return ApiVersionsResponse(
            api_keys=tuple(
                ApiVersion(
                    api_key=api.key,
                    min_version=api.lowest,
                    max_version=self.versions.get(int(api.key), api.highest),
                )
                for api in APIS.values()
            )
        )

    def metadata(self) -> MetadataResponse:
        """Return this broker and its peers, and topic "tides"."""
        brokers = {self.node_id: self, **self.peers}
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(node_id=id_, host="127.0.0.1", port=broker.port)
                for id_, broker in brokers.items()
            ),
            cluster_id="scripted",
            controller_id=self.node_id,
            topics=(
                MetadataResponseTopic(
                    name="tides",
                    topic_id=self.topic_id,
                    partitions=tuple(
                        MetadataResponsePartition(
                            partition_index=number,
                            leader_id=self.leaders.get(number, self.node_id),
                            leader_epoch=self.leader_epoch,
                        )
                        for number in range(self.partitions)
                    ),
                ),
            ),
        )


@asynccontextmanager
async def scripted_brokers(count: int = 1) -> AsyncIterator[list[ScriptedBroker]]:
    """Yield brokers 1, 2, ... that list each other in their metadata."""
    brokers = [ScriptedBroker(node_id=number + 1) for number in range(count)]
    servers = []
    for broker in brokers:
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
        broker.port = server.sockets[0].getsockname()[1]
        broker.peers = {peer.node_id: peer for peer in brokers}
        servers.append(server)
    try:
        yield brokers
    finally:
        for broker, server in zip(brokers, servers, strict=True):
            server.close()
            await broker.close_connections()
