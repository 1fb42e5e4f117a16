"""A disaster drill: all nodes are killed under load, all disks are deleted, and the bucket is left."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.cli import tidelog_output
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.tiering import QUICK_TIERING, TIER_FOLDER, tiered_settings
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import uuid_text
from tidelog.testing.embedded import CLUSTER_DEFAULTS

TIMEOUT_S = 60.0
PARTITIONS = 3
TOPIC, PLAIN_TOPIC, GROUP = "tides", "plain", "harbour"
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "retention.ms": "-1",
    "local.retention.bytes": "1",
}
BACKED_UP = {
    **CLUSTER_DEFAULTS,
    **QUICK_TIERING,
    "tidelog.backup.interval.ms": "1000",
    # Clients that still run would create empty topics of the same names before the restore.
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ACL = AclBinding(
    ResourceType.TOPIC,
    TOPIC,
    ResourcePatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
ANY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
END_OF_PARTITION = confluent_kafka.KafkaError._PARTITION_EOF


class Content(NamedTuple):
    """The key and the value of a record."""

    key: bytes
    value: bytes


class Load:
    """Produces to every partition until it is stopped, and remembers what was acknowledged."""

    def __init__(self, servers: str) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "message.timeout.ms": 3_000,
                "log_level": 0,
            }
        )
        self.acknowledged: dict[tuple[int, int], Content] = {}
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def last_acknowledged(self, partition: int) -> int:
        """Return the highest acknowledged offset of a partition."""
        # The copy is atomic; the thread of the load adds entries.
        return max(offset for number, offset in list(self.acknowledged) if number == partition)

    def stop(self) -> None:
        """Stop, after records without an acknowledgement have failed."""
        self._is_stopped.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while not self._is_stopped.is_set():
            key = b"%d" % number
            # Random bytes do not become smaller, so that segments fill after a few hundred records.
            value = b"%d " % number + random.Random(number).randbytes(1_500 + number % 97)
            try:
                self._producer.produce(
                    TOPIC, value, key, partition=number % PARTITIONS, on_delivery=self._on_delivery
                )
                number += 1
            except BufferError:
                self._producer.poll(0.01)
            # About a thousand records a second: more take longer to be restored and compared.
            self._producer.poll(0.001)
        self._producer.flush(6)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            content = Content(message.key(), message.value())
            self.acknowledged[message.partition(), message.offset()] = content


class DrilledCluster:
    """A cluster of processes whose disks are lost, and whose bucket is kept."""

    def __init__(self, folder: Path, count: int) -> None:
        self.tier = folder / TIER_FOLDER
        self._folder = folder / "cluster"
        self._count = count
        settings = tiered_settings(folder, count, BACKED_UP)
        self.processes = LocalCluster.create(self._folder, count, settings=settings)
        self.processes.start()

    @property
    def servers(self) -> str:
        """The addresses for clients."""
        return self.processes.bootstrap_servers

    @property
    def admin(self) -> AdminClient:
        """A new admin client of librdkafka."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def lose(self) -> None:
        """Kill all nodes at once and delete all disks."""
        for node in self.processes.nodes.values():
            node.kill()
        for node_id in self.processes.nodes:
            shutil.rmtree(self.processes.layout.data_folder(node_id))

    def format_from_backup(self) -> None:
        """Format the disks of all nodes with the newest backup, and start them."""
        for node_id in self.processes.nodes:
            file = self.processes.layout.node_folder(node_id) / "server.properties"
            tidelog_output("storage", "format", "-c", str(file), "--backup", "latest")
        self.processes.start()

    def is_each_partition_tiered(self) -> bool:
        """Return whether the bucket has a segment of each partition."""
        return all(any(self.tier.glob(f"{TOPIC}-*/{number}/*.rsm-manifest")) for number in range(PARTITIONS))

    def backups(self) -> list[dict[str, Any]]:
        """Return the backups in the bucket, the oldest first."""
        text = tidelog_output("backup", "list", "--from", str(self.tier), "--json")
        documents: list[dict[str, Any]] = json.loads(text)
        return documents

    def wait_for_new_backup(self) -> None:
        """Wait for a backup that began after this call."""
        before = len(self.backups())
        wait_until(lambda: len(self.backups()) >= before + 2, timeout_s=TIMEOUT_S)

    def restore(self, *arguments: str) -> dict[str, Any]:
        """Restore the cluster with `tidelog cluster restore`; return its report."""
        text = tidelog_output(
            *("cluster", "restore", "--from", str(self.tier), "--json", *arguments), bootstrap=self.servers
        )
        document: dict[str, Any] = json.loads(text)
        return document

    def read(self, partition: int, end: int) -> dict[int, Content]:
        """Return every record of a partition below `end` by offset, read by librdkafka."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "check.crcs": True,
                "log_level": 0,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, partition, 0)])
        contents: dict[int, Content] = {}
        try:
            while len(contents) < end:
                messages = consumer.consume(min(1_000, end - len(contents)), TIMEOUT_S)
                assert messages, f"{len(contents)} of {end} records were read"
                for message in messages:
                    assert message.error() is None, message.error()
                    contents[message.offset()] = Content(message.key(), message.value())
        finally:
            consumer.close()
        return contents

    def topic_ids(self) -> dict[str, str]:
        """Return the id of each topic."""

        async def describe() -> dict[str, str]:
            async with Admin(self.servers) as admin:
                described = await admin.describe_topics([TOPIC, PLAIN_TOPIC])
                return {
                    name: uuid_text(one.topic_id)
                    for name, one in described.items()
                    if not isinstance(one, KafkaError)
                }

        return asyncio.run(describe())

    def configs(self, kind: str, name: str) -> dict[str, str]:
        """Return the configs of a resource that are not defaults."""
        text = tidelog_output("config", "describe", kind, name, "--json", bootstrap=self.servers)
        return {entry["name"]: entry["value"] for entry in json.loads(text)}

    def describe_everything(self) -> dict[str, Any]:
        """Return what a restore must preserve, except for records and offsets."""
        admin = self.admin
        return {
            "topics": self.topic_ids(),
            "configs": {name: self.configs("topic", name) for name in (TOPIC, PLAIN_TOPIC)},
            "acls": [str(each) for each in admin.describe_acls(ANY_ACL).result(TIMEOUT_S)],
            "users": json.loads(tidelog_output("user", "list", "--json", bootstrap=self.servers)),
            "quotas": json.loads(tidelog_output("quota", "describe", "--json", bootstrap=self.servers)),
            "broker": self.configs("broker", "1"),
        }

    def create_everything(self) -> None:
        """Create two topics, a user, an access control entry, a quota, and a config of all brokers."""
        admin = self.admin
        topics = [
            NewTopic(TOPIC, PARTITIONS, self._count, config=TIERED),
            NewTopic(PLAIN_TOPIC, 2, self._count, config={"cleanup.policy": "compact"}),
        ]
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        for future in (
            *admin.create_topics(topics).values(),
            *admin.create_acls([ACL]).values(),
            *admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion("alice", credential, b"sea")]
            ).values(),
        ):
            future.result(TIMEOUT_S)
        # A config of one broker would be in the description of a topic only when this broker describes it.
        tidelog_output(*("config", "set", "broker", "", "message.max.bytes=2000000"), bootstrap=self.servers)
        tidelog_output(
            *("quota", "alter", "--user", "alice", "producer_byte_rate=1000000"), bootstrap=self.servers
        )


@pytest.fixture
def drill_cluster(tmp_path: Path) -> Iterator[DrilledCluster]:
    cluster = DrilledCluster(tmp_path, 3)
    yield cluster
    cluster.processes.remove()


def group_consumer(servers: str) -> confluent_kafka.Consumer:
    """Return a consumer of the group."""
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )


def partitions_at(offsets: dict[int, int]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(TOPIC, number, offset) for number, offset in offsets.items()]


def test_a_cluster_that_lost_all_disks_under_load_is_restored(
    drill_cluster: DrilledCluster,
) -> None:
    drill_cluster.create_everything()
    load = Load(drill_cluster.servers)
    wait_until(lambda: len(load.acknowledged) > 6_000, timeout_s=TIMEOUT_S)
    wait_until(drill_cluster.is_each_partition_tiered, timeout_s=TIMEOUT_S)
    consumer = group_consumer(drill_cluster.servers)
    committed = {0: 100, 1: 1_000, 2: load.last_acknowledged(2)}
    consumer.commit(offsets=partitions_at(committed), asynchronous=False)
    consumer.close()
    drill_cluster.wait_for_new_backup()
    before = drill_cluster.describe_everything()
    drill_cluster.lose()
    load.stop()

    drill_cluster.format_from_backup()
    plan = drill_cluster.restore()
    assert not any(topic["restored"] for topic in plan["topics"])
    report = drill_cluster.restore("--execute")
    assert report["errors"] == []
    assert drill_cluster.describe_everything() == before

    plain, tides = report["topics"]
    assert (plain["topic"], tides["topic"]) == (PLAIN_TOPIC, TOPIC)
    ends = {each["partition"]: each["end_offset"] for each in tides["partitions"]}
    for number, end in ends.items():
        assert end > 0
        contents = drill_cluster.read(number, end)
        assert sorted(contents) == list(range(end))
        acknowledged = {
            offset: content
            for (partition, offset), content in load.acknowledged.items()
            if partition == number and offset < end
        }
        assert {offset: contents[offset] for offset in acknowledged} == acknowledged
        require_exact_loss(tides["partitions"][number], end)

    expected = {number: min(offset, ends[number]) for number, offset in committed.items()}
    consumer = group_consumer(drill_cluster.servers)
    restored = consumer.committed(partitions_at(committed), TIMEOUT_S)
    assert {each.partition: each.offset for each in restored} == expected
    consumer.subscribe([TOPIC])
    messages = consumer.consume(1, TIMEOUT_S)
    assert [message.error() for message in messages] == [None]
    assert messages[0].offset() == expected[messages[0].partition()]
    consumer.close()


def require_exact_loss(partition: dict[str, Any], end: int) -> None:
    """Require that the report names the lost offsets up to the end at the time of the backup."""
    lost = partition["lost"]
    if lost is not None:
        assert lost[0] == end < lost[1]
