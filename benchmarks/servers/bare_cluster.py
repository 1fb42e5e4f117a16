"""The bare broker with the additional APIs that librdkafka needs to produce to it.

    python -m benchmarks.servers.bare_cluster

Every topic has four partitions, whose leader is this server. The throughput of librdkafka with it is the
upper bound for a broker in Python: each Produce is only parsed, checked, given an offset and written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Final

from benchmarks.servers.bare_broker import BareBroker
from benchmarks.servers.framed import serve
from tidelog.protocol.codec import decode
from tidelog.protocol.framing import encode_response, read_request_header
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.registry import ApiKey, request_type
from tidelog.protocol.schema import ApiMessage

NODE_ID: Final = 1
PARTITIONS: Final = 4
LATEST: Final = -1
HIGHEST: Final = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 11,
    ApiKey.LIST_OFFSETS: 5,
    ApiKey.METADATA: 9,
    ApiKey.API_VERSIONS: 3,
}
"""The versions offered; without Fetch librdkafka takes the broker for one of old."""


class BareCluster:
    """A cluster of one bare broker."""

    def __init__(self, directory: str) -> None:
        self._broker = BareBroker(directory)
        self._host, self._port = "", 0
        self._slow: Mapping[int, Callable[[Any], ApiMessage]] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.LIST_OFFSETS: self._list_offsets,
        }

    def listens(self, host: str, port: int) -> None:
        """Set the address of the broker in responses to clients."""
        self._host, self._port = host, port

    def handle(self, frame: memoryview) -> bytes:
        """Return the frame of the response."""
        if not frame[1]:  # Produce is API 0
            return self._broker.handle(frame)
        header, position = read_request_header(frame)
        request = decode(request_type(header.api_key), frame[position:], header.api_version)
        response = self._slow[header.api_key](request)
        return encode_response(header.api_key, header.api_version, header.correlation_id, response)

    def _api_versions(self, _: object) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=tuple(ApiVersion(api_key=key, max_version=version) for key, version in HIGHEST.items())
        )

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        partitions = tuple(
            MetadataResponsePartition(
                partition_index=number, leader_id=NODE_ID, replica_nodes=(NODE_ID,), isr_nodes=(NODE_ID,)
            )
            for number in range(PARTITIONS)
        )
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=NODE_ID, host=self._host, port=self._port),),
            controller_id=NODE_ID,
            topics=tuple(
                MetadataResponseTopic(name=topic.name, partitions=partitions)
                for topic in request.topics or ()
            ),
        )

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            offset=self._offset(each),
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _offset(self, requested: ListOffsetsPartition) -> int:
        return self._broker.end_offset(requested.partition_index) if requested.timestamp == LATEST else 0


def main() -> None:
    """Serve until SIGTERM."""
    with tempfile.TemporaryDirectory(prefix="tidelog-bare-") as directory:
        cluster = BareCluster(directory)
        serve(cluster.handle, cluster.listens)


if __name__ == "__main__":
    main()
