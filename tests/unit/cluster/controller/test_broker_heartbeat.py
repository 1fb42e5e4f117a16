"""Broker heartbeats: unfencing, controlled shutdown, and fencing after the session expired."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    CLUSTER_ID,
    creatable,
    image_after_records,
    image_after_result,
    image_with_brokers,
    with_topics,
)
from tests.unit.cluster.controller.invariants import check_image, check_step
from tidelog.cluster.controller.broker_heartbeat import HeartbeatReply, broker_heartbeat, fence_stale_broker
from tidelog.cluster.controller.brokers import register_broker, supported_features, unregister_broker
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.cluster.features import METADATA_VERSION
from tidelog.cluster.image import MetadataImage, PartitionImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from tidelog.protocol.messages.create_topics import CreatableTopic
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.steps import run_steps

SETTINGS = controller_settings(node_id=1)
SESSION_MS = 9000


class Brokers:
    """An image, heartbeats and a clock; the invariants of every command are checked."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.now_ms = 1000
        self.heartbeats = BrokerHeartbeats(SESSION_MS)
        self.heartbeats.activate(image, self.now_ms)

    def heartbeat(self, broker: int, *, offset: int | None = None, **fields: Any) -> HeartbeatReply:
        epoch = self.image.brokers[broker].epoch
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=epoch,
            current_metadata_offset=self.image.offset if offset is None else offset,
            **fields,
        )
        self.heartbeats.record_heartbeat(self.image, broker, epoch, self.now_ms)
        result = run_steps(broker_heartbeat(self.image, SETTINGS, self.heartbeats, request))
        self._apply(image_after_result(self.image, result))
        self.heartbeats.apply_reply(
            broker,
            epoch,
            metadata_offset=request.current_metadata_offset,
            is_fenced=result.reply.is_fenced,
            should_shut_down=result.reply.should_shut_down,
            shutdown_offset=result.reply.shutdown_offset,
        )
        return result.reply

    def fence_stale(self) -> bool:
        result = run_steps(fence_stale_broker(self.image, SETTINGS, self.heartbeats, self.now_ms))
        self._apply(image_after_result(self.image, result))
        return result.reply

    def register(self, broker: int, incarnation: int, previous_epoch: int = -1) -> int:
        existing = self.image.brokers.get(broker)
        session = existing is not None and self.heartbeats.has_session(broker, existing.epoch, self.now_ms)
        request = BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id=CLUSTER_ID,
            incarnation_id=UUID(int=incarnation),
            listeners=(Listener(name="PLAINTEXT", host="h", port=1),),
            features=supported_features(),
            log_dirs=(UUID(int=9000 + broker),),
            previous_broker_epoch=previous_epoch,
        )
        result = run_steps(register_broker(self.image, SETTINGS, request, has_session=session))
        self._apply(image_after_result(self.image, result))
        self.heartbeats.record_heartbeat(self.image, broker, result.reply, self.now_ms)
        return result.reply

    def partition(self, index: int = 0) -> PartitionImage:
        return self.image.topics_by_name["orders"].partitions[index]

    def is_fenced(self, broker: int) -> bool:
        return self.image.brokers[broker].fenced

    def _apply(self, after: MetadataImage) -> None:
        check_image(after)
        check_step(self.image, after)
        self.image = after


def brokers(*ids: int, topic: CreatableTopic | None = None) -> Brokers:
    image = replace(image_with_brokers(*ids, features=True), offset=500)
    return Brokers(with_topics(image, topic) if topic is not None else image)


def orders(partitions: int, factor: int, min_insync: int = 2) -> CreatableTopic:
    return creatable("orders", partitions, factor, {"min.insync.replicas": str(min_insync)})


# Unfencing


def test_a_broker_is_unfenced_when_it_has_applied_its_own_registration() -> None:
    cluster = brokers(1)
    epoch = cluster.register(7, incarnation=70)
    assert cluster.heartbeat(7, offset=epoch - 1) == HeartbeatReply(False, True, False, None)
    assert cluster.heartbeat(7, offset=epoch, want_fence=True).is_fenced
    assert cluster.heartbeat(7, offset=epoch) == HeartbeatReply(True, False, False, None)
    assert not cluster.is_fenced(7)


def test_a_heartbeat_with_another_epoch_returns_stale_broker_epoch() -> None:
    cluster = brokers(1)
    for request in (
        BrokerHeartbeatRequest(broker_id=1, broker_epoch=5),
        BrokerHeartbeatRequest(broker_id=9, broker_epoch=5),
    ):
        with pytest.raises(KafkaError) as error:
            run_steps(broker_heartbeat(cluster.image, SETTINGS, cluster.heartbeats, request))
        assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_an_unfenced_broker_becomes_leader_of_offline_partitions() -> None:
    cluster = brokers(1, 2, topic=orders(4, 1))
    own = [index for index in range(4) if cluster.partition(index).leader == 1]
    cluster.heartbeat(1, want_fence=True)
    assert all(cluster.partition(index).leader == -1 for index in own)
    assert all(cluster.partition(index).eligible_leader_replicas == (1,) for index in own)
    cluster.heartbeat(1)
    assert own
    assert all(cluster.partition(index).leader == 1 for index in own)
    assert all(cluster.partition(index).leader_epoch == 2 for index in own)


# Controlled shutdown


def test_a_broker_without_leader_partitions_may_shut_down_at_once() -> None:
    cluster = brokers(1, 2)
    reply = cluster.heartbeat(1, want_shut_down=True)
    assert reply.should_shut_down and reply.is_fenced
    assert cluster.is_fenced(1)


def test_a_leader_may_shut_down_when_all_active_brokers_applied_the_new_leaders() -> None:
    cluster = brokers(1, 2, 3, topic=orders(3, 3))
    before = cluster.image.offset
    reply = cluster.heartbeat(1, want_shut_down=True)
    assert reply == HeartbeatReply(True, False, False, cluster.image.offset)
    assert cluster.image.offset > before
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert all(cluster.partition(index).leader != 1 for index in range(3))
    assert all(1 not in cluster.partition(index).isr for index in range(3))
    cluster.heartbeat(2, offset=before)
    cluster.heartbeat(3)
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.heartbeat(2)
    assert cluster.heartbeat(1, want_shut_down=True) == HeartbeatReply(True, True, True, None)
    assert cluster.is_fenced(1)


def test_the_last_broker_may_shut_down() -> None:
    cluster = brokers(1, topic=orders(2, 1))
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down
    assert cluster.partition().leader == -1


def test_a_new_controller_continues_a_controlled_shutdown() -> None:
    cluster = brokers(1, 2, topic=orders(4, 2))
    cluster.heartbeat(1, want_shut_down=True)
    cluster.heartbeats.activate(cluster.image, cluster.now_ms)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_that_requests_shutdown_in_its_first_heartbeat_may_shut_down() -> None:
    cluster = brokers(1, 2, topic=orders(4, 2))
    reply = cluster.heartbeat(1, want_shut_down=True, want_fence=True)
    assert reply.should_shut_down
    assert all(cluster.partition(index).leader == 2 for index in range(4))


def test_a_process_in_controlled_shutdown_is_not_unfenced_again() -> None:
    cluster = brokers(1, 2, topic=orders(4, 2))
    cluster.heartbeat(1, want_shut_down=True)
    cluster.now_ms += SESSION_MS + 1
    cluster.heartbeat(2)
    assert cluster.fence_stale()
    assert cluster.heartbeat(1).is_fenced
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_stays_eligible_after_a_clean_restart() -> None:
    cluster = brokers(1, topic=orders(1, 1))
    epoch = cluster.image.brokers[1].epoch
    cluster.heartbeat(1, want_shut_down=True)
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.register(1, incarnation=71, previous_epoch=epoch) == cluster.image.offset
    assert cluster.partition().eligible_leader_replicas == (1,)
    cluster.heartbeat(1)
    assert (cluster.partition().leader, cluster.partition().leader_recovery_state) == (1, 0)


# Expired sessions


def test_brokers_with_expired_sessions_are_fenced_in_order_of_expiry() -> None:
    cluster = brokers(1, 2, 3, topic=orders(6, 3))
    cluster.now_ms += 1000
    cluster.heartbeat(2)
    cluster.heartbeat(3)
    assert cluster.heartbeats.next_deadline_ms(cluster.image, cluster.now_ms) == 1000 + SESSION_MS + 1
    cluster.now_ms = 1000 + SESSION_MS
    assert not cluster.fence_stale()
    cluster.now_ms += 1
    assert cluster.fence_stale()
    assert not cluster.fence_stale()
    assert [cluster.is_fenced(broker) for broker in (1, 2, 3)] == [True, False, False]
    assert all(cluster.partition(index).leader in (2, 3) for index in range(6))
    assert all(1 not in cluster.partition(index).isr for index in range(6))
    cluster.now_ms += SESSION_MS
    assert cluster.fence_stale() and cluster.fence_stale() and not cluster.fence_stale()
    assert cluster.heartbeats.next_deadline_ms(cluster.image, cluster.now_ms) is None


def test_a_new_controller_restarts_all_broker_sessions() -> None:
    cluster = brokers(1, 2)
    cluster.now_ms += 100 * SESSION_MS
    cluster.heartbeats.activate(cluster.image, cluster.now_ms)
    assert not cluster.fence_stale()


def test_a_fenced_broker_is_unfenced_only_after_it_applied_its_fencing() -> None:
    """Otherwise the response would confirm its leadership, and it would serve stale committed offsets."""
    cluster = brokers(1, 2, 3, topic=orders(3, 3))
    offset_before_fencing = cluster.image.offset
    cluster.now_ms += SESSION_MS + 1
    cluster.heartbeat(2)
    cluster.heartbeat(3)
    assert cluster.fence_stale() and cluster.is_fenced(1)
    assert cluster.heartbeat(1, offset=offset_before_fencing).is_fenced
    fenced_offset = cluster.image.offset
    assert cluster.heartbeat(1, offset=fenced_offset - 1).is_fenced
    assert not cluster.heartbeat(1, offset=fenced_offset).is_fenced


def test_a_new_controller_unfences_only_brokers_that_applied_their_fencing() -> None:
    cluster = brokers(1, 2, topic=orders(2, 2))
    offset_before_fencing = cluster.image.offset
    cluster.now_ms += SESSION_MS + 1
    cluster.heartbeat(2)
    assert cluster.fence_stale()
    cluster.heartbeats.activate(cluster.image, cluster.now_ms)
    assert cluster.heartbeat(1, offset=offset_before_fencing).is_fenced
    assert not cluster.heartbeat(1).is_fenced


def test_time_in_which_the_controller_was_paused_expires_no_session() -> None:
    cluster = brokers(1, 2)
    cluster.now_ms += 1000
    cluster.heartbeat(2)
    cluster.now_ms += 3 * SESSION_MS
    cluster.heartbeats.extend_sessions(3 * SESSION_MS, cluster.now_ms)
    assert not cluster.fence_stale()
    cluster.heartbeat(2)
    cluster.now_ms += SESSION_MS - 999
    assert cluster.fence_stale() and not cluster.fence_stale()
    assert cluster.is_fenced(1) and not cluster.is_fenced(2)


def test_jepsen_2013_a_partition_without_in_sync_replicas_waits_for_the_last_one() -> None:
    """All other replicas left the ISR, then the leader fails: no replica leads until it returns."""
    cluster = brokers(1, 2, 3, topic=orders(1, 3))
    leader = cluster.partition().leader
    others = [broker for broker in (1, 2, 3) if broker != leader]
    for broker in others:
        cluster.heartbeat(broker, want_fence=True)
        cluster.heartbeat(broker)
    assert cluster.partition().isr == (leader,)
    cluster.heartbeat(leader, want_fence=True)
    assert cluster.partition().leader in others  # min.insync.replicas is 2: they have all committed records.
    cluster = brokers(1, 2, 3, topic=orders(1, 3, min_insync=1))
    leader = cluster.partition().leader
    others = [broker for broker in (1, 2, 3) if broker != leader]
    for broker in others:
        cluster.heartbeat(broker, want_fence=True)
        cluster.heartbeat(broker)
    cluster.heartbeat(leader, want_fence=True)
    assert (cluster.partition().leader, cluster.partition().eligible_leader_replicas) == (-1, (leader,))
    cluster.heartbeat(leader)
    assert cluster.partition().leader == leader


def test_kip_966_a_broker_after_an_unclean_shutdown_is_not_eligible() -> None:
    cluster = brokers(1, 2, topic=orders(1, 2))
    first = cluster.partition().leader
    second = 3 - first
    cluster.heartbeat(first, want_fence=True)
    assert cluster.partition().eligible_leader_replicas == (first,)
    cluster.heartbeat(second, want_fence=True)
    cluster.now_ms += SESSION_MS + 1
    cluster.register(second, incarnation=99)
    assert cluster.partition().eligible_leader_replicas == (first,)
    cluster.heartbeat(second)
    assert cluster.partition().leader == -1
    cluster.heartbeat(first)
    assert cluster.partition().leader == first


def test_a_broker_id_is_reserved_while_its_session_lasts() -> None:
    cluster = brokers(1)
    cluster.heartbeat(1)
    with pytest.raises(KafkaError) as error:
        cluster.register(1, incarnation=99)
    assert error.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += SESSION_MS + 1
    assert cluster.register(1, incarnation=99) == cluster.image.offset


def test_a_directory_belongs_to_one_broker() -> None:
    cluster = brokers(1)
    request = BrokerRegistrationRequest(
        broker_id=2,
        cluster_id=CLUSTER_ID,
        listeners=(Listener(name="PLAINTEXT", host="h", port=1),),
        features=supported_features(),
        log_dirs=cluster.image.brokers[1].log_dirs,
    )
    with pytest.raises(KafkaError) as error:
        run_steps(register_broker(cluster.image, SETTINGS, request, has_session=False))
    assert error.value.code is ErrorCode.INVALID_REGISTRATION


# Directories


def test_a_broker_that_loses_a_directory_leaves_the_isr_of_its_partitions() -> None:
    cluster = brokers(1, 2, 3, topic=orders(3, 3))
    lost = cluster.image.brokers[1].log_dirs
    cluster.heartbeat(1, offline_log_dirs=lost)
    for index in range(3):
        assert 1 not in cluster.partition(index).isr
        assert cluster.partition(index).leader != 1
    offset = cluster.image.offset
    cluster.heartbeat(1, offline_log_dirs=(UUID(int=4711),))
    assert cluster.image.offset == offset


def test_cordoned_directories_are_recorded_once() -> None:
    cluster = brokers(1)
    directories = cluster.image.brokers[1].log_dirs
    cluster.heartbeat(1, cordoned_log_dirs=directories)
    assert cluster.image.brokers[1].cordoned_log_dirs == directories
    offset = cluster.image.offset
    cluster.heartbeat(1, cordoned_log_dirs=directories)
    cluster.heartbeat(1)
    assert cluster.image.offset == offset
    cluster.heartbeat(1, cordoned_log_dirs=())
    assert cluster.image.brokers[1].cordoned_log_dirs == ()


def test_cordoned_directories_are_not_recorded_below_metadata_version_4_3() -> None:
    cluster = brokers(1)
    level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=29)
    cluster.image = image_after_records([level], cluster.image, cluster.image.offset)
    cluster.heartbeat(1, cordoned_log_dirs=cluster.image.brokers[1].log_dirs)
    assert cluster.image.brokers[1].cordoned_log_dirs == ()


# Unregistration


def test_an_unregistered_broker_leaves_every_isr() -> None:
    cluster = brokers(1, 2, 3, topic=orders(3, 3))
    after = image_after_result(cluster.image, run_steps(unregister_broker(cluster.image, SETTINGS, 1)))
    check_image(after)
    assert 1 not in after.brokers
    for partition in after.topics_by_name["orders"].partitions.values():
        assert 1 not in partition.isr and partition.leader != 1
    with pytest.raises(KafkaError) as error:
        run_steps(unregister_broker(after, SETTINGS, 1))
    assert error.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
