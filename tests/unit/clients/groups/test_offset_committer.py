"""The generation and member id with which a consumer's offsets are committed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.groups.memberships import OFFERS, join_response, member
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata
from tidelog.clients.groups.membership import Membership
from tidelog.clients.groups.offset_committer import OffsetCommitter
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.sync_group import SyncGroupResponse

UNUSED: Any = None


def create_committer(membership: Membership | None) -> OffsetCommitter:
    committer = OffsetCommitter(UNUSED, UNUSED, CoordinatorLookup(UNUSED, "harbour"), dict)
    committer.set_membership(membership)
    return committer


def join(membership: Membership, generation: int) -> None:
    membership.join_request(OFFERS)
    membership.on_join_response(join_response(generation=generation), 0)
    membership.on_sync_response(SyncGroupResponse(), 0)


def test_a_transaction_gets_the_generation_of_the_polled_records() -> None:
    # KIP-447: in the new generation another member may read these partitions already.
    membership = member()
    committer = create_committer(membership)
    join(membership, 1)
    membership.on_assignment_applied()
    assert committer.group_metadata() == ConsumerGroupMetadata("harbour", 1, "m-1")
    membership.request_join("group is rebalancing")
    join(membership, 2)
    assert committer.group_metadata() == ConsumerGroupMetadata("harbour", 1, "m-1")
    membership.on_assignment_applied()
    assert committer.group_metadata() == ConsumerGroupMetadata("harbour", 2, "m-1")


def test_a_consumer_without_generation_cannot_commit_in_a_transaction() -> None:
    membership = member()
    committer = create_committer(membership)
    join(membership, 1)
    membership.on_assignment_applied()
    membership.on_commit_error(ErrorCode.ILLEGAL_GENERATION)
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            committer.group_metadata()
        assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        join(membership, 3)  # the new assignment was not polled yet


def test_a_consumer_with_manual_assignment_commits_without_a_member_id() -> None:
    assert create_committer(None).group_metadata() == ConsumerGroupMetadata("harbour")
