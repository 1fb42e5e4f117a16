"""The controller's handlers: each submits its command and responds when it is durable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import controller_settings
from tests.support.metadata.images import CLUSTER_ID, SeededRandomness
from tests.support.metadata.single_controller import store_with_brokers
from tidelog.broker.controller.handlers.alter_partition import AlterPartitionHandler
from tidelog.broker.controller.handlers.alter_partition_reassignments import (
    AlterPartitionReassignmentsHandler,
)
from tidelog.broker.controller.handlers.assign_replicas_to_dirs import AssignReplicasToDirsHandler
from tidelog.broker.controller.handlers.broker_heartbeat import BrokerHeartbeatHandler
from tidelog.broker.controller.handlers.broker_registration import BrokerRegistrationHandler
from tidelog.broker.controller.handlers.elect_leaders import ElectLeadersHandler
from tidelog.broker.controller.handlers.list_partition_reassignments import ListPartitionReassignmentsHandler
from tidelog.broker.controller.handlers.unregister_broker import UnregisterBrokerHandler
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.brokers import supported_features
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.cluster.image import PartitionImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest
from tidelog.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.protocol.steps import run_steps

SETTINGS = controller_settings(node_id=1)
SESSION_MS = 9000


def context(api_key: int, version: int) -> RequestContext:
    return RequestContext(
        header=RequestHeader(api_key, version, 1, "test"),
        listener="CONTROLLER",
        peer="127.0.0.1:1",
        principal="User:ANONYMOUS",
        now_ms=0,
        client=ConnectedClient(),
    )


@asynccontextmanager
async def store_with_partition() -> AsyncIterator[MetadataStore]:
    """Yield a store with brokers 1, 2 and 3, and a partition on 1 and 2."""
    async with store_with_brokers(1, 2, 3) as store:
        assignment = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1, 2)),)
        topic = CreatableTopic(
            name="orders", num_partitions=-1, replication_factor=-1, assignments=assignment
        )
        request = CreateTopicsRequest(topics=(topic,))
        await store.submit(lambda image: create_topics(image, SETTINGS, request, SeededRandomness()))
        yield store


def partition(store: MetadataStore) -> PartitionImage:
    return store.image.topics_by_name["orders"].partitions[0]


def registration(incarnation: int) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=7,
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=incarnation),
        listeners=(Listener(name="PLAINTEXT", host="h", port=1),),
        features=supported_features(),
        log_dirs=(UUID(int=7007),),
    )


async def test_a_broker_registers_is_unfenced_and_reserves_its_id() -> None:
    async with store_with_partition() as store:
        clock, heartbeats = ManualClock(), BrokerHeartbeats(SESSION_MS)
        register = BrokerRegistrationHandler(store, SETTINGS, heartbeats, clock)
        beat = BrokerHeartbeatHandler(store, SETTINGS, heartbeats, clock)
        epoch = (await register.handle(context(62, 4), registration(70))).broker_epoch
        assert store.image.brokers[7].epoch == epoch
        request = BrokerHeartbeatRequest(broker_id=7, broker_epoch=epoch, current_metadata_offset=epoch)
        response = await beat.handle(context(63, 1), request)
        assert (response.is_caught_up, response.is_fenced, response.should_shut_down) == (True, False, False)
        assert not store.image.brokers[7].fenced
        with pytest.raises(KafkaError) as error:
            await register.handle(context(62, 4), registration(71))
        assert error.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        clock.now_ms += SESSION_MS + 1
        again = await register.handle(context(62, 4), registration(71))
        assert again.broker_epoch > epoch
        with pytest.raises(KafkaError) as error:
            await beat.handle(context(63, 1), request)
        assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


async def test_a_broker_that_may_shut_down_can_be_replaced_at_once() -> None:
    async with store_with_partition() as store:
        clock, heartbeats = ManualClock(), BrokerHeartbeats(SESSION_MS)
        register = BrokerRegistrationHandler(store, SETTINGS, heartbeats, clock)
        beat = BrokerHeartbeatHandler(store, SETTINGS, heartbeats, clock)
        epoch = (await register.handle(context(62, 4), registration(70))).broker_epoch
        request = BrokerHeartbeatRequest(broker_id=7, broker_epoch=epoch, want_shut_down=True)
        assert (await beat.handle(context(63, 1), request)).should_shut_down
        assert (await register.handle(context(62, 4), registration(71))).broker_epoch > epoch


async def test_a_leader_changes_the_isr() -> None:
    async with store_with_partition() as store:
        topic = store.image.topics_by_name["orders"]
        wished = RequestPartitionData(
            partition_index=0, new_isr_with_epochs=(BrokerState(broker_id=1, broker_epoch=101),)
        )
        request = AlterPartitionRequest(
            broker_id=1,
            broker_epoch=101,
            topics=(RequestTopicData(topic_id=topic.id, partitions=(wished,)),),
        )
        response = await AlterPartitionHandler(store, SETTINGS).handle(context(56, 3), request)
        assert response.topics[0].partitions[0].isr == (1,)
        assert partition(store).isr == (1,)


async def test_a_reassignment_is_listed_until_it_completes() -> None:
    async with store_with_partition() as store:
        reassignment = ReassignablePartition(partition_index=0, replicas=(3, 1))
        request = AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic(name="orders", partitions=(reassignment,)),)
        )
        response = await AlterPartitionReassignmentsHandler(store, SETTINGS).handle(context(45, 1), request)
        assert response.responses[0].partitions[0].error_code == 0
        listing = ListPartitionReassignmentsHandler(lambda: store.image)
        ongoing = run_steps(listing.handle(context(46, 0), ListPartitionReassignmentsRequest()))
        assert ongoing.topics[0].partitions[0].adding_replicas == (3,)


async def test_leaders_are_elected_brokers_unregistered_and_directories_assigned() -> None:
    async with store_with_partition() as store:
        elect = ElectLeadersHandler(store, SETTINGS)
        response = await elect.handle(context(43, 2), ElectLeadersRequest(topic_partitions=None))
        assert [each.partition_result for each in response.replica_election_results] == [()]
        assign = AssignReplicasToDirsHandler(store, SETTINGS)
        request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=101)
        assert (await assign.handle(context(73, 0), request)).directories == ()
        forget = UnregisterBrokerHandler(store, SETTINGS)
        assert (await forget.handle(context(64, 0), UnregisterBrokerRequest(broker_id=1))).error_code == 0
        assert 1 not in store.image.brokers
        assert partition(store).leader == 2
