"""Unlimited names, long strings in every API, and APIs of other listeners (review)."""

from __future__ import annotations

from typing import Final

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import Scene
from tests.harness.hostile.frames import framed
from tests.harness.hostile.large_arrays import latest_versions
from tests.support.messages.long_strings import STRING_BYTES_MAX, with_strings
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.registry import APIS, ApiKey, request_type

PIPELINED: Final = 100
LONG_CLIENT_ID: Final = "c" * 32_767
OF_OTHER_LISTENERS: Final = (
    ApiKey.ENVELOPE,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.UPDATE_RAFT_VOTER,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.PUSH_TELEMETRY,
)


def _use_many_client_ids(scene: Scene) -> None:
    client = scene.client()
    request = MetadataRequest(topics=())
    scene.begin()
    number = 0
    while not scene.is_over:
        frames = [
            framed(request, 9, client_id=f"client-{number + index}-" + "x" * 200)
            for index in range(PIPELINED)
        ]
        client.send(b"".join(frames))
        for _ in frames:
            client.receive()
        number += PIPELINED
    scene.note(f"{number:,} client ids")


def _use_many_client_programs(scene: Scene) -> None:
    """Send ApiVersions with new names and versions of software, by which Kafka counts connections."""
    scene.begin()
    number = 0
    while not scene.is_over:
        request = ApiVersionsRequest(
            client_software_name=f"program-{number}", client_software_version=f"{number}.0"
        )
        client = scene.client()
        client.send(framed(request, 3))
        client.receive()
        client.close()
        number += 1
    scene.note(f"{number:,} programs")


def _use_long_client_ids(scene: Scene) -> None:
    frame = framed(MetadataRequest(topics=()), 9, client_id=LONG_CLIENT_ID) * 20
    client = scene.client()
    scene.begin()
    while not scene.is_over:
        client.send(frame)
        for _ in range(20):
            client.receive()


def _send_long_strings(scene: Scene) -> None:
    """Send every API with 32 kB in every string, the maximum of the protocol."""
    frames = [
        framed(with_strings(request_type(key), version, STRING_BYTES_MAX), version)
        for key, version in latest_versions(scene.target.address)
    ]
    _send_each(scene, frames)


def _send_each(scene: Scene, frames: list[bytes]) -> None:
    client = scene.client()
    scene.begin()
    closed = 0
    while True:
        for frame in frames:
            # Some requests end the connection, as one of acks 0 with an error.
            if scene.exchange(client, frame) is None:
                closed += 1
                client.close()
                client = scene.client()
        if scene.is_over:
            break
    scene.note(f"{len(frames)} requests, {closed} closed the connection")


def _request_apis_of_other_listeners(scene: Scene) -> None:
    frames = []
    for key in OF_OTHER_LISTENERS:
        if key in APIS:
            cls = request_type(key)
            version = cls.valid_versions.highest or 0
            frames.append(framed(with_strings(cls, version, "text"), version))
    scene.begin()
    while True:
        for frame in frames:
            client = scene.client()
            response = scene.exchange(client, frame)
            scene.expect(response is None, f"api key {frame[5]} has a response for a client")
            client.close()
        if scene.is_over:
            break


ATTACKS = (
    Attack(
        name="client-ids-without-end",
        item="review",
        does="every request has a client id that is new, of 200 characters",
        run=_use_many_client_ids,
    ),
    Attack(
        name="client-programs-without-end",
        item="review",
        does="every connection names client software that is new",
        run=_use_many_client_programs,
    ),
    Attack(
        name="long-client-ids",
        item="review",
        does="client ids of 32 kB",
        run=_use_long_client_ids,
    ),
    Attack(
        name="long-strings",
        item="review",
        does="every API with strings of 32 kB",
        run=_send_long_strings,
        memory_mib=160,
        log_lines_max=400,
    ),
    Attack(
        name="apis-of-other-listeners",
        item="review",
        does="Envelope, Vote, FetchSnapshot, BrokerRegistration and others that only nodes send",
        run=_request_apis_of_other_listeners,
    ),
)
