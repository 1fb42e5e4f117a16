"""Groups: huge members, very many groups, responses larger than their requests (review)."""

from __future__ import annotations

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.attacks.closed_connections import join_request
from tests.harness.hostile.frames import request_frame
from tests.support.network.raw_client import RawClient, decode_response
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


def _join_group(
    context: AttackContext, client: RawClient, group: str, metadata: bytes, protocols: int = 1
) -> JoinGroupResponse | None:
    """Join a group as its only member and return the response."""
    response = context.exchange(client, request_frame(join_request(group, metadata, protocols), 3))
    if response is None:
        return None
    join_response = decode_response(ApiKey.JOIN_GROUP, 3, bytes(response))
    assert isinstance(join_response, JoinGroupResponse)
    return join_response


def _join_many_groups(context: AttackContext) -> None:
    """Join groups that are new and remain, because a member's session lasts five minutes."""
    client = context.client()
    metadata = bytes(1000)
    context.begin()
    number = 0
    while not context.has_ended:
        if _join_group(context, client, f"flood-{number}", metadata) is None:
            break
        number += 1
    context.note(f"{number:,} groups")


def _commit_for_many_groups(context: AttackContext) -> None:
    client = context.client()
    topic = OffsetCommitRequestTopic(
        name="plain",
        partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),),
    )
    context.begin()
    number = 0
    # A group keeps 2.5 KB until its offset expires: the bound of memory needs a number.
    while not context.has_ended and number < 20_000:
        request = OffsetCommitRequest(
            group_id=f"simple-{number}", generation_id_or_member_epoch=-1, topics=(topic,)
        )
        if context.exchange(client, request_frame(request, 8)) is None:
            break
        number += 1
    context.note(f"{number:,} groups")
    frame = request_frame(ListGroupsRequest(), 4)
    for _ in range(10):
        context.exchange(client, frame)


def _commit_long_metadata(context: AttackContext) -> None:
    """Commit offsets of one partition many times in one request, each with the longest metadata."""
    client = context.client()
    partitions = (
        OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=LONG_METADATA),
    ) * context.size(10_000, 50)
    request = OffsetCommitRequest(
        group_id="long-metadata",
        generation_id_or_member_epoch=-1,
        topics=(OffsetCommitRequestTopic(name="plain", partitions=partitions),),
    )
    frame = request_frame(request, 8)
    context.begin()
    context.repeat(frame, client)


def _fetch_long_metadata(context: AttackContext) -> None:
    """Request offsets of a group with long metadata repeatedly, with small requests."""
    client = context.client()
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
    client.send_request(request, 8, OffsetCommitResponse)
    group = OffsetFetchRequestGroup(group_id="amplified", topics=None)
    frame = request_frame(OffsetFetchRequest(groups=(group,) * context.size(20_000, 50)), 8)
    context.begin()
    response = context.exchange(client, frame)
    if response is not None:
        context.note(f"{len(frame):,} bytes of request, {len(response):,} bytes of response")
    context.repeat(frame, client)


def _join_with_many_protocols(context: AttackContext) -> None:
    _join_with_protocols(context, context.size(100_000), ErrorCode.INVALID_REQUEST)


def _join_with_as_many_protocols_as_allowed(context: AttackContext) -> None:
    _join_with_protocols(context, PROTOCOLS_MAX, ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _join_with_protocols(context: AttackContext, protocols: int, *expected: ErrorCode) -> None:
    client = context.client()
    context.begin()
    number = 0
    while True:
        # Each group is new: in a group with a member, the next member would wait for the first one to rejoin.
        join_response = _join_group(context, client, f"many-protocols-{number}", b"x", protocols)
        if join_response is None:
            break
        context.expect(
            join_response.error_code in expected, f"joined with {ErrorCode(join_response.error_code).name}"
        )
        number += 1
        if context.has_ended:
            break
    context.note(f"{number} groups")


def _synchronize_large_assignments(context: AttackContext) -> None:
    assignment_bytes = context.size(20 * MEBIBYTE, 2 * MEBIBYTE)
    _synchronize(context, "rejected", assignment_bytes, ErrorCode.UNKNOWN_SERVER_ERROR)


def _synchronize_largest_assignments(context: AttackContext) -> None:
    _synchronize(context, "assigned", 1_000_000, ErrorCode.NONE)


def _synchronize(
    context: AttackContext, group_prefix: str, assignment_bytes: int, expected: ErrorCode
) -> None:
    """Form groups with new names: a join of a group with a member would wait for it."""
    client = context.client()
    context.begin()
    number = 0
    while True:
        group = f"{group_prefix}-{number}"
        join_response = _join_group(context, client, group, b"x")
        if join_response is None or join_response.error_code:
            break
        assignments = (
            SyncGroupRequestAssignment(member_id=join_response.member_id, assignment=bytes(assignment_bytes)),
        )
        request = SyncGroupRequest(
            group_id=group,
            generation_id=join_response.generation_id,
            member_id=join_response.member_id,
            assignments=assignments,
        )
        sync_response = client.send_request(request, 3, SyncGroupResponse)
        context.expect(
            sync_response.error_code == expected, f"SyncGroup: {ErrorCode(sync_response.error_code).name}"
        )
        number += 1
        if context.has_ended or number >= 20:
            break
    context.note(f"{number} groups with assignments of {assignment_bytes:,} bytes")


def _leave_descriptions_unread(context: AttackContext) -> None:
    """Request metadata of 40 groups per response, which stays in memory until it is read."""
    names = tuple(f"described-{number}" for number in range(context.size(40, 2)))
    client = context.client()
    for name in names:
        _form_group(context, client, name, bytes(context.size(900_000, 10_000)))
    frame = request_frame(DescribeGroupsRequest(groups=names), 5)
    context.begin()
    response = context.exchange(client, frame)
    for _ in range(context.size(100, 5)):
        context.client().send(frame)
    context.hold()
    context.note(f"{len(frame):,} bytes of request, {len(response or b''):,} bytes of response")


def _form_group(context: AttackContext, client: RawClient, group: str, metadata: bytes) -> None:
    """Form a stable group with one member."""
    join_response = _join_group(context, client, group, metadata)
    assert join_response is not None and not join_response.error_code, join_response
    assignments = (SyncGroupRequestAssignment(member_id=join_response.member_id, assignment=b"all"),)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=join_response.generation_id,
        member_id=join_response.member_id,
        assignments=assignments,
    )
    sync_response = client.send_request(request, 3, SyncGroupResponse)
    assert not sync_response.error_code, ErrorCode(sync_response.error_code)


ATTACKS = (
    Attack(
        name="groups-joined-without-end",
        item="review",
        actions="a connection joins one new group after the other",
        run=_join_many_groups,
        memory_mib=128,
        memory_kept_mib=128,
    ),
    Attack(
        name="groups-committed-without-end",
        item="review",
        actions="a connection commits an offset for 20,000 new groups, one after the other, then lists them",
        run=_commit_for_many_groups,
    ),
    Attack(
        name="commit-long-metadata",
        item="review",
        actions="an OffsetCommit names a partition 10,000 times with 4 KiB of metadata",
        run=_commit_long_metadata,
        memory_mib=256,
        # Spare receive buffers of 64 MiB, and what the C library keeps; it does not grow when repeated.
        memory_kept_mib=160,
    ),
    Attack(
        name="offset-fetch-amplified",
        item="review",
        actions="an OffsetFetch names a group with 8 KiB of metadata 20,000 times",
        run=_fetch_long_metadata,
        memory_mib=256,
    ),
    Attack(
        name="join-with-many-protocols",
        item="review",
        actions="JoinGroups with 100,000 protocols, which are rejected",
        run=_join_with_many_protocols,
        memory_mib=96,
    ),
    Attack(
        name="join-with-allowed-protocols",
        item="review",
        actions="a connection joins one new group after the other, with the 100 protocols that are allowed",
        run=_join_with_as_many_protocols_as_allowed,
        # Members stay for their session of five minutes, together at most group.max.member.bytes.
        memory_mib=160,
        memory_kept_mib=160,
    ),
    Attack(
        name="sync-large-assignments",
        item="review",
        actions="SyncGroups with assignments of 20 MiB, which do not fit into a record",
        run=_synchronize_large_assignments,
        memory_mib=128,
    ),
    Attack(
        name="sync-largest-assignments",
        item="review",
        actions="SyncGroups with assignments of 1,000,000 bytes, the longest that can be written",
        run=_synchronize_largest_assignments,
    ),
    Attack(
        name="unread-large-responses",
        item="review",
        actions="100 connections request descriptions of 40 groups, 36 MB, and read nothing",
        run=_leave_descriptions_unread,
        # max.unsent.response.bytes, four responses being encoded, and the same amount while they grow.
        memory_mib=640,
    ),
)
