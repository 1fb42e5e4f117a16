"""Records that only Apache Kafka's coordinators write and Tidelog must keep: new groups, transactions."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from tests.kafka.two_brokers import ONE_COORDINATOR, run_two_brokers
from tests.reference_software.kafka_programs import WITHIN_S
from tests.support.waiting import wait_until


def test_new_groups_and_transactions_of_kafkas_coordinators_survive_a_leader_change(
    tmp_path: Path,
) -> None:
    with run_two_brokers(tmp_path, ONE_COORDINATOR) as (cluster, clients, ours, kafkas):
        # Both coordinators are Kafka's broker at first; that of groups moves.
        clients.create_topic("__consumer_offsets", [[3, 1]], cleanup_policy="compact")
        clients.create_topic("__transaction_state", [[3]], cleanup_policy="compact")
        clients.create_topic("tides", [[3, 1], [1, 3]])
        clients.produce("tides", [str(number) for number in range(200)], 2)
        for protocol in ("consumer", "classic"):
            assert len(clients.read_as_group(protocol, "tides", 200, protocol=protocol)) == 200
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "tides", "log_level": 0}
        )
        producer.init_transactions(WITHIN_S)
        for outcome in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for number in range(50):
                producer.produce("tides", f"{outcome.__name__} {number}", partition=0)
            producer.flush(WITHIN_S)
            outcome(WITHIN_S)
        for stopped in (kafkas, ours):
            wait_until(lambda: ours.log_bytes("tides-0") == kafkas.log_bytes("tides-0"), timeout_s=WITHIN_S)
            cluster.stop(stopped)
            clients.wait_for_leader_other_than(stopped, "__consumer_offsets")
            for group in ("consumer", "classic"):
                assert clients.committed_offsets(group, "tides", 2) == [100, 100]
            # The default of librdkafka is read_committed.
            values = clients.read("tides", 250, 2)
            assert sum(value.startswith("commit_transaction") for value in values) == 50
            assert not any(value.startswith("abort_transaction") for value in values)
            cluster.start(stopped)
            clients.wait_for_brokers(1, 3)
            clients.wait_until_whole("tides")
            clients.wait_until_whole("__consumer_offsets")
