"""`tidelog tier repair` writes damaged segments again from replicas that still have their records."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import tidelog, tidelog_failure
from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.tier.sources import gather
from tidelog.protocol.ids import BrokerId
from tidelog.remote.inspection.views import finished_segments
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.repair.replica_records import RecordsNotAvailable, fetch_segment_records
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.testing.embedded import EmbeddedCluster

CONFLUENT = CLIENTS["confluent"]
SENT = [Message(b"%d " % number + bytes(900)) for number in range(4000)]
COPIED_SEGMENTS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(2, tiered=True, config={"default.replication.factor": "2"}) as running:
        yield running


@pytest.fixture(scope="module")
def tiered(cluster: EmbeddedCluster) -> TieredTopics:
    topics = TieredTopics(cluster)
    client_factory = ClientFactory(cluster.bootstrap_servers)
    for topic, local_bytes in (("kept", "-1"), ("gone", "1")):
        topics.create(topic, {"local.retention.bytes": local_bytes})
        client_factory.produce(CONFLUENT, topic, SENT)
    client_factory.close()
    topics.wait_until_tiered("gone")
    wait_until(lambda: len(objects(cluster, "kept", "rsm-manifest")) == COPIED_SEGMENTS)
    wait_until(lambda: topics.border("kept").highest_remote > 0)
    return topics


@pytest.fixture
def damaged(cluster: EmbeddedCluster, tiered: TieredTopics, tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Yield the cluster; restore its bucket afterwards."""
    kept = tmp_path / "bucket"
    shutil.copytree(cluster.tier_dir, kept)
    yield cluster
    shutil.rmtree(cluster.tier_dir)
    shutil.copytree(kept, cluster.tier_dir)


def objects(cluster: EmbeddedCluster, topic: str, suffix: str) -> list[Path]:
    return sorted(cluster.tier_dir.glob(f"{topic}-{'?' * 22}/0/*.{suffix}"))


def run_repair(cluster: EmbeddedCluster, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    options = ["-C", "storage.backend.class=filesystem", "-C", f"storage.root={cluster.tier_dir}"]
    result = tidelog("tier", "repair", *arguments, "--json", *options, bootstrap=cluster.bootstrap_servers)
    assert (result.exit_code, result.stderr) == (code, ""), result.output
    outcomes: list[dict[str, Any]] = json.loads(result.stdout)
    return outcomes


def flip_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip_index_byte(path: Path) -> None:
    indexes = path.with_suffix(".indexes")
    data = bytearray(indexes.read_bytes())
    data[0] ^= 0x80
    indexes.write_bytes(data)


@pytest.mark.parametrize("damage", [flip_byte, truncate_file, Path.unlink, flip_index_byte])
def test_a_damaged_segment_is_written_again_with_the_same_bytes(
    damage: Callable[[Path], None], damaged: EmbeddedCluster
) -> None:
    path = objects(damaged, "kept", "log")[1]
    files = [path, path.with_suffix(".indexes")]
    before = [file.read_bytes() for file in files]
    damage(path)
    after_damage = [file.read_bytes() if file.exists() else None for file in files]
    (outcome,) = run_repair(damaged, "kept")
    assert (outcome["is_repaired"], outcome["problem"]) == (False, None)
    assert [file.read_bytes() if file.exists() else None for file in files] == after_damage
    (outcome,) = run_repair(damaged, "kept", "--execute")
    assert (outcome["is_repaired"], outcome["problem"]) == (True, None)
    assert [file.read_bytes() for file in files] == before
    assert run_repair(damaged, "--all", "--execute") == []


def test_a_segment_without_a_local_replica_is_reported_and_stays_as_it_is(damaged: EmbeddedCluster) -> None:
    path = objects(damaged, "gone", "log")[0]
    flip_byte(path)
    before = path.read_bytes()
    (outcome,) = run_repair(damaged, "gone", "--execute", code=1)
    assert not outcome["is_repaired"]
    assert "CORRUPT_MESSAGE" in outcome["problem"]
    assert path.read_bytes() == before


def test_each_damaged_segment_has_its_own_outcome(damaged: EmbeddedCluster) -> None:
    for topic in ("kept", "gone"):
        flip_byte(objects(damaged, topic, "log")[0])
    outcomes = run_repair(damaged, "--all", "--execute", code=1)
    assert {one["topic"]: one["is_repaired"] for one in outcomes} == {"kept": True, "gone": False}
    assert [one["topic"] for one in run_repair(damaged, "--all", code=1)] == ["gone"]


def test_repair_requires_topics_or_all(cluster: EmbeddedCluster) -> None:
    line = tidelog_failure("tier", "repair", code=2, bootstrap=cluster.bootstrap_servers)
    assert "give topics, or --all" in line


def test_every_replica_in_sync_has_the_bytes_of_a_segment(
    cluster: EmbeddedCluster, tiered: TieredTopics
) -> None:
    segment, path = _first_segment(cluster), objects(cluster, "kept", "log")[0]
    for node in (1, 2):
        file = io.BytesIO()
        asyncio.run(fetch_segment_records(cluster.bootstrap_servers, {}, BrokerId(node), segment, file))
        assert file.getvalue() == path.read_bytes()


def test_records_of_other_epochs_are_not_accepted(cluster: EmbeddedCluster, tiered: TieredTopics) -> None:
    segment = replace(_first_segment(cluster), segment_leader_epochs=(EpochEntry(7, 0),))
    leader = BrokerId(tiered.leader("kept"))
    with pytest.raises(RecordsNotAvailable, match="is of leader epoch 0, not 7"):
        asyncio.run(fetch_segment_records(cluster.bootstrap_servers, {}, leader, segment, io.BytesIO()))


def _first_segment(cluster: EmbeddedCluster) -> RemoteLogSegmentMetadata:
    (view,) = gather(ClusterConnection(cluster.bootstrap_servers), ["kept"]).partitions
    return finished_segments(view.segments)[0]
