"""The simulated object store: its faults, and a tiered topic whose records are only there."""

import pytest

from tidelog import Admin, Consumer, Producer
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.ports.storage_manager import StoreUnavailable
from tidelog.testing.simulation.cluster import SimulatedCluster
from tidelog.testing.simulation.object_store import SimulatedBucket, SimulatedObjectStore
from tidelog.testing.simulation.scheduler import SECOND, Scheduler
from tidelog.testing.simulation.simulation import Simulation

TIERING = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "rsm.config.storage.backend.class": "filesystem",
}
TIERED = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "200",
    "local.retention.bytes": "1",
    "retention.ms": "-1",
}


def store_of(scheduler: Scheduler) -> tuple[SimulatedBucket, SimulatedObjectStore]:
    process = SimulatedCluster(scheduler, 1).client("app")
    bucket = SimulatedBucket(scheduler)
    return bucket, bucket.open(process.state)


def test_a_write_without_a_response_may_have_its_effect() -> None:
    bucket, store = store_of(Scheduler(1))
    bucket.loss_share = 1.0
    with pytest.raises(StoreUnavailable):
        store.put("a", b"1")
    assert bucket.objects == {"a": b"1"}


def test_an_unavailable_store_changes_nothing() -> None:
    bucket, store = store_of(Scheduler(1))
    bucket.is_unavailable = True
    with pytest.raises(StoreUnavailable):
        store.put("a", b"1")
    assert not bucket.objects


def test_a_stale_listing_shows_an_earlier_state() -> None:
    scheduler = Scheduler(1)
    bucket, store = store_of(scheduler)
    store.put("a", b"1")
    scheduler.run_until(lambda: False, 20 * SECOND, 10)
    store.put("b", b"2")
    store.delete(["a"])
    bucket.stale_ns = 10 * SECOND
    assert [each.key for each in store.list("")] == ["a"]
    bucket.heal()
    assert [each.key for each in store.list("")] == ["b"]


def test_a_tiered_topic_is_read_from_the_store() -> None:
    with Simulation(seed=1, nodes=1, config=TIERING) as simulation:
        client, bucket = simulation.cluster.client("app"), simulation.cluster.bucket
        servers, environment = simulation.cluster.bootstrap_servers, client.environment

        async def write() -> None:
            async with Admin(servers, environment=environment) as admin:
                await admin.create_topic("tides", configs=TIERED)
            async with Producer(servers, environment=environment) as producer:
                for number in range(20):
                    await producer.send_and_wait("tides", b"%d" % number)

        async def read() -> list[bytes | None]:
            values: list[bytes | None] = []
            async with Consumer(servers, environment=environment, auto_offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition("tides", 0)])
                while len(values) < 20:
                    for records in (await consumer.poll()).values():
                        values.extend(record.value for record in records)
            return values

        simulation.run(client, write())
        simulation.run_for(100)
        assert len(bucket.objects) >= 15
        actions: list[str] = []
        bucket.on_request.append(lambda process, action, key: actions.append(action))
        assert simulation.run(client, read()) == [b"%d" % number for number in range(20)]
        assert "get" in actions
