"""A long command of the controller runs in slices: other work runs in between, but no other command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support.configs import controller_settings
from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.yields import STEPS_PER_SLICE, IterationCounter, counted_slices
from tests.support.metadata.images import SeededRandomness
from tests.support.metadata.stores import make_replica, running_store, start_replica
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.elect_leaders import elect_leaders
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.steps import Steps
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

MANY = 1_000
SLICES_OF_MANY = MANY // STEPS_PER_SLICE
SETTINGS = controller_settings(node_id=1)


def count_up(key: str, steps: int = 0) -> Callable[[MetadataImage], Steps[ControllerResult[int]]]:
    """Return a command that reads a value, executes its steps and then writes the value plus 1."""

    def command(image: MetadataImage) -> Steps[ControllerResult[int]]:
        value = int(image.cluster_configs().get(key, "0")) + 1
        for _ in range(steps):
            yield None
        record = ConfigRecord(resource_type=4, resource_name="", name=key, value=str(value))
        return ControllerResult((record,), value)

    return command


async def is_running(slices: Slices) -> None:
    """Return as soon as a command runs in slices."""
    for _ in range(1_000):
        if slices.pending_count:
            return
        await asyncio.sleep(0)
    raise AssertionError("no command runs in slices")


@on_both_loops
async def test_other_work_runs_between_the_slices_of_a_command() -> None:
    slices = counted_slices()
    async with running_store(slices=slices) as store:
        turns, before = IterationCounter(), slices.slice_count
        assert await store.submit(count_up("k", MANY)) == 1
        turns.stop()
        assert slices.slice_count - before >= SLICES_OF_MANY
        assert turns.count >= SLICES_OF_MANY - 5


@on_both_loops
async def test_commands_after_a_long_one_wait_and_see_what_it_has_written() -> None:
    async with running_store(slices=counted_slices()) as store:
        commands = [store.submit(count_up("k", steps)) for steps in (MANY, 0, MANY, 1)]
        assert await asyncio.gather(*commands) == [1, 2, 3, 4]
        assert store.image.cluster_configs()["k"] == "4"


@on_both_loops
async def test_a_long_command_writes_nothing_after_loss_of_leadership() -> None:
    slices = counted_slices()
    replica = await start_replica(make_replica(CrashFileSystem(), slices=slices))
    store = replica.store
    submitting = asyncio.create_task(store.submit(count_up("k", MANY)))
    await is_running(slices)
    store.on_leader_changed(9, 2)
    with pytest.raises(KafkaError) as refused:
        await submitting
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert slices.pending_count == 0
    await replica.abandon()
    assert "k" not in store.image.cluster_configs()


@on_both_loops
async def test_an_error_in_a_late_step_reaches_the_caller_and_the_next_command_is_performed() -> None:
    def fail(image: MetadataImage) -> Steps[ControllerResult[int]]:
        for _ in range(MANY):
            yield None
        raise KafkaError(ErrorCode.INVALID_REQUEST, "too late")

    async with running_store(slices=counted_slices()) as store:
        failing = asyncio.create_task(store.submit(fail))
        assert await store.submit(count_up("k")) == 1
        with pytest.raises(KafkaError, match="too late"):
            await failing


@on_both_loops
async def test_stopping_completes_a_long_command() -> None:
    slices = counted_slices()
    replica = await start_replica(make_replica(CrashFileSystem(), slices=slices))
    submitting = asyncio.create_task(replica.store.submit(count_up("k", MANY)))
    await is_running(slices)
    await replica.stop()
    assert await submitting == 1


@on_both_loops
async def test_very_many_topics_are_validated_in_slices() -> None:
    slices = counted_slices()
    topics = tuple(
        CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(MANY)
    )
    request = CreateTopicsRequest(topics=topics, validate_only=True)
    async with running_store(slices=slices) as store:
        before = slices.slice_count
        reply = await store.submit(lambda image: create_topics(image, SETTINGS, request, SeededRandomness()))
        assert [topic.error_code for topic in reply.topics] == [ErrorCode.NONE] * MANY
        assert slices.slice_count - before >= 2 * SLICES_OF_MANY


@on_both_loops
async def test_very_many_partitions_of_a_topic_are_created_in_slices() -> None:
    """They are placed, described by records, encoded and applied in slices, and appended as one batch."""
    slices = counted_slices()
    topic = CreatableTopic(name="wide", num_partitions=MANY, replication_factor=1)
    request = CreateTopicsRequest(topics=(topic,))
    async with running_store(slices=slices) as store:
        before, offset = slices.slice_count, store.image.offset
        reply = await store.submit(lambda image: create_topics(image, SETTINGS, request, SeededRandomness()))
        assert reply.topics[0].num_partitions == MANY
        assert slices.slice_count - before >= 4 * SLICES_OF_MANY
        assert len(store.image.topics_by_name["wide"].partitions) == MANY
        assert store.image.offset == offset + 1 + MANY


@on_both_loops
async def test_elections_of_very_many_partitions_run_in_slices() -> None:
    slices = counted_slices()
    partitions = TopicPartitions(topic="unknown", partitions=tuple(range(MANY)))
    request = ElectLeadersRequest(election_type=0, topic_partitions=(partitions,))
    async with running_store(slices=slices) as store:
        before = slices.slice_count
        reply = await store.submit(lambda image: elect_leaders(image, SETTINGS, request))
        (result,) = reply.replica_election_results
        assert {each.error_code for each in result.partition_result} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert slices.slice_count - before >= SLICES_OF_MANY


@on_both_loops
async def test_a_batch_of_very_many_partitions_is_replayed_in_slices() -> None:
    """As on a node that is not the active controller."""
    disk, topic = CrashFileSystem(), CreatableTopic(name="wide", num_partitions=MANY, replication_factor=1)
    async with running_store(disk) as store:
        request = CreateTopicsRequest(topics=(topic,))
        await store.submit(lambda image: create_topics(image, SETTINGS, request, SeededRandomness()))
    slices, turns = counted_slices(), IterationCounter()
    async with running_store(disk, registered=False, slices=slices) as store:
        turns.stop()
        assert len(store.image.topics_by_name["wide"].partitions) == MANY
        assert slices.slice_count >= SLICES_OF_MANY
        assert turns.count >= SLICES_OF_MANY
