"""Random commands, failures, late AlterPartition requests and reassignments: no committed record is lost.

Every seed gives the same run again. The environment variable `LONG_RUN_SEEDS` adds that many seeds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from tests.support.metadata.images import SeededRandomness, creatable, image_with_brokers
from tests.unit.cluster.controller.cluster_model import SESSION_MS, SETTINGS, ClusterModel, LostRecords
from tidelog.cluster.controller.assign_directories import assign_replicas_to_directories
from tidelog.cluster.controller.brokers import unregister_broker
from tidelog.cluster.controller.configs import (
    TOPIC_AND_GROUP_DEFINITIONS,
    ConfigChange,
    ConfigOperation,
    ResourceChange,
    alter_configs,
)
from tidelog.cluster.controller.create_partitions import create_partitions
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.delete_topics import delete_topics
from tidelog.cluster.controller.elect_leaders import (
    ElectionType,
    balance_leaders,
    elect_leaders,
    elect_unclean,
)
from tidelog.cluster.controller.reassignments import alter_partition_reassignments
from tidelog.cluster.image import NO_LEADER, MetadataImage, TopicImage
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.protocol.messages.create_topics import CreateTopicsRequest
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest
from tidelog.protocol.steps import run_steps

MIN_INSYNC = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
FIRST_SEEDS = 60
SEEDS = range(FIRST_SEEDS + int(os.environ.get("LONG_RUN_SEEDS", "0")))


class RandomRun:
    """One run of a seed: a cluster of 3 to 6 brokers, and its possible events."""

    def __init__(
        self, seed: int, *, eligible: bool = True, brokers: int | None = None, **safeguards: bool
    ) -> None:
        self.chance = random.Random(seed)
        self._randomness = SeededRandomness(seed)
        image = image_with_brokers(features=eligible)
        self.model = ClusterModel(image, self.chance, **safeguards)
        self._brokers = range(brokers or self.chance.randint(3, 6))
        self._topics = 0
        for broker in self._brokers:
            self.model.start(broker)
            self.model.heartbeat(broker)
        for _ in range(2):
            self._create_topic()

    def run(self, steps: int) -> None:
        often: list[Callable[[], None]] = [self._produce] * 12 + [self._propose] * 6 + [self._deliver] * 6
        events = [
            *often,
            *[self._heartbeats] * 8,
            *[self._kill, self._start, self._start, self._stop, self._pass_time] * 3,
            *[self._reassign, self._cancel, self._elect, self._balance] * 2,
            self._create_topic,
            self._delete_topic,
            self._add_partitions,
            self._unregister,
            self._assign_directory,
            self._lose_directory,
            self._change_min_insync,
            self._elect_unclean,
        ]
        for _ in range(steps):
            self.chance.choice(events)()

    # Scenarios

    def only_topic(self, replication_factor: int) -> TopicImage:
        """Replace all topics by a new one with one partition and min.insync.replicas 2."""
        names = tuple(DeleteTopicState(name=name) for name in self.model.image.topics_by_name)
        delete = DeleteTopicsRequest(topics=names)
        self.model.apply(lambda image: run_steps(delete_topics(image, SETTINGS, delete, 6)))
        topic = creatable("only", 1, replication_factor, {MIN_INSYNC: "2"})
        create = CreateTopicsRequest(topics=(topic,))
        self.model.apply(lambda image: run_steps(create_topics(image, SETTINGS, create, self._randomness)))
        return self.model.image.topics_by_name["only"]

    def fence_silent(self, alive: tuple[int, ...]) -> None:
        """Expire the sessions of all brokers except `alive`."""
        self.model.now_ms += SESSION_MS + 1
        for broker in alive:
            self.model.heartbeat(broker)
        self.model.pass_time(0)

    # Brokers

    def _any_live_broker(self) -> int | None:
        alive = self.model.live_brokers()
        return self.chance.choice(alive) if alive else None

    def _heartbeats(self) -> None:
        self.model.now_ms += self.chance.randrange(2000)
        for broker in self.model.live_brokers():
            if self.chance.random() < 0.8:
                self.model.heartbeat(broker, lag=self.chance.choice((0, 0, 0, 50)))

    def _kill(self) -> None:
        if (broker := self._any_live_broker()) is not None:
            self.model.kill(broker)

    def _start(self) -> None:
        alive = self.model.live_brokers()
        down = [broker for broker in self._brokers if broker not in alive]
        if down:
            self.model.start(self.chance.choice(down))

    def _stop(self) -> None:
        if (broker := self._any_live_broker()) is not None:
            self.model.heartbeat(broker, want_shut_down=True, want_fence=self.chance.random() < 0.1)

    def _pass_time(self) -> None:
        self.model.pass_time(self.chance.choice((1000, SESSION_MS + 1)))

    def _unregister(self) -> None:
        broker = self.chance.choice(self._brokers)
        if self.chance.random() < 0.3 or broker not in self.model.live_brokers():
            self.model.apply(lambda image: run_steps(unregister_broker(image, SETTINGS, broker)))

    def _lose_directory(self) -> None:
        broker = self._any_live_broker()
        if broker is not None:
            directories = self.model.image.brokers[broker].log_dirs
            self.model.heartbeat(broker, offline_log_dirs=directories[:1])

    # Records

    def _place(self) -> tuple[TopicImage, int] | None:
        places = self.model.places()
        return self.chance.choice(places) if places else None

    def _produce(self) -> None:
        for topic, index in self.model.places():
            if self.chance.random() < 0.5:
                lagging = [broker for broker in self._brokers if self.chance.random() < 0.2]
                self.model.produce(topic, index, self._min_insync(topic), lagging)

    def _min_insync(self, topic: TopicImage) -> int:
        return int(self.model.image.topic_configs(topic.name)[MIN_INSYNC])

    def _propose(self) -> None:
        for topic, index in self.model.places():
            if self.chance.random() < 0.5:
                self.model.propose_in_sync_set(topic, index)

    def _deliver(self) -> None:
        for topic, index in self.model.places():
            if self.chance.random() < 0.5:
                self.model.deliver((topic.id, index))

    def _assign_directory(self) -> None:
        place, broker = self._place(), self._any_live_broker()
        if place is None or broker is None:
            return
        topic, index = place
        registered = self.model.image.brokers[broker]
        named = RequestTopicData(topic_id=topic.id, partitions=(RequestPartitionData(partition_index=index),))
        directory = self.chance.choice(registered.log_dirs)
        request = AssignReplicasToDirsRequest(
            broker_id=broker,
            broker_epoch=registered.epoch,
            directories=(RequestDirectoryData(id=directory, topics=(named,)),),
        )
        self.model.apply(lambda image: run_steps(assign_replicas_to_directories(image, SETTINGS, request)))

    # Topics

    def _create_topic(self) -> None:
        if len(self.model.image.topics_by_name) >= 4:
            return
        self._topics += 1
        configs: dict[str, str | None] = {MIN_INSYNC: str(self.chance.randint(1, 3))}
        factor = self.chance.randint(1, min(4, len(self._brokers)))
        topic = creatable(f"topic{self._topics}", self.chance.randint(1, 3), factor, configs)
        request = CreateTopicsRequest(topics=(topic,))
        self.model.apply(lambda image: run_steps(create_topics(image, SETTINGS, request, self._randomness)))

    def _delete_topic(self) -> None:
        if (place := self._place()) is not None and self.chance.random() < 0.5:
            request = DeleteTopicsRequest(topics=(DeleteTopicState(name=place[0].name),))
            self.model.apply(lambda image: run_steps(delete_topics(image, SETTINGS, request, 6)))

    def _add_partitions(self) -> None:
        if (place := self._place()) is not None and len(place[0].partitions) < 4:
            count = len(place[0].partitions) + 1
            requested = CreatePartitionsTopic(name=place[0].name, count=count, assignments=None)
            request = CreatePartitionsRequest(topics=(requested,))
            self.model.apply(
                lambda image: run_steps(create_partitions(image, SETTINGS, request, self._randomness))
            )

    def _change_min_insync(self) -> None:
        if (place := self._place()) is not None:
            value = str(self.chance.randint(1, 3))
            change = ConfigChange(MIN_INSYNC, ConfigOperation.SET, value)
            requested = [ResourceChange((2, place[0].name), (change,))]
            self.model.apply(
                lambda image: run_steps(
                    alter_configs(image, SETTINGS, requested, TOPIC_AND_GROUP_DEFINITIONS)
                )
            )

    # Leaders and replicas

    def _reassign(self) -> None:
        if (place := self._place()) is not None:
            factor = self.chance.randint(1, min(4, len(self._brokers)))
            self._request_reassignment(place, tuple(self.chance.sample(list(self._brokers), factor)))

    def _cancel(self) -> None:
        if (place := self._place()) is not None:
            self._request_reassignment(place, None)

    def _request_reassignment(self, place: tuple[TopicImage, int], replicas: tuple[int, ...] | None) -> None:
        topic, index = place
        requested = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic(name=topic.name, partitions=(requested,)),),
            allow_replication_factor_change=self.chance.random() < 0.8,
        )
        self.model.apply(lambda image: run_steps(alter_partition_reassignments(image, SETTINGS, request)))

    def _elect(self) -> None:
        request = ElectLeadersRequest(election_type=ElectionType.PREFERRED, topic_partitions=None)
        self.model.apply(lambda image: run_steps(elect_leaders(image, SETTINGS, request)))

    def _balance(self) -> None:
        self.model.apply(lambda image: balance_leaders(image, SETTINGS))

    def _elect_unclean(self) -> None:
        request = ElectLeadersRequest(election_type=ElectionType.UNCLEAN, topic_partitions=None)
        self.model.apply(lambda image: run_steps(elect_leaders(image, SETTINGS, request)))
        self.model.apply(lambda image: elect_unclean(image, SETTINGS))

    # The end

    def settle(self) -> MetadataImage:
        """Restart all brokers with all directories and let them catch up."""
        for broker in self.model.live_brokers():
            self.model.kill(broker)
        for _ in range(5):
            self.model.pass_time(SESSION_MS + 1)
            for broker in self._brokers:
                if broker not in self.model.live_brokers():
                    self.model.start(broker)
                self.model.heartbeat(broker)
                self.model.heartbeat(broker)
            self._elect_unclean()
            for topic, index in self.model.places():
                self.model.records[topic.id, index].in_flight = None
                self.model.produce(topic, index, self._min_insync(topic))
            for topic, index in self.model.places():
                self.model.propose_in_sync_set(topic, index)
                self.model.deliver((topic.id, index))
        return self.model.image


def loses_records(seed: int, **safeguards: bool) -> bool:
    try:
        RandomRun(seed, **safeguards).run(300)
    except LostRecords:
        return True
    return False


@pytest.mark.parametrize("seed", SEEDS)
def test_no_committed_record_is_lost_and_the_invariants_hold(seed: int) -> None:
    run = RandomRun(seed)
    run.run(200)
    image = run.settle()
    for topic, index in run.model.places():
        partition = image.topics_by_name[topic.name].partitions[index]
        assert partition.leader != NO_LEADER, (topic.name, index, partition)
        assert sorted(partition.isr) == sorted(partition.replicas), (topic.name, index, partition)
        assert not partition.adding_replicas and not partition.removing_replicas


@pytest.mark.parametrize("seed", range(20))
def test_the_invariants_hold_without_eligible_leader_replicas_while_no_broker_loses_records(
    seed: int,
) -> None:
    RandomRun(seed, eligible=False, forgets=False).run(200)


@pytest.mark.parametrize("sends_member_epochs", [True, False])
def test_a_late_alter_partition_does_not_readmit_a_replica_that_lost_its_records(
    sends_member_epochs: bool,
) -> None:
    """KIP-903: broker 2 returns empty while a request to add it to the ISR is in flight."""
    run = RandomRun(1, brokers=3, sends_member_epochs=sends_member_epochs)
    model = run.model
    topic = run.only_topic(replication_factor=3)
    place = (topic.id, 0)
    model.produce(topic, 0, 2)
    model.kill(2)
    run.fence_silent(alive=(0, 1))
    model.start(2)
    model.heartbeat(2)
    topic = model.image.topics_by_id[topic.id]
    assert 2 not in topic.partitions[0].isr
    model.produce(topic, 0, 2)
    model.propose_in_sync_set(topic, 0)
    model.kill(2)
    model.records[place].logs[2] = []
    model.now_ms += SESSION_MS + 1
    model.heartbeat(0)
    model.heartbeat(1)
    model.start(2)
    model.heartbeat(2)
    model.deliver(place)
    is_in_sync = 2 in model.image.topics_by_id[topic.id].partitions[0].isr
    assert is_in_sync is not sends_member_epochs
    if is_in_sync:
        with pytest.raises(LostRecords):
            run.fence_silent(alive=(2,))
    else:
        run.fence_silent(alive=(2,))
        assert model.image.topics_by_id[topic.id].partitions[0].leader == NO_LEADER


def test_an_undetected_unclean_shutdown_loses_records() -> None:
    """KIP-966: without the safeguard the loss is detected."""
    assert any(loses_records(seed, detects_unclean_shutdown=False) for seed in range(300))
