"""The leader's state of one partition: the ISR, its changes, and the high watermark."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tests.sim.replication.safeguards import Safeguard, ablate
from tidelog.cluster.image import BrokerImage, PartitionImage
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrMember, IsrOutcome, IsrProposal
from tidelog.cluster.replication.leader_state import LeaderState
from tidelog.protocol.errors import ErrorCode, KafkaError

LEADER, SECOND, THIRD = 1, 2, 3
LAG_MS = 30_000


class LeaderFixture:
    """A leader of a partition with three replicas, and the brokers known to it."""

    def __init__(
        self,
        *,
        isr: tuple[int, ...] = (1, 2, 3),
        replicas: tuple[int, ...] = (1, 2, 3),
        min_insync_replicas: int = 1,
        log_end: int = 0,
    ) -> None:
        self.brokers = {
            broker: BrokerImage(
                id=broker, epoch=100 + broker, incarnation_id=UUID(int=broker), endpoints={}, fenced=False
            )
            for broker in (1, 2, 3, 4)
        }
        self.log_end = log_end
        self.now_ms = 0
        self.partition_image = PartitionImage(
            replicas=replicas, isr=isr, leader=LEADER, leader_epoch=5, partition_epoch=10
        )
        self.state = LeaderState(
            LEADER,
            lag_time_max_ms=LAG_MS,
            min_insync_replicas=min_insync_replicas,
            brokers=lambda: self.brokers,
            own_epoch=lambda: 101,
        )
        self.follow(self.partition_image)

    def follow(self, partition_image: PartitionImage) -> bool:
        self.partition_image = partition_image
        return self.state.apply_metadata(partition_image, self.log_end, self.now_ms)

    def fetch(self, broker: int, offset: int, *, epoch: int | None = None, log_start: int = 0) -> bool:
        epoch = self.brokers[broker].epoch if epoch is None else epoch
        return self.state.record_fetch(broker, offset, log_start, self.log_end, epoch, self.now_ms)

    @property
    def high_watermark(self) -> int | None:
        return self.state.high_watermark(self.log_end, self.log_end, self.now_ms)

    def expand(self, broker: int, high_watermark: int = 0) -> IsrProposal | None:
        return self.state.propose_expansion(broker, high_watermark)

    def shrink(self) -> IsrProposal | None:
        return self.state.propose_shrink(self.log_end, self.now_ms)


def committed_isr(
    proposal: IsrProposal, *, leader_epoch: int | None = None, partition_epoch: int | None = None
) -> CommittedIsr:
    return CommittedIsr(
        leader_epoch=proposal.leader_epoch if leader_epoch is None else leader_epoch,
        partition_epoch=proposal.partition_epoch + 1 if partition_epoch is None else partition_epoch,
        isr=tuple(member.broker_id for member in proposal.members),
    )


# -- the high watermark


def test_the_high_watermark_is_the_smallest_log_end_of_the_isr() -> None:
    leading = LeaderFixture(log_end=10)
    assert leading.high_watermark == -1
    leading.fetch(SECOND, 7)
    leading.fetch(THIRD, 9)
    assert leading.high_watermark == 7
    leading.fetch(SECOND, 10)
    assert leading.high_watermark == 9


def test_a_single_isr_member_commits_alone() -> None:
    leading = LeaderFixture(isr=(1,), log_end=10)
    assert leading.high_watermark == 10
    assert not leading.state.waits_for_followers


def test_the_high_watermark_does_not_advance_below_min_insync_replicas() -> None:
    leading = LeaderFixture(isr=(1,), min_insync_replicas=2, log_end=10)
    assert leading.state.is_under_min_isr
    assert leading.high_watermark is None


def test_without_kip_966_a_single_leader_commits_unreplicated_records() -> None:
    with ablate({Safeguard.MIN_ISR_FOR_HIGH_WATERMARK}):
        leading = LeaderFixture(isr=(1,), min_insync_replicas=2, log_end=10)
        assert leading.high_watermark == 10


def test_min_insync_replicas_above_the_replication_factor_means_all_replicas() -> None:
    leading = LeaderFixture(replicas=(1, 2), isr=(1, 2), min_insync_replicas=3)
    assert leading.state.effective_min_insync_replicas == 2
    assert not leading.state.is_under_min_isr
    assert leading.state.is_at_min_isr


def test_the_high_watermark_waits_for_a_follower_that_is_joining() -> None:
    leading = LeaderFixture(isr=(1,), log_end=10)
    leading.fetch(SECOND, 10)
    leading.log_end = 15
    assert leading.high_watermark == 10
    leading.now_ms += LAG_MS + 1
    assert leading.high_watermark == 15


def test_the_high_watermark_does_not_wait_for_a_follower_that_cannot_join() -> None:
    leading = LeaderFixture(isr=(1,), log_end=10)
    leading.fetch(SECOND, 10)
    leading.log_end = 15
    leading.brokers[SECOND] = replace(leading.brokers[SECOND], fenced=True)
    assert leading.high_watermark == 15


# -- joining


def test_a_follower_at_the_high_watermark_and_the_epoch_start_joins() -> None:
    leading = LeaderFixture(isr=(1, 3), log_end=10)
    leading.fetch(SECOND, 10)
    proposal = leading.expand(SECOND, high_watermark=8)
    assert proposal is not None
    assert proposal.is_expansion
    assert proposal.members == (IsrMember(1, 101), IsrMember(3, -1), IsrMember(2, 102))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 10)
    assert leading.state.isr == (1, 3)
    assert leading.state.maximal_isr == {1, 2, 3}


def test_a_follower_below_the_high_watermark_does_not_join() -> None:
    leading = LeaderFixture(isr=(1,), log_end=0)
    leading.log_end = 10
    leading.fetch(SECOND, 7)
    assert leading.expand(SECOND, high_watermark=8) is None


def test_kafka_7128_a_follower_below_the_epoch_start_does_not_join() -> None:
    leading = LeaderFixture(isr=(1, 3), log_end=100)
    leading.fetch(SECOND, 80)
    assert leading.expand(SECOND, high_watermark=50) is None
    leading.fetch(SECOND, 100)
    assert leading.expand(SECOND, high_watermark=50) is not None


def test_kafka_7128_without_the_rule_a_follower_below_the_epoch_start_joins() -> None:
    leading = LeaderFixture(isr=(1, 3), log_end=100)
    leading.fetch(SECOND, 80)
    with ablate({Safeguard.EPOCH_START_BEFORE_JOINING}):
        assert leading.expand(SECOND, high_watermark=50) is not None


@pytest.mark.parametrize("fenced", [True, False])
def test_kip_841_a_fenced_or_stopping_broker_does_not_join(fenced: bool) -> None:
    for disabled in (frozenset[Safeguard](), frozenset({Safeguard.FENCED_STAY_OUT})):
        leading = LeaderFixture(isr=(1,))
        broker = leading.brokers[SECOND]
        leading.brokers[SECOND] = replace(broker, fenced=fenced, in_controlled_shutdown=not fenced)
        leading.fetch(SECOND, 0)
        with ablate(disabled):
            assert (leading.expand(SECOND) is not None) is bool(disabled)


def test_kip_903_a_broker_registered_again_after_its_fetch_does_not_join() -> None:
    for disabled in (frozenset[Safeguard](), frozenset({Safeguard.BROKER_EPOCH_BEFORE_JOINING})):
        leading = LeaderFixture(isr=(1,))
        leading.fetch(SECOND, 0)
        leading.brokers[SECOND] = replace(leading.brokers[SECOND], epoch=200)
        with ablate(disabled):
            assert (leading.expand(SECOND) is not None) is bool(disabled)


def test_kip_903_a_fetch_with_a_stale_broker_epoch_is_refused() -> None:
    leading = LeaderFixture(isr=(1,), log_end=10)
    leading.fetch(SECOND, 0)
    leading.brokers[SECOND] = replace(leading.brokers[SECOND], epoch=200)
    with pytest.raises(KafkaError) as raised:
        leading.fetch(SECOND, 10, epoch=102)
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leading.state.followers[SECOND].log_end_offset == 0
    leading.fetch(SECOND, 10, epoch=200)
    assert leading.expand(SECOND) is not None


def test_a_fetch_without_broker_epoch_counts_as_the_current_epoch() -> None:
    leading = LeaderFixture(isr=(1,))
    leading.fetch(SECOND, 0, epoch=-1)
    proposal = leading.expand(SECOND)
    assert proposal is not None
    assert proposal.members[-1] == IsrMember(2, -1)


def test_one_isr_change_is_pending_at_a_time() -> None:
    leading = LeaderFixture(isr=(1,))
    leading.fetch(SECOND, 0)
    leading.fetch(THIRD, 0)
    assert leading.expand(SECOND) is not None
    assert leading.expand(THIRD) is None
    leading.now_ms += LAG_MS + 1
    assert leading.shrink() is None


# -- leaving


def test_a_follower_behind_for_the_maximum_lag_leaves_the_isr() -> None:
    leading = LeaderFixture()
    leading.fetch(SECOND, 0)
    leading.log_end = 10
    leading.now_ms = LAG_MS
    leading.fetch(THIRD, 10)
    assert leading.shrink() is None
    leading.now_ms = LAG_MS + 1
    proposal = leading.shrink()
    assert proposal is not None
    assert proposal.removed == {SECOND}
    assert [member.broker_id for member in proposal.members] == [1, 3]


def test_a_follower_at_the_log_end_stays_without_fetches() -> None:
    leading = LeaderFixture(log_end=10)
    leading.fetch(SECOND, 10)
    leading.fetch(THIRD, 10)
    leading.now_ms = 100 * LAG_MS
    assert leading.shrink() is None


def test_a_leaving_replica_holds_the_high_watermark_until_the_change_is_committed() -> None:
    leading = LeaderFixture(replicas=(1, 2), isr=(1, 2))
    leading.fetch(SECOND, 0)
    leading.log_end = 10
    leading.now_ms = LAG_MS + 1
    proposal = leading.shrink()
    assert proposal is not None
    assert leading.high_watermark == 0
    assert leading.state.on_isr_response(proposal, committed_isr(proposal)) is IsrOutcome.COMMITTED
    assert leading.state.isr == (1,)
    assert leading.high_watermark == 10


def test_without_the_rule_the_high_watermark_exceeds_the_log_end_of_an_isr_member() -> None:
    leading = LeaderFixture(replicas=(1, 2), isr=(1, 2))
    leading.log_end = 10
    leading.now_ms = LAG_MS + 1
    with ablate({Safeguard.SHRINK_COUNTS_WHEN_COMMITTED}):
        assert leading.shrink() is not None
    assert leading.high_watermark == 10


# -- responses


def propose_expansion() -> tuple[LeaderFixture, IsrProposal]:
    leading = LeaderFixture(isr=(1,))
    leading.fetch(SECOND, 0)
    proposal = leading.expand(SECOND)
    assert proposal is not None
    return leading, proposal


def test_a_committed_change_sets_the_isr_and_the_partition_epoch() -> None:
    leading, proposal = propose_expansion()
    assert leading.state.on_isr_response(proposal, committed_isr(proposal)) is IsrOutcome.COMMITTED
    assert (leading.state.isr, leading.state.partition_epoch) == ((1, 2), 11)
    assert leading.state.pending is None


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refused_change_is_reverted(code: ErrorCode) -> None:
    leading, proposal = propose_expansion()
    assert leading.state.on_isr_response(proposal, code) is IsrOutcome.REJECTED
    assert leading.state.maximal_isr == {1}
    assert leading.expand(SECOND) is not None


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_a_change_with_unknown_result_stays_pending_until_the_metadata_arrives(code: ErrorCode) -> None:
    leading, proposal = propose_expansion()
    assert leading.state.on_isr_response(proposal, code) is IsrOutcome.UNKNOWN
    assert leading.state.pending is proposal
    assert leading.state.maximal_isr == {1, 2}
    leading.follow(replace(leading.partition_image, isr=(1, 2), partition_epoch=11))
    assert leading.state.pending is None
    assert leading.state.isr == (1, 2)


def test_another_error_is_retried() -> None:
    leading, proposal = propose_expansion()
    assert leading.state.on_isr_response(proposal, ErrorCode.UNKNOWN_SERVER_ERROR) is IsrOutcome.RETRY
    assert leading.state.pending is proposal


def test_a_response_older_than_the_metadata_is_ignored() -> None:
    leading, proposal = propose_expansion()
    leading.follow(replace(leading.partition_image, isr=(1, 3), partition_epoch=11))
    assert leading.state.on_isr_response(proposal, committed_isr(proposal)) is IsrOutcome.STALE
    assert leading.state.isr == (1, 3)


def test_a_response_with_another_leader_epoch_or_an_older_partition_epoch_is_ignored() -> None:
    leading, proposal = propose_expansion()
    for response in (committed_isr(proposal, leader_epoch=6), committed_isr(proposal, partition_epoch=9)):
        assert leading.state.on_isr_response(proposal, response) is IsrOutcome.STALE
    assert leading.state.pending is proposal


# -- the metadata


def test_the_same_partition_epoch_does_not_end_a_pending_change() -> None:
    """A delta names all partitions of a topic when one of them changed."""
    leading, proposal = propose_expansion()
    assert leading.follow(leading.partition_image)
    assert leading.state.pending is proposal
    assert leading.state.maximal_isr == {1, 2}


def test_metadata_older_than_a_response_is_ignored() -> None:
    leading, proposal = propose_expansion()
    leading.state.on_isr_response(proposal, committed_isr(proposal))
    assert not leading.follow(leading.partition_image)
    assert leading.state.isr == (1, 2)


def test_a_reassignment_changes_followers_and_keeps_other_positions() -> None:
    leading = LeaderFixture(log_end=5)
    leading.fetch(SECOND, 5)
    leading.follow(
        replace(
            leading.partition_image,
            replicas=(1, 2, 3, 4),
            adding_replicas=(4,),
            removing_replicas=(3,),
            partition_epoch=11,
        )
    )
    assert sorted(leading.state.followers) == [2, 3, 4]
    assert leading.state.followers[2].log_end_offset == 5
    assert leading.state.is_reassigning
    assert not leading.state.is_under_replicated
    leading.follow(replace(leading.partition_image, replicas=(1, 2, 4), isr=(1, 2), partition_epoch=12))
    assert sorted(leading.state.followers) == [2, 4]


def test_a_new_leader_epoch_starts_at_the_log_end_and_keeps_positions() -> None:
    leading = LeaderFixture(log_end=5)
    leading.fetch(SECOND, 5)
    leading.log_end = 8
    leading.follow(replace(leading.partition_image, leader_epoch=6, partition_epoch=11))
    assert leading.state.epoch_start_offset == 8
    assert leading.state.followers[SECOND].log_end_offset == 5


def test_the_low_watermark_is_the_smallest_log_start_of_live_replicas() -> None:
    leading = LeaderFixture(log_end=10)
    assert leading.state.low_watermark(4) == -1
    leading.fetch(SECOND, 10, log_start=4)
    leading.fetch(THIRD, 10, log_start=2)
    assert leading.state.low_watermark(4) == 2
    leading.brokers[THIRD] = replace(leading.brokers[THIRD], fenced=True)
    assert leading.state.low_watermark(4) == 4


def test_isr_metrics_are_reported() -> None:
    leading = LeaderFixture(isr=(1, 2), min_insync_replicas=2)
    assert leading.state.is_under_replicated
    assert leading.state.is_at_min_isr
    assert not leading.state.is_under_min_isr


def test_is_followed_since_holds_up_to_the_last_proven_time() -> None:
    leading = LeaderFixture()
    leading.now_ms = 1_000
    for _ in range(2):
        leading.fetch(2, 0)
        leading.fetch(3, 0)
        leading.now_ms += 500
    assert leading.state.is_followed_since(1_000)
    assert not leading.state.is_followed_since(1_001)
    assert LeaderFixture(isr=(LEADER,)).state.is_followed_since(10**9), (
        "no other replica can be elected without another ISR member"
    )
    assert not LeaderFixture(isr=(LEADER,), min_insync_replicas=2).state.is_followed_since(0), (
        "eligible replicas can be elected (KIP-966)"
    )
