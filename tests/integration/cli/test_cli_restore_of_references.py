"""`tidelog cluster restore` of topics whose segments refer to those of other topics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.backup import BACKUP
from tests.support.cli import tidelog_output
from tests.support.foreign_clients import Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import Received
from tests.support.tier.bucket_settings import bucket_options, storage_config
from tests.support.tier.source_cluster import CONFLUENT, SourceCluster
from tests.support.waiting import wait_until
from tidelog.broker.backup.catalog import BackupCatalog
from tidelog.broker.backup.collection import metadata_snapshot
from tidelog.remote.inspection.bucket import Bucket
from tidelog.testing.embedded import EmbeddedCluster

OWN_COUNT = 1_500


def create_lost_cluster(tier: Path) -> list[Received]:
    """Fill a topic, restore it as of a time, write to the new topic, back up, and stop the cluster.

    Return the records of the new topic that are in the bucket.
    """
    source = SourceCluster(tier)
    try:
        source.fill("tides")
        configs = ("--topic-config", "segment.bytes=1048576", "--topic-config", "retention.ms=-1")
        report = source.restore("tides", "yesterday", "--execute", *configs)
        first_own = report["log_end_offset"]
        clients = ClientFactory(source.servers)
        clients.produce(CONFLUENT, "yesterday", [Message(bytes(900)) for _ in range(OWN_COUNT)])
        clients.close()
        wait_until(lambda: source.topics.border("yesterday").highest_remote > first_own)
        tiered_end = source.topics.border("yesterday").highest_remote + 1
        records = source.read("yesterday", len(source.records_before("tides", first_own)) + OWN_COUNT)
        snapshot = source.cluster.run(lambda node: metadata_snapshot(node.services.image(), 5))
    finally:
        source.cluster.stop()
    bucket = Bucket.open({"storage.backend.class": "filesystem", "storage.root": str(tier)})
    catalog = BackupCatalog(bucket.storage.store, bucket.prefix)
    catalog.write(replace(BACKUP, metadata=snapshot, groups={}, partitions={}))
    return [each for each in records if each.offset < tiered_end]


def test_a_topic_as_of_a_time_is_restored_with_its_source_and_with_its_own_segments(tmp_path: Path) -> None:
    records = create_lost_cluster(tmp_path)
    with EmbeddedCluster(tiered=True, config=storage_config(tmp_path)) as cluster:
        servers = cluster.bootstrap_servers
        arguments = ("cluster", "restore", "--from", str(tmp_path), "--topics-only")
        assert "dry run: 2 topics" in tidelog_output(*arguments, bootstrap=servers)
        assert "2 of 2 topics restored" in tidelog_output(*arguments, "--execute", bootstrap=servers)
        clients = ClientFactory(servers)
        restored = clients.consume(CONFLUENT, "yesterday", len(records), isolation="read_uncommitted")
        clients.close()
        assert [replace(each, topic="") for each in restored] == records
        tidelog_output("tier", "fsck", "--all", *bucket_options(tmp_path), bootstrap=servers)
