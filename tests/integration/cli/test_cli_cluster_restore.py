"""`tidelog cluster restore` in a cluster whose directories were not formatted with the backup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.backup import BACKUP
from tests.support.cli import tidelog, tidelog_output
from tests.support.metadata.images import image_after_records
from tests.support.metadata.topic_records import topic_records
from tidelog.broker.backup.catalog import BackupCatalog
from tidelog.broker.backup.collection import metadata_snapshot
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.remote.inspection.bucket import Bucket
from tidelog.testing.embedded import EmbeddedCluster

IMAGE = image_after_records(
    [
        *topic_records("plain", 1, 4),
        ConfigRecord(resource_type=4, resource_name="", name="message.max.bytes", value="2000000"),
        ClientQuotaRecord(
            entity=(EntityData(entity_type="user", entity_name="a"),), key="producer_byte_rate", value=1.0
        ),
        UserScramCredentialRecord(
            name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
    ]
)


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """Return a bucket with a backup of IMAGE and without segments."""
    lost_bucket = Bucket.open({"storage.backend.class": "filesystem", "storage.root": str(tmp_path)})
    catalog = BackupCatalog(lost_bucket.storage.store, lost_bucket.prefix)
    catalog.write(replace(BACKUP, metadata=metadata_snapshot(IMAGE, 5), metadata_offset=9))
    return tmp_path


def test_a_cluster_that_was_formatted_without_the_backup_is_not_restored_silently(bucket: Path) -> None:
    with EmbeddedCluster() as cluster:
        arguments = ("cluster", "restore", "--from", str(bucket), "--execute", "--replication-factor", "1")
        result = tidelog(*arguments, bootstrap=cluster.bootstrap_servers)
        assert result.exit_code == 1
        for kind in ("quotas", "SCRAM credentials", "default configs of brokers"):
            assert f"the cluster lacks 1 {kind} of the backup" in result.stderr
        assert "tidelog storage format --backup" in result.stderr
        assert not cluster.run(lambda node: "plain" in node.services.image().topics_by_name)

        output = tidelog_output(*arguments, "--topics-only", bootstrap=cluster.bootstrap_servers)
        assert "1 of 1 topic restored" in output
        assert cluster.run(lambda node: "plain" in node.services.image().topics_by_name)
