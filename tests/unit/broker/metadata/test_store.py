"""The metadata store: commands in order, durable before they are published, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any
from zlib import crc32

import pytest

from tests.support.configs import controller_settings
from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.yields import loop_iterations
from tests.support.metadata.images import SeededRandomness, creatable
from tests.support.metadata.stores import (
    DIRECTORY,
    InlineExecutor,
    make_replica,
    open_log,
    register_node,
    running_store,
    start_replica,
)
from tests.support.waiting import eventually
from tidelog.base.randomness import new_uuid
from tidelog.broker.metadata.batches import encode_records
from tidelog.broker.raft.log import MetadataLog
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.delete_topics import delete_topics
from tidelog.cluster.controller.result import (
    MAX_RECORDS_PER_COMMAND,
    RECORDS_PER_STEP,
    ControllerResult,
)
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.features import METADATA_VERSION_4_3
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.create_topics import CreateTopicsRequest
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest
from tidelog.protocol.metadata_records.begin_transaction_record import BeginTransactionRecord
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import run_steps
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival

SETTINGS = controller_settings(node_id=1)


def create(name: str, seed: int = 1) -> Callable[[MetadataImage], Any]:
    request = CreateTopicsRequest(topics=(creatable(name),))
    return lambda image: create_topics(
        image, SETTINGS, request, SeededRandomness(crc32(name.encode()) + seed)
    )


def write(record: MetadataRecord, image: MetadataImage) -> ControllerResult[int]:
    return ControllerResult((record,), image.offset)


def set_config(value: str) -> Callable[[MetadataImage], ControllerResult[int]]:
    record = ConfigRecord(resource_type=4, resource_name="", name="k", value=value)
    return partial(write, record)


def append(log: MetadataLog, records: list[MetadataRecord]) -> None:
    """Append a batch without any check, as a former leader of epoch 1."""
    builder = BatchBuilder(base_offset=log.end_offset, leader_epoch=1)
    for value in run_steps(encode_records(records, METADATA_VERSION_4_3)):
        builder.append(5, None, value)
    log.append(builder.build(), 1)


@on_both_loops
async def test_a_new_store_creates_its_cluster() -> None:
    async with running_store(registered=False) as store:
        assert store.image.features["metadata.version"] == 30
        assert store.image.cluster_configs() == {"min.insync.replicas": "1"}
        assert store.image.epoch == 1


@on_both_loops
async def test_the_response_is_sent_when_the_image_has_the_change() -> None:
    async with running_store() as store:
        reply = await store.submit(create("orders"))
        assert reply.topics[0].error_code == 0
        assert "orders" in store.image.topics_by_name


@on_both_loops
async def test_changes_are_published_and_acknowledged_after_they_are_durable() -> None:
    executor = InlineExecutor()
    async with running_store(executor=executor) as store:
        published: list[MetadataImage] = []
        store.subscribe(lambda delta, image: published.append(image))
        executor.held = True
        submission = asyncio.create_task(store.submit(create("orders")))
        await loop_iterations(20)
        assert not submission.done()
        assert "orders" not in store.image.topics_by_name
        assert len(published) == 1
        executor.release()
        await submission
        assert published[-1] is store.image
        assert "orders" in store.image.topics_by_name


@on_both_loops
async def test_waiting_commands_share_one_sync_and_see_earlier_ones() -> None:
    executor = InlineExecutor()
    async with running_store(executor=executor) as store:
        executor.held = True
        first = asyncio.create_task(store.submit(create("first")))
        await eventually(lambda: executor.waiting_count == 1)
        runs = executor.run_count
        others = [asyncio.create_task(store.submit(create(name))) for name in ("a", "b", "a")]
        await loop_iterations(5)
        executor.release()
        replies = await asyncio.gather(first, *others)
        codes = [reply.topics[0].error_code for reply in replies]
        assert codes == [0, 0, 0, ErrorCode.TOPIC_ALREADY_EXISTS]
        assert executor.run_count == runs + 2


@on_both_loops
async def test_a_refused_command_changes_nothing_and_does_not_affect_others() -> None:
    def refuse(image: MetadataImage) -> ControllerResult[None]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no")

    def raise_error(image: MetadataImage) -> ControllerResult[None]:
        raise RuntimeError("our own mistake")

    async with running_store() as store:
        before = store.image
        results = await asyncio.gather(
            store.submit(refuse),
            store.submit(raise_error),
            store.submit(create("orders")),
            return_exceptions=True,
        )
        assert isinstance(results[0], KafkaError)
        assert isinstance(results[1], RuntimeError)
        assert "orders" in store.image.topics_by_name
        assert store.image.offset == before.offset + 2


@on_both_loops
async def test_records_that_contradict_the_image_never_reach_the_log() -> None:
    disk = CrashFileSystem()
    async with running_store(disk) as store:
        record = RemoveTopicRecord(topic_id=new_uuid(SeededRandomness()))
        with pytest.raises(Exception, match="no topic with the id"):
            await store.submit(partial(write, record))
        await store.submit(create("orders"))
        offset = store.image.offset
    async with running_store(disk, registered=False) as store:
        assert "orders" in store.image.topics_by_name
        assert store.image.offset == offset + 1


@on_both_loops
async def test_a_command_that_changes_nothing_gets_its_reply_without_a_sync() -> None:
    executor = InlineExecutor()
    async with running_store(executor=executor) as store:
        runs = executor.run_count
        await store.submit(lambda image: ControllerResult((), None))
        assert executor.run_count == runs


@on_both_loops
async def test_a_cancelled_caller_does_not_cancel_its_command() -> None:
    executor = InlineExecutor()
    async with running_store(executor=executor) as store:
        executor.held = True
        submission = asyncio.create_task(store.submit(create("orders")))
        await loop_iterations(5)
        submission.cancel()
        executor.release()
        await eventually(lambda: "orders" in store.image.topics_by_name)
        assert (await store.submit(create("more"))).topics[0].error_code == 0


@on_both_loops
async def test_metadata_survive_a_restart() -> None:
    disk = CrashFileSystem()
    async with running_store(disk) as store:
        await store.submit(create("orders"))
        await store.submit(create("gone"))
        request = DeleteTopicsRequest(topic_names=("gone",))
        await store.submit(lambda image: delete_topics(image, SETTINGS, request, 5))
        before = store.image
    async with running_store(disk, registered=False) as store:
        assert store.image.topics_by_name == before.topics_by_name
        assert store.image.brokers == before.brokers
        assert store.image.features == before.features
        assert store.image.epoch == before.epoch + 1


@on_both_loops
async def test_metadata_survive_a_power_loss() -> None:
    disk = CrashFileSystem()
    disk.makedirs(DIRECTORY)
    disk.sync_all()
    replica = await start_replica(make_replica(disk))
    await register_node(replica.store)
    await replica.store.submit(create("orders"))
    after = disk.crash(Survival.LOSE_UNSYNCED)
    await replica.stop()
    async with running_store(after, registered=False) as restarted:
        assert "orders" in restarted.image.topics_by_name


@on_both_loops
async def test_a_restarted_node_leads_in_a_new_epoch() -> None:
    disk = CrashFileSystem()
    async with running_store(disk) as store:
        await store.submit(create("orders"))
        assert store.image.topics_by_name["orders"].partitions[0].leader_epoch == 0
    async with running_store(disk, registered=False) as store:
        epoch = store.image.brokers[1].epoch
        assert await register_node(store, incarnation=2) > epoch
        assert store.image.topics_by_name["orders"].partitions[0].leader_epoch == 1
        assert store.image.brokers[1].is_active


@on_both_loops
async def test_a_new_subscriber_gets_the_whole_image() -> None:
    async with running_store() as store:
        await store.submit(create("orders"))
        published: list[MetadataDelta] = []
        store.subscribe(lambda delta, image: published.append(delta))
        assert published[0].changed_topics == ("orders",)
        assert published[0].changed_configs == ((4, ""),)
        await store.submit(create("users"))
        assert published[1].changed_topics == ("users",)


@on_both_loops
async def test_a_subscriber_that_fails_does_not_affect_others() -> None:
    async with running_store() as store:
        published: list[int] = []

        def fail(delta: MetadataDelta, image: MetadataImage) -> None:
            if delta.changed_topics:
                raise RuntimeError("a subscriber's mistake")

        store.subscribe(fail)
        store.subscribe(lambda delta, image: published.append(image.offset))
        await store.submit(create("orders"))
        assert published[-1] == store.image.offset


@on_both_loops
async def test_after_a_failed_sync_nothing_can_be_changed_and_waiting_commands_fail() -> None:
    disk = CrashFileSystem()
    executor = InlineExecutor()
    replica = await start_replica(make_replica(disk, executor))
    store = replica.store
    await register_node(store)
    before = store.image
    executor.held = True
    first = asyncio.create_task(store.submit(create("first")))
    await loop_iterations(5)
    second = asyncio.create_task(store.submit(create("second")))
    await loop_iterations(5)
    disk.fail_next_fsync("__cluster_metadata-0")
    executor.release()
    await asyncio.wait([first, second])
    failed = [operation for operation in disk.operations if "fsync" in operation][-1]
    for submission in (first, second):
        with pytest.raises(KafkaError) as error:
            await submission
        assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match="cannot be written"):
        await store.submit(create("third"))
    assert store.image is before
    assert store.failure is not None
    await replica.stop()
    assert [operation for operation in disk.operations if "fsync" in operation][-1] == failed


@on_both_loops
async def test_a_full_disk_refuses_one_change_and_accepts_the_next() -> None:
    disk = CrashFileSystem()
    async with running_store(disk) as store:
        free, disk.free_bytes = disk.free_bytes, 10
        with pytest.raises(KafkaError) as error:
            await store.submit(set_config("a"))
        assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        disk.free_bytes = free
        await store.submit(set_config("b"))
        assert store.image.cluster_configs()["k"] == "b"


@on_both_loops
async def test_an_unfinished_transaction_is_aborted_at_the_start() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, [FeatureLevelRecord(name="metadata.version", feature_level=30)])
    append(log, [BeginTransactionRecord(), FeatureLevelRecord(name="half", feature_level=1)])
    log.close(clean=True)
    async with running_store(disk, registered=False) as store:
        assert "half" not in store.image.features
        await store.submit(set_config("a"))
    async with running_store(disk, registered=False) as store:
        assert "half" not in store.image.features
        assert store.image.cluster_configs() == {"k": "a"}


@on_both_loops
async def test_an_inconsistent_log_is_refused_at_the_start() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, [RemoveTopicRecord(topic_id=new_uuid(SeededRandomness()))])
    log.close(clean=True)
    replica = make_replica(disk)
    with pytest.raises(KafkaError, match="contradicts itself"):
        await start_replica(replica)
    assert replica.driver.failure is not None
    await replica.abandon()


@on_both_loops
async def test_commands_are_refused_before_the_start_and_after_the_end() -> None:
    replica = make_replica(CrashFileSystem())
    with pytest.raises(KafkaError):
        await replica.store.submit(set_config("a"))
    await start_replica(replica)
    await replica.stop()
    with pytest.raises(KafkaError):
        await replica.store.submit(set_config("a"))


@on_both_loops
async def test_a_stop_completes_submitted_commands() -> None:
    disk = CrashFileSystem()
    executor = InlineExecutor()
    replica = await start_replica(make_replica(disk, executor))
    store = replica.store
    executor.held = True
    submissions = [asyncio.create_task(store.submit(set_config(text))) for text in "abc"]
    await loop_iterations(5)
    closing = asyncio.create_task(replica.stop())
    await asyncio.sleep(0)
    executor.release()
    await asyncio.gather(closing, *submissions)
    assert store.image.cluster_configs()["k"] == "c"


@on_both_loops
async def test_abandon_fails_waiting_commands() -> None:
    executor = InlineExecutor()
    replica = await start_replica(make_replica(CrashFileSystem(), executor))
    executor.held = True
    submission = asyncio.create_task(replica.store.submit(set_config("a")))
    await loop_iterations(5)
    await replica.abandon()
    with pytest.raises(KafkaError):
        await submission


@on_both_loops
async def test_more_records_than_a_batch_holds_are_written_in_several() -> None:
    async with running_store() as store:
        before = store.image.offset
        records = tuple(
            ConfigRecord(resource_type=4, resource_name="", name=f"k{number}", value="1")
            for number in range(MAX_RECORDS_PER_COMMAND + 5)
        )
        await store.submit(lambda image: ControllerResult(records, None, is_atomic=False))
        assert store.image.offset == before + len(records)
        assert len(store.image.cluster_configs()) > MAX_RECORDS_PER_COMMAND


@on_both_loops
async def test_a_change_of_10000_records_is_published_in_several_turns_of_the_event_loop() -> None:
    """As after the failure of a broker that led 10,000 partitions."""
    async with running_store() as store:
        published_in_turn: dict[int, int] = {}
        turn = 0
        records = tuple(
            ConfigRecord(resource_type=4, resource_name="", name=f"key-{number:010}", value="1")
            for number in range(MAX_RECORDS_PER_COMMAND)
        )

        def on_published(delta: MetadataDelta, image: MetadataImage) -> None:
            published_in_turn[turn] = published_in_turn.get(turn, 0) + len(delta.changed_configs)

        store.subscribe(on_published)
        changing = asyncio.create_task(
            store.submit(lambda image: ControllerResult(records, None, is_atomic=False))
        )
        while not changing.done():
            turn += 1
            await asyncio.sleep(0)
        assert len(store.image.cluster_configs()) > MAX_RECORDS_PER_COMMAND
        assert max(published_in_turn.values()) <= 2 * RECORDS_PER_STEP


@on_both_loops
async def test_a_leader_that_resigns_while_it_publishes_replays_the_rest_of_the_change() -> None:
    async with running_store() as store:
        published: list[int] = []
        records = tuple(
            ConfigRecord(resource_type=4, resource_name="", name=f"key-{number:010}", value="1")
            for number in range(5 * RECORDS_PER_STEP)
        )

        def on_published(delta: MetadataDelta, image: MetadataImage) -> None:
            published.append(image.offset)
            if len(published) == 2:
                store.on_leader_changed(store.image.epoch + 1, None)

        store.subscribe(on_published)
        end = store.image.offset + len(records)
        with pytest.raises(KafkaError, match="the leader of epoch"):
            await store.submit(lambda image: ControllerResult(records, None, is_atomic=False))
        await eventually(lambda: store.image.offset == end)
        assert len(store.image.cluster_configs()) > len(records)
        assert published == sorted(set(published))
