"""A running broker and hostile requests of every API and version that it serves.

The broker responds to each request or closes its connection. Meanwhile it serves other clients, logs no
failure of its own, and does not use more memory. Well-formed requests with extreme values get an error
code that describes the problem, never UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.support.batches.mutations import mutate
from tests.support.messages.long_strings import STRING_BYTES_MAX, with_strings
from tests.support.messages.random_messages import (
    Domain,
    Shape,
    declared_fields,
    inner_struct,
    random_message,
    random_messages,
)
from tests.support.network.raw_client import RawClient, decode_response, served_versions
from tests.support.waiting import TIMEOUT_S
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.codec import encode
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import encode_request
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.registry import ApiKey, request_header_version, request_type
from tidelog.protocol.schema import Message, Struct, Uuid
from tidelog.testing.embedded import EmbeddedCluster

MUTATIONS_PER_VERSION = 60
GROWTH_BYTES_MAX = 64 * 1024 * 1024
TOPICS = ("topic-1", "a")
GOOD_TOPIC = "good"
CORRELATION_ID = 77

CONFIG = {
    # A number that random requests do not contain: any client may unregister a broker.
    "node.id": "31337",
    "auto.create.topics.enable": "false",
    # Short sessions, because the broker waits for members of a group until their sessions expire.
    "group.min.session.timeout.ms": "1",
    "group.max.session.timeout.ms": "50",
    "socket.request.max.bytes": "1048576",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def address(cluster: EmbeddedCluster) -> tuple[str, int]:
    host, port = cluster.bootstrap_servers.split(":")
    return host, int(port)


@pytest.fixture(scope="module")
def topic_id(address: tuple[str, int]) -> UUID:
    """Create the topics that random messages name; return the id of the first."""
    with RawClient(*address) as client:
        topics = tuple(
            CreatableTopic(name=name, num_partitions=2, replication_factor=1)
            for name in (*TOPICS, GOOD_TOPIC)
        )
        created = client.send_request(
            CreateTopicsRequest(topics=topics, timeout_ms=9000), 7, CreateTopicsResponse
        )
        assert not any(topic.error_code for topic in created.topics)
        return created.topics[0].topic_id


@pytest.fixture
def no_failures(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that the broker has logged no failure of its own."""
    caplog.set_level(logging.WARNING)
    yield
    failures = [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
    assert not failures, failures[0].getMessage() + "\n" + str(failures[0].exc_text)


class Neighbour:
    """A correct client with its own connection that produces and reads metadata until it is stopped."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._client = RawClient(*address)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.served = 0
        self.failure: BaseException | None = None

    def __enter__(self) -> Neighbour:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        self._client.close()
        assert self.failure is None, f"after {self.served} requests: {self.failure!r}"
        assert self.served > 0

    def _run(self) -> None:
        builder = BatchBuilder()
        builder.append(-1, b"key", b"value")
        data = (PartitionProduceData(index=0, records=bytes(builder.build())),)
        produce = ProduceRequest(
            acks=-1, timeout_ms=9000, topic_data=(TopicProduceData(name=GOOD_TOPIC, partition_data=data),)
        )
        metadata = MetadataRequest(topics=(MetadataRequestTopic(name=GOOD_TOPIC),))
        try:
            is_last = False
            while not is_last:
                # A last round follows after the end. The pause leaves CPU time to other tests.
                is_last = self._stop.wait(0.01)
                written = self._client.send_request(produce, 9, ProduceResponse)
                assert written.responses[0].partition_responses[0].error_code == 0
                response = self._client.send_request(metadata, 9, MetadataResponse)
                assert response.topics[0].error_code == 0
                self.served += 1
        except BaseException as error:
            self.failure = error


def resident_bytes() -> int:
    """Return the memory of this process, which contains broker and clients."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def id_fields(cls: type[Struct]) -> Iterator[tuple[type[Struct], str]]:
    """Yield every field of `cls`, at any depth, that has a topic id."""
    for field in declared_fields(cls):
        if isinstance(field.kind, Uuid):
            yield cls, field.name
        inner = inner_struct(field.kind)
        if inner is not None:
            yield from id_fields(inner)


def domain_of(cls: type[Message], topic_id: UUID) -> Domain:
    """Return values with ids that sometimes exist, and without waiting times."""
    domain: dict[tuple[type[Struct], str], Any] = {
        key: lambda random: random.choice((topic_id, topic_id, UUID(int=9))) for key in id_fields(cls)
    }
    domain[FetchRequest, "max_wait_ms"] = lambda random: random.choice((0, 1, -1, -(2**31)))
    domain[ProduceRequest, "acks"] = lambda random: random.choice((-1, 1, 1, 2, -2, 2**15 - 1))
    return domain


def requests_of(key: ApiKey, version: int, topic_id: UUID, mixed: int) -> list[Any]:
    cls = request_type(key)
    return random_messages(cls, version, "hostile", mixed, domain_of(cls, topic_id))


def header_of(key: int, version: int) -> bytes:
    flexible = request_header_version(key, version) > 1
    return struct.pack(">hhih", key, version, CORRELATION_ID, -1) + (b"\0" if flexible else b"")


def hostile_frames(key: ApiKey, version: int, topic_id: UUID) -> Iterator[bytes]:
    """Yield frames with a correct size prefix and invalid contents."""
    random = Random(f"{key} {version}")
    cls = request_type(key)
    shapes = (Shape.FULL, Shape.MIXED, Shape.EMPTY, Shape.HIGHEST)
    header = header_of(key, version)
    for number in range(MUTATIONS_PER_VERSION):
        shape = shapes[number % len(shapes)]
        good = encode(random_message(cls, version, random, shape, domain_of(cls, topic_id)), version)
        match number % 6:
            case 0:
                frame = header + good[: random.randrange(len(good) + 1)]
            case 1:
                frame = header + good + random.randbytes(random.randint(1, 9))
            case 2:
                frame = header + random.randbytes(random.randrange(100))
            case _:
                frame = header + mutate(good, random)
        yield struct.pack(">i", len(frame)) + frame
    yield struct.pack(">i", len(header)) + header
    damaged = mutate(header, random)
    yield struct.pack(">i", len(damaged)) + damaged


class Attacker:
    """Sends frames; opens a connection when the previous one was closed."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._client = RawClient(*address)
        self.response_count = self.closed = 0

    def send(self, frame: bytes) -> list[bytes] | None:
        """Send a frame; return the responses, or None if the connection was closed."""
        if self._client.closed:
            self._client.close()
            self._client = RawClient(*self._address)
        frames = self._client.responses_to(frame)
        if frames is None:
            self.closed += 1
        else:
            self.response_count += 1
        return frames

    def close(self) -> None:
        self._client.close()


def test_malformed_requests_of_every_api_and_version_close_at_most_their_connection(
    address: tuple[str, int], topic_id: UUID, no_failures: None
) -> None:
    attacker = Attacker(address)
    before = 0
    with Neighbour(address):
        for number, (key, version) in enumerate(served_versions(*address)):
            for frame in hostile_frames(key, version, topic_id):
                attacker.send(frame)
            if number == 20:
                before = resident_bytes()
    attacker.close()
    assert attacker.response_count + attacker.closed > 8000
    assert attacker.closed > 1000
    assert attacker.response_count > 100
    assert resident_bytes() - before < GROWTH_BYTES_MAX


@pytest.mark.parametrize("version", [-(2**15), -1, 999, 2**15 - 1])
def test_an_unknown_version_closes_the_connection_except_for_api_versions(
    version: int, address: tuple[str, int], topic_id: UUID, no_failures: None
) -> None:
    with Neighbour(address):
        for key in sorted({key for key, _ in served_versions(*address)}):
            attacker = Attacker(address)
            frame = header_of(key, version)
            frames = attacker.send(struct.pack(">i", len(frame)) + frame)
            if key == ApiKey.API_VERSIONS:
                assert frames is not None
                assert int.from_bytes(frames[0][4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
            else:
                assert frames is None, f"{key.name} version {version} has a response"
            attacker.close()


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 1048577, 0, 1, 7])
def test_an_invalid_frame_size_closes_only_its_connection(
    size: int, address: tuple[str, int], topic_id: UUID, no_failures: None
) -> None:
    attacker = Attacker(address)
    with Neighbour(address):
        assert attacker.send(struct.pack(">i", size) + b"\0\x12\0\0\0\0\0\1\xff\xff" * 5) is None
    attacker.close()


def error_codes(value: Any) -> Iterator[int]:
    """Return the error codes in all parts of a response."""
    if isinstance(value, tuple):
        for item in value:
            yield from error_codes(item)
    elif is_dataclass(value):
        for field in fields(value):
            inner = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield inner
            else:
                yield from error_codes(inner)


def test_extreme_requests_of_every_api_and_version_get_a_specific_error(
    address: tuple[str, int], topic_id: UUID, no_failures: None
) -> None:
    attacker = Attacker(address)
    failures: list[str] = []
    with Neighbour(address):
        for key, version in served_versions(*address):
            for message in requests_of(key, version, topic_id, mixed=25):
                frames = attacker.send(encode_request(key, version, CORRELATION_ID, "\0🌊", message))
                if frames is None and key == ApiKey.PRODUCE and message.acks == 0:
                    # The only way to report an error to a producer with acks=0.
                    continue
                if frames is None:
                    failures.append(f"closed on {key.name} version {version}: {message}")
                    continue
                for frame in frames:
                    response = decode_response(key, version, frame)
                    if ErrorCode.UNKNOWN_SERVER_ERROR in error_codes(response):
                        failures.append(f"{key.name} version {version}: {message}")
    attacker.close()
    assert not failures, f"{len(failures)} requests: " + "\n".join(text[:600] for text in failures[:10])


def test_the_longest_strings_in_every_api_and_version_get_an_encodable_error(
    address: tuple[str, int], topic_id: UUID, no_failures: None
) -> None:
    """An error that quotes such a string would be longer than any string of a response can be."""
    attacker = Attacker(address)
    with Neighbour(address):
        for key, version in served_versions(*address):
            message = with_strings(request_type(key), version, STRING_BYTES_MAX)
            frames = attacker.send(encode_request(key, version, CORRELATION_ID, "long", message))
            for frame in frames or ():
                response = decode_response(key, version, frame)
                assert ErrorCode.UNKNOWN_SERVER_ERROR not in error_codes(response), key.name
    attacker.close()
