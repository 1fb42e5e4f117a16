"""Groups: huge members, very many groups, responses larger than their requests (review)."""

from __future__ import annotations

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import Scene
from tests.harness.hostile.attacks.closed_connections import join_request
from tests.harness.hostile.frames import framed
from tests.support.network.raw_client import RawClient, decoded_answer
from tidelog.broker.coordinators.groups.join import PROTOCOLS_MAX
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.list_groups import ListGroupsRequest
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tidelog.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tidelog.protocol.registry import ApiKey

LONG_METADATA = "m" * 4096
"""The longest metadata that offset.metadata.max.bytes allows."""


def _joined(
    scene: Scene, client: RawClient, group: str, metadata: bytes, protocols: int = 1
) -> JoinGroupResponse | None:
    """Join a group as its only member and return the response."""
    response = scene.exchange(client, framed(join_request(group, metadata, protocols), 3))
    if response is None:
        return None
    answer = decoded_answer(ApiKey.JOIN_GROUP, 3, bytes(response))
    assert isinstance(answer, JoinGroupResponse)
    return answer


def _join_many_groups(scene: Scene) -> None:
    """Join groups that are new and remain, because a member's session lasts five minutes."""
    client = scene.client()
    metadata = bytes(1000)
    scene.begin()
    number = 0
    while not scene.is_over:
        if _joined(scene, client, f"flood-{number}", metadata) is None:
            break
        number += 1
    scene.note(f"{number:,} groups")


def _commit_for_many_groups(scene: Scene) -> None:
    client = scene.client()
    topic = OffsetCommitRequestTopic(
        name="plain",
        partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),),
    )
    scene.begin()
    number = 0
    while not scene.is_over:
        request = OffsetCommitRequest(
            group_id=f"simple-{number}", generation_id_or_member_epoch=-1, topics=(topic,)
        )
        if scene.exchange(client, framed(request, 8)) is None:
            break
        number += 1
    scene.note(f"{number:,} groups")
    frame = framed(ListGroupsRequest(), 4)
    for _ in range(10):
        scene.exchange(client, frame)


def _commit_long_metadata(scene: Scene) -> None:
    """Commit offsets of one partition many times in one request, each with the longest metadata."""
    client = scene.client()
    partitions = (
        OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=LONG_METADATA),
    ) * scene.size(10_000, 50)
    request = OffsetCommitRequest(
        group_id="long-metadata",
        generation_id_or_member_epoch=-1,
        topics=(OffsetCommitRequestTopic(name="plain", partitions=partitions),),
    )
    frame = framed(request, 8)
    scene.begin()
    scene.repeat(frame, client)


def _fetch_long_metadata(scene: Scene) -> None:
    """Request offsets of a group with long metadata repeatedly, with small requests."""
    client = scene.client()
    partitions = tuple(
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=1, committed_metadata=LONG_METADATA
        )
        for number in range(2)
    )
    request = OffsetCommitRequest(
        group_id="amplified",
        generation_id_or_member_epoch=-1,
        topics=(OffsetCommitRequestTopic(name="plain", partitions=partitions),),
    )
    client.ask(request, 8, OffsetCommitResponse)
    group = OffsetFetchRequestGroup(group_id="amplified", topics=None)
    frame = framed(OffsetFetchRequest(groups=(group,) * scene.size(20_000, 50)), 8)
    scene.begin()
    response = scene.exchange(client, frame)
    if response is not None:
        scene.note(f"{len(frame):,} bytes of request, {len(response):,} bytes of response")
    scene.repeat(frame, client)


def _join_with_many_protocols(scene: Scene) -> None:
    _join_with_protocols(scene, scene.size(100_000), ErrorCode.INVALID_REQUEST)


def _join_with_as_many_protocols_as_allowed(scene: Scene) -> None:
    _join_with_protocols(scene, PROTOCOLS_MAX, ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _join_with_protocols(scene: Scene, protocols: int, *expected: ErrorCode) -> None:
    client = scene.client()
    scene.begin()
    number = 0
    while True:
        # Each group is new: in a group with a member, the next member would wait for the first one to rejoin.
        joined = _joined(scene, client, f"many-protocols-{number}", b"x", protocols)
        if joined is None:
            break
        scene.expect(joined.error_code in expected, f"joined with {ErrorCode(joined.error_code).name}")
        number += 1
        if scene.is_over:
            break
    scene.note(f"{number} groups")


def _synchronize_large_assignments(scene: Scene) -> None:
    _synchronize(scene, scene.size(20 * MEBIBYTE, 2 * MEBIBYTE), ErrorCode.UNKNOWN_SERVER_ERROR)


def _synchronize_largest_assignments(scene: Scene) -> None:
    _synchronize(scene, 1_000_000, ErrorCode.NONE)


def _synchronize(scene: Scene, assignment_bytes: int, expected: ErrorCode) -> None:
    client = scene.client()
    scene.begin()
    number = 0
    while True:
        group = f"assigned-{number}"
        joined = _joined(scene, client, group, b"x")
        if joined is None or joined.error_code:
            break
        assignments = (
            SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(assignment_bytes)),
        )
        request = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=assignments,
        )
        synced = client.ask(request, 3, SyncGroupResponse)
        scene.expect(synced.error_code == expected, f"SyncGroup: {ErrorCode(synced.error_code).name}")
        number += 1
        if scene.is_over or number >= 20:
            break
    scene.note(f"{number} groups with assignments of {assignment_bytes:,} bytes")


def _leave_descriptions_unread(scene: Scene) -> None:
    """Request metadata of 40 groups per response, which stays in memory until it is read."""
    names = tuple(f"described-{number}" for number in range(scene.size(40, 2)))
    client = scene.client()
    for name in names:
        _form_group(scene, client, name, bytes(scene.size(900_000, 10_000)))
    frame = framed(DescribeGroupsRequest(groups=names), 5)
    scene.begin()
    response = scene.exchange(client, frame)
    for _ in range(scene.size(100, 5)):
        scene.client().send(frame)
    scene.hold()
    scene.note(f"{len(frame):,} bytes of request, {len(response or b''):,} bytes of response")


def _form_group(scene: Scene, client: RawClient, group: str, metadata: bytes) -> None:
    """Form a stable group with one member."""
    joined = _joined(scene, client, group, metadata)
    assert joined is not None and not joined.error_code, joined
    assignments = (SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all"),)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=assignments,
    )
    synced = client.ask(request, 3, SyncGroupResponse)
    assert not synced.error_code, ErrorCode(synced.error_code)


ATTACKS = (
    Attack(
        name="groups-joined-without-end",
        item="review",
        does="a connection joins one new group after the other",
        run=_join_many_groups,
        memory_mib=128,
        memory_kept_mib=128,
    ),
    Attack(
        name="groups-committed-without-end",
        item="review",
        does="a connection commits an offset for one new group after the other, then lists them",
        run=_commit_for_many_groups,
    ),
    Attack(
        name="commit-long-metadata",
        item="review",
        does="an OffsetCommit names a partition 10,000 times with 4 KiB of metadata",
        run=_commit_long_metadata,
        memory_mib=256,
        # Spare receive buffers of 64 MiB, and what the C library keeps; it does not grow when repeated.
        memory_kept_mib=160,
    ),
    Attack(
        name="offset-fetch-amplified",
        item="review",
        does="an OffsetFetch names a group with 8 KiB of metadata 20,000 times",
        run=_fetch_long_metadata,
        memory_mib=256,
    ),
    Attack(
        name="join-with-many-protocols",
        item="review",
        does="JoinGroups with 100,000 protocols, which are rejected",
        run=_join_with_many_protocols,
        memory_mib=96,
    ),
    Attack(
        name="join-with-allowed-protocols",
        item="review",
        does="a connection joins one new group after the other, with the 100 protocols that are allowed",
        run=_join_with_as_many_protocols_as_allowed,
        # Members stay for their session of five minutes, together at most group.max.member.bytes.
        memory_mib=160,
        memory_kept_mib=160,
    ),
    Attack(
        name="sync-large-assignments",
        item="review",
        does="SyncGroups with assignments of 20 MiB, which do not fit into a record",
        run=_synchronize_large_assignments,
        memory_mib=128,
    ),
    Attack(
        name="sync-largest-assignments",
        item="review",
        does="SyncGroups with assignments of 1,000,000 bytes, the longest that can be written",
        run=_synchronize_largest_assignments,
    ),
    Attack(
        name="unread-large-responses",
        item="review",
        does="100 connections request descriptions of 40 groups, 36 MB, and read nothing",
        run=_leave_descriptions_unread,
        # max.unsent.response.bytes, four responses being encoded, and the same amount while they grow.
        memory_mib=640,
    ),
)
