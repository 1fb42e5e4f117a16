"""The steps of a member to its target assignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember, MemberState
from tidelog.broker.coordinators.groups.consumer.partition_epochs import NOT_OWNED
from tidelog.broker.coordinators.groups.consumer.reconciliation import Reconciliation
from tidelog.protocol.errors import ErrorCode, KafkaError

T, U = UUID(int=1), UUID(int=2)
MEMBER = ConsumerMember(member_id="m", member_epoch=1, previous_member_epoch=0, assigned={T: {0: 1, 1: 1}})


def step(
    member: ConsumerMember,
    target: Mapping[UUID, set[int]],
    *,
    epoch: int = 2,
    owned: Mapping[UUID, set[int]] | None = None,
    taken: dict[tuple[UUID, int], int] | None = None,
    subscribed: frozenset[UUID] = frozenset({T, U}),
    changed: bool = False,
) -> ConsumerMember:
    """Return the member after one step; `taken` are the partitions of other members with their epochs."""
    reconciliation = Reconciliation(
        target_epoch=epoch,
        target={topic: frozenset(indexes) for topic, indexes in target.items()},
        subscribed=subscribed,
        partition_epoch=lambda topic, index: (taken or {}).get((topic, index), NOT_OWNED),
        owned=None if owned is None else {topic: frozenset(indexes) for topic, indexes in owned.items()},
        subscription_changed=changed,
    )
    return reconciliation.next_step(member)


def test_a_member_revokes_before_it_advances_and_keeps_the_epochs_of_what_it_keeps() -> None:
    revoking = step(MEMBER, {T: {1, 2}})
    assert (revoking.state, revoking.member_epoch) == (MemberState.UNREVOKED_PARTITIONS, 1)
    assert (revoking.assigned, revoking.pending_revocation) == ({T: {1: 1}}, {T: {0: 1}})
    assert step(revoking, {T: {1, 2}}) is revoking, "a heartbeat without partitions shows nothing"
    assert step(revoking, {T: {1, 2}}, owned={T: {0, 1}}) is revoking
    advanced = step(revoking, {T: {1, 2}}, owned={T: {1}})
    assert (advanced.state, advanced.member_epoch, advanced.previous_member_epoch) == (
        MemberState.STABLE,
        2,
        1,
    )
    assert (advanced.assigned, advanced.pending_revocation) == ({T: {1: 1, 2: 2}}, {})


def test_a_member_gets_a_partition_only_when_no_other_member_owns_it() -> None:
    waiting = step(MEMBER, {T: {0, 1, 2}}, taken={(T, 2): 1})
    assert (waiting.state, waiting.member_epoch) == (MemberState.UNRELEASED_PARTITIONS, 2)
    assert waiting.assigned == MEMBER.assigned
    still = step(waiting, {T: {0, 1, 2}}, taken={(T, 2): 1})
    assert (still.state, still.assigned) == (MemberState.UNRELEASED_PARTITIONS, MEMBER.assigned)
    complete = step(waiting, {T: {0, 1, 2}})
    assert (complete.state, complete.assigned) == (MemberState.STABLE, {T: {0: 1, 1: 1, 2: 2}})


def test_a_member_that_waits_follows_a_new_target() -> None:
    waiting = step(MEMBER, {T: {0, 1}, U: {0}}, taken={(U, 0): 1})
    revoking = step(waiting, {T: {0}}, epoch=3)
    assert (revoking.state, revoking.member_epoch) == (MemberState.UNREVOKED_PARTITIONS, 2)


def test_a_partition_that_the_target_gives_back_need_not_be_free() -> None:
    revoking = step(MEMBER, {T: {1}})
    back = step(revoking, {T: {0, 1}}, epoch=3, owned={T: {1}}, taken={(T, 0): 1, (T, 1): 1})
    assert (back.state, back.assigned) == (MemberState.STABLE, {T: {1: 1, 0: 3}})


def test_a_stable_member_in_the_epoch_of_the_target_is_unchanged() -> None:
    assert step(MEMBER, {T: {5}}, epoch=1) is MEMBER


def test_a_member_that_unsubscribes_revokes_at_once_in_its_epoch() -> None:
    revoking = step(MEMBER, {T: {0, 1}}, epoch=1, subscribed=frozenset({U}), changed=True)
    assert (revoking.state, revoking.member_epoch, revoking.assigned) == (
        MemberState.UNREVOKED_PARTITIONS,
        1,
        {},
    )
    assert revoking.pending_revocation == MEMBER.assigned
    without = step(MEMBER, {T: {0, 1}}, epoch=1, subscribed=frozenset({U}), changed=True, owned={})
    assert (without.state, without.assigned) == (MemberState.STABLE, {})


def test_partitions_of_topics_that_are_not_subscribed_are_no_target() -> None:
    advanced = step(MEMBER, {T: {0, 1}, U: {0}}, subscribed=frozenset({T}))
    assert advanced.assigned == MEMBER.assigned


def test_a_member_in_an_unknown_state_must_join_again_without_partitions() -> None:
    unknown = replace(MEMBER, state=MemberState(77))
    assert unknown.state is MemberState.UNKNOWN
    for owned in (None, {T: {0}}):
        with pytest.raises(KafkaError) as error:
            step(unknown, {T: {0}}, owned=owned)
        assert error.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(unknown, {T: {0, 1}}, owned={}).state is MemberState.STABLE
