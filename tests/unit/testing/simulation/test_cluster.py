"""What a simulated cluster can be configured to be: compacting, dynamic, of older feature levels."""

from tidelog import Admin, Consumer, Producer
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.simulation import Simulation

COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "300",
    "min.cleanable.dirty.ratio": "0.01",
}


def test_a_compacted_topic_keeps_the_last_value_of_each_key_although_a_worker_is_killed() -> None:
    with Simulation(seed=1, nodes=1, config={"log.cleaner.backoff.ms": "500"}) as simulation:
        client, node = simulation.cluster.client("app"), simulation.cluster.nodes[1]
        servers, environment = simulation.cluster.bootstrap_servers, client.environment

        async def write(first: int, end: int) -> None:
            async with Producer(servers, environment=environment) as producer:
                for number in range(first, end):
                    await producer.send_and_wait("tides", b"%d" % number, key=b"%d" % (number % 3))

        async def create() -> None:
            async with Admin(servers, environment=environment) as admin:
                await admin.create_topic("tides", configs=COMPACTED)

        async def read() -> dict[bytes | None, list[bytes | None]]:
            values: dict[bytes | None, list[bytes | None]] = {}
            async with Consumer(servers, environment=environment, auto_offset_reset="earliest") as consumer:
                consumer.assign([("tides", 0)])
                while await consumer.position(TopicPartition("tides", 0)) < 30:
                    for records in (await consumer.poll()).values():
                        for record in records:
                            values.setdefault(record.key, []).append(record.value)
            return values

        simulation.run(client, create())
        simulation.run(client, write(0, 20))
        assert simulation.run_until(lambda: bool(node.cleaning_workers), 60)
        node.cleaning_workers[0].kill()
        simulation.run(client, write(20, 30))
        simulation.run_for(60)
        values = simulation.run(client, read())
        assert [values[key][-1] for key in (b"0", b"1", b"2")] == [b"27", b"28", b"29"]
        assert sum(map(len, values.values())) < 15


def test_a_cluster_begins_with_the_given_feature_levels() -> None:
    with Simulation(seed=1, nodes=1, features={"metadata.version": 25}) as simulation:
        client = simulation.cluster.client("app")

        async def levels() -> dict[str, int]:
            async with Admin(simulation.cluster.bootstrap_servers, environment=client.environment) as admin:
                return dict((await admin.describe_features()).finalized)

        assert simulation.run(client, levels()) == {"metadata.version": 25}


def test_a_voter_of_a_dynamic_quorum_can_be_removed() -> None:
    with Simulation(seed=1, voters_may_change=True) as simulation:
        cluster, client = simulation.cluster, simulation.cluster.client("app")

        async def remove_one() -> set[int]:
            async with Admin(cluster.bootstrap_servers, environment=client.environment) as admin:
                quorum = await admin.describe_metadata_quorum()
                node = next(each for each in cluster.nodes.values() if each.node_id != quorum.leader_id)
                await admin.remove_raft_voter(node.node_id, node.directory_id)
                quorum = await admin.describe_metadata_quorum()
                return {node.node_id} | {-each.replica_id for each in quorum.voters}

        numbers = simulation.run(client, remove_one())
        removed = next(number for number in numbers if number > 0)
        assert numbers == {removed, *(-each for each in cluster.nodes if each != removed)}


def test_a_node_that_is_killed_within_a_flush_starts_with_the_same_disk() -> None:
    with Simulation(seed=1, nodes=1, config={"log.flush.interval.messages": "1"}) as simulation:
        cluster, node = simulation.cluster, simulation.cluster.nodes[1]
        client = cluster.client("app")

        def kill(text: str) -> None:
            if text.startswith("fsync ") and "/tides-0/" in text:
                node.kill_at_operation()

        async def write(value: bytes) -> int:
            async with Producer(cluster.bootstrap_servers, environment=client.environment) as producer:
                return (await producer.send_and_wait("tides", value, partition=0)).offset

        assert simulation.run(client, write(b"low")) == 0
        node.machine.state.disk.on_operation = kill
        writing = client.start(write(b"high"))
        assert simulation.run_until(lambda: not node.is_running, 60)
        node.start()
        assert simulation.run_until(writing.done, 60)
        assert writing.result() == 1


def test_a_node_whose_disk_is_full_while_it_stops_ends_and_recovers_its_logs_at_the_next_start() -> None:
    with Simulation(seed=1, nodes=1) as simulation:
        cluster, node = simulation.cluster, simulation.cluster.nodes[1]
        client = cluster.client("app")

        async def write(value: bytes) -> int:
            async with Producer(cluster.bootstrap_servers, environment=client.environment) as producer:
                return (await producer.send_and_wait("tides", value, partition=0)).offset

        assert simulation.run(client, write(b"low")) == 0
        node.machine.state.disk.free_bytes = 0
        node.stop()
        assert simulation.run_until(lambda: not node.is_running, 60)
        assert any("cannot stop cleanly: close of" in line for line in simulation.trace.timeline)
        node.machine.state.disk.free_bytes = None
        node.start()
        assert simulation.run(client, write(b"high")) == 1
