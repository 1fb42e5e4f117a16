"""Unlimited names, long strings in every API, and APIs of other listeners (review)."""

from __future__ import annotations

from typing import Final

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import request_frame
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


def _use_many_client_ids(context: AttackContext) -> None:
    client = context.client()
    request = MetadataRequest(topics=())
    context.begin()
    number = 0
    while not context.has_ended:
        frames = [
            request_frame(request, 9, client_id=f"client-{number + index}-" + "x" * 200)
            for index in range(PIPELINED)
        ]
        client.send(b"".join(frames))
        for _ in frames:
            client.receive()
        number += PIPELINED
    context.note(f"{number:,} client ids")


def _use_many_client_programs(context: AttackContext) -> None:
    """Send ApiVersions with new names and versions of software, by which Kafka counts connections."""
    context.begin()
    number = 0
    while not context.has_ended:
        request = ApiVersionsRequest(
            client_software_name=f"program-{number}", client_software_version=f"{number}.0"
        )
        client = context.client()
        client.send(request_frame(request, 3))
        client.receive()
        client.close()
        number += 1
    context.note(f"{number:,} programs")


def _use_long_client_ids(context: AttackContext) -> None:
    frame = request_frame(MetadataRequest(topics=()), 9, client_id=LONG_CLIENT_ID) * 20
    client = context.client()
    context.begin()
    while not context.has_ended:
        client.send(frame)
        for _ in range(20):
            client.receive()


def _send_long_strings(context: AttackContext) -> None:
    """Send every API with 32 kB in every string, the maximum of the protocol."""
    frames = [
        request_frame(with_strings(request_type(key), version, STRING_BYTES_MAX), version)
        for key, version in latest_versions(context.target.address)
    ]
    _send_each(context, frames)


def _send_each(context: AttackContext, frames: list[bytes]) -> None:
    client = context.client()
    context.begin()
    closed = 0
    while True:
        for frame in frames:
            # Some requests end the connection, as one of acks 0 with an error.
            if context.exchange(client, frame) is None:
                closed += 1
                client.close()
                client = context.client()
        if context.has_ended:
            break
    context.note(f"{len(frames)} requests, {closed} closed the connection")


def _request_apis_of_other_listeners(context: AttackContext) -> None:
    frames = []
    for key in OF_OTHER_LISTENERS:
        if key in APIS:
            cls = request_type(key)
            version = cls.valid_versions.highest or 0
            frames.append(request_frame(with_strings(cls, version, "text"), version))
    context.begin()
    while True:
        for frame in frames:
            client = context.client()
            response = context.exchange(client, frame)
            context.expect(response is None, f"api key {frame[5]} has a response for a client")
            client.close()
        if context.has_ended:
            break


ATTACKS = (
    Attack(
        name="client-ids-without-end",
        item="review",
        actions="every request has a client id that is new, of 200 characters",
        run=_use_many_client_ids,
    ),
    Attack(
        name="client-programs-without-end",
        item="review",
        actions="every connection names client software that is new",
        run=_use_many_client_programs,
    ),
    Attack(
        name="long-client-ids",
        item="review",
        actions="client ids of 32 kB",
        run=_use_long_client_ids,
    ),
    Attack(
        name="long-strings",
        item="review",
        actions="every API with strings of 32 kB",
        run=_send_long_strings,
        memory_mib=160,
        log_lines_max=400,
    ),
    Attack(
        name="apis-of-other-listeners",
        item="review",
        actions="Envelope, Vote, FetchSnapshot, BrokerRegistration and others that only nodes send",
        run=_request_apis_of_other_listeners,
    ),
)
