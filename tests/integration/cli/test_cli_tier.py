"""`tidelog tier` with a tiered cluster, and with its bucket after changes."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin, TopicDescription
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.ids import TopicPartition, uuid_from_text
from tidelog.remote.inspection.placing import Place
from tidelog.remote.metadata.config import METADATA_TOPIC
from tidelog.remote.metadata.partitioning import metadata_partition
from tidelog.remote.metadata.record_codec import encode_event
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.testing.embedded import EmbeddedCluster

CONFLUENT = CLIENTS["confluent"]
SENT = [Message(b"%d " % number + bytes(900)) for number in range(4000)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tiered=True) as running:
        yield running


@pytest.fixture(scope="module")
def tiered(cluster: EmbeddedCluster) -> TieredTopics:
    return TieredTopics(cluster)


@pytest.fixture(scope="module")
def topic(cluster: EmbeddedCluster, tiered: TieredTopics) -> Iterator[str]:
    """Create a topic with three remote segments and the active one."""
    tiered.create("tides")
    client_factory = ClientFactory(cluster.bootstrap_servers)
    client_factory.produce(CONFLUENT, "tides", SENT)
    client_factory.close()
    tiered.wait_until_tiered("tides")
    yield "tides"


@pytest.fixture
def damaged(cluster: EmbeddedCluster, topic: str, tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Yield the cluster; restore its bucket afterwards."""
    kept = tmp_path / "kept"
    shutil.copytree(cluster.tier_dir, kept)
    yield cluster
    shutil.rmtree(cluster.tier_dir)
    shutil.copytree(kept, cluster.tier_dir)


def bucket_options(cluster: EmbeddedCluster) -> list[str]:
    return ["-C", "storage.backend.class=filesystem", "-C", f"rsm.config.storage.root={cluster.tier_dir}"]


def fsck(cluster: EmbeddedCluster, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """Return the findings of a run that must end with `code`."""
    result = tidelog(
        "tier", "fsck", *arguments, "--json", *bucket_options(cluster), bootstrap=cluster.bootstrap_servers
    )
    assert (result.exit_code, result.stderr) == (code, ""), result.output
    findings: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return findings


def output(cluster: EmbeddedCluster, *arguments: str) -> str:
    return tidelog_output("tier", *arguments, bootstrap=cluster.bootstrap_servers)


def document(cluster: EmbeddedCluster, *arguments: str) -> Any:
    return json.loads(output(cluster, *arguments, "--json"))


# --- ls ---


def test_ls_shows_the_remote_end_of_a_partition(
    cluster: EmbeddedCluster, topic: str, tiered: TieredTopics
) -> None:
    border = tiered.border(topic)
    (shown,) = document(cluster, "ls", topic)
    assert (shown["log_start_offset"], shown["high_watermark"]) == (0, len(SENT))
    assert shown["local_log_start_offset"] == border.local_start
    assert shown["highest_offset_in_remote_storage"] == border.highest_remote
    assert shown["earliest_pending_upload_offset"] == border.highest_remote + 1
    assert shown["behind_offsets"] == len(SENT) - border.local_start
    assert 0 < shown["behind_bytes"] < 1 << 20
    assert shown["segments"] == 3
    assert json.loads(output(cluster, "ls", "tides-0", "--json")) == [shown]
    lines = output(cluster, "ls").splitlines()
    assert lines[0].split()[0] == "PARTITION"
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[:4] == ["tides-0", "0", str(border.local_start), str(border.highest_remote)]


def test_ls_shows_every_segment_with_its_object(cluster: EmbeddedCluster, topic: str) -> None:
    (shown,) = document(cluster, "ls", topic, "--segments", *bucket_options(cluster))
    segments = shown["remote_segments"]
    assert [one["state"] for one in segments] == ["COPY_SEGMENT_FINISHED"] * 3
    assert segments[0]["start_offset"] == 0
    assert segments[0]["end_offset"] + 1 == segments[1]["start_offset"]
    for one in segments:
        assert (cluster.tier_dir / one["object_key"]).stat().st_size == one["size_bytes"]
    text = output(cluster, "ls", topic, "-s")
    assert all(one["object_key"] in text for one in segments)
    assert "STATE      copy_segment_finished" in text
    # Keys of objects and custom metadata are longer than a line.
    table = [line for line in text.splitlines() if not line.startswith(("OBJECT", "CUSTOM"))]
    assert max(map(len, table)) <= 80


def test_ls_of_an_unknown_topic_is_an_error(cluster: EmbeddedCluster, topic: str) -> None:
    line = tidelog_failure("tier", "ls", "ebb", bootstrap=cluster.bootstrap_servers)
    assert "[UNKNOWN_TOPIC_OR_PARTITION]" in line
    line = tidelog_failure("tier", "ls", f"{topic}-77", bootstrap=cluster.bootstrap_servers)
    assert "no partition 77" in line


def test_ls_accepts_a_topic_name_that_ends_with_a_number(
    cluster: EmbeddedCluster, tiered: TieredTopics
) -> None:
    tiered.create("moons-7", partitions=2)
    assert [one["partition"] for one in document(cluster, "ls", "moons-7")] == [0, 1]
    (shown,) = document(cluster, "ls", "moons-7-1")
    assert (shown["partition"], shown["highest_offset_in_remote_storage"]) == (1, -1)


# --- explain ---


def test_explain_locates_the_bytes_of_an_offset(cluster: EmbeddedCluster, topic: str) -> None:
    for offset in (0, 1500, 2999):
        shown = document(cluster, "explain", "tides-0", "--offset", str(offset), *bucket_options(cluster))
        place = shown["offset"]
        assert (place["place"], place["leader_epoch"]) == ("remote", shown["lineage"][0]["leader_epoch"])
        where = place["bytes"]
        data = (cluster.tier_dir / where["key"]).read_bytes()[where["stored_start"] : where["stored_end"]]
        ((_, header),) = iterate_headers(data)
        assert header.base_offset == where["base_offset"] <= offset <= header.last_offset
    text = output(cluster, "explain", "tides-0", "-o", "1500", *bucket_options(cluster))
    assert f"\nhigh watermark      {len(SENT)}\n" in text
    assert "offset 1500: in remote storage" in text
    assert "stored bytes  " in text


def test_explain_reports_why_the_end_is_not_remote(cluster: EmbeddedCluster, topic: str) -> None:
    text = output(cluster, "explain", "tides-0", "--offset", str(len(SENT) - 1))
    assert "on the leader's disk only" in text
    assert "it may be in the active segment" in text
    assert f"offset {len(SENT) + 5}: not written yet" in output(
        cluster, "explain", "tides-0", "-o", str(len(SENT) + 5)
    )


def test_explain_predicts_the_next_expiring_segment(
    cluster: EmbeddedCluster, topic: str, tiered: TieredTopics
) -> None:
    limits = {"retention.ms": "864000000", "retention.bytes": "99999999"}
    tiered.alter(topic, {**limits, "local.retention.ms": "-2"})
    shown = document(cluster, "explain", "tides-0", "--next", "2")
    (remote,) = document(cluster, "ls", topic, "--segments")
    first = remote["remote_segments"][0]
    assert [one["start_offset"] for one in shown["departures"]] == [0, first["end_offset"] + 1]
    assert shown["departures"][0]["at_ms"] == first["max_timestamp_ms"] + 864_000_000
    assert shown["departures"][0]["after_bytes"] > 90_000_000
    assert "retention.ms=864000000, retention.bytes=99999999" in output(cluster, "explain", "tides-0")
    tiered.alter(topic, {"retention.ms": "-1", "retention.bytes": "-1", "local.retention.ms": "-1"})
    assert document(cluster, "explain", "tides-0")["departures"] == []


def test_explain_reports_failing_copies_until_they_succeed(
    cluster: EmbeddedCluster, tiered: TieredTopics
) -> None:
    topic = f"tides-{uuid4().hex[:8]}"
    tiered.create(topic)
    (empty,) = document(cluster, "ls", topic)
    obstacle = cluster.tier_dir / f"{topic}-{empty['topic_id']}"
    obstacle.write_text("a file in place of a directory")
    client_factory = ClientFactory(cluster.bootstrap_servers)
    client_factory.produce(CONFLUENT, topic, SENT)
    client_factory.close()

    def obstacles() -> list[str]:
        return [one["obstacle"] for one in document(cluster, "explain", f"{topic}-0")["not_tiered"]]

    wait_until(lambda: {"failed_copy", "backlog"} <= set(obstacles()))
    assert "attempts given up)" in output(cluster, "explain", f"{topic}-0")
    obstacle.unlink()
    tiered.wait_until_tiered(topic)
    assert obstacles() == ["active"]
    assert fsck(cluster, topic, "--deep") == []


def test_explain_requires_a_partition(cluster: EmbeddedCluster) -> None:
    line = tidelog_failure("tier", "explain", "tides", code=2, bootstrap=cluster.bootstrap_servers)
    assert "'tides' is not TOPIC-PARTITION" in line


# --- fsck ---


@pytest.mark.parametrize(
    "arguments",
    [["tides"], ["--all"], ["tides", "--deep"], ["--all", "--deep"], ["--all", "--offline", "--deep"]],
    ids=" ".join,
)
def test_fsck_of_a_complete_bucket_has_no_finding(
    arguments: list[str], cluster: EmbeddedCluster, topic: str
) -> None:
    assert fsck(cluster, *arguments) == []
    text = tidelog_output(
        "tier", "fsck", *arguments, *bucket_options(cluster), bootstrap=cluster.bootstrap_servers
    )
    assert text.endswith("no findings, no notes\n")
    looked_at = document(cluster, "ls", *(["tides"] if arguments[0] == "tides" else []))
    size = sum(one["remote_bytes"] for one in looked_at)
    assert (f"{size} bytes read" in text) is ("--deep" in arguments)


def object_of(cluster: EmbeddedCluster, number: int, suffix: str) -> Path:
    (folder,) = cluster.tier_dir.glob("tides-" + "?" * 22)
    return sorted(folder.rglob(f"*.{suffix}"))[number]


def remove_log(cluster: EmbeddedCluster) -> None:
    object_of(cluster, 1, "log").unlink()


def truncate_log_object(cluster: EmbeddedCluster) -> None:
    path = object_of(cluster, 1, "log")
    path.write_bytes(path.read_bytes()[:-100])


def corrupt_manifest(cluster: EmbeddedCluster) -> None:
    object_of(cluster, 0, "rsm-manifest").write_bytes(b"{")


def add_orphan(cluster: EmbeddedCluster) -> None:
    path = object_of(cluster, 0, "log")
    name = f"{path.name[:21]}{'A' * 22}.log"
    path.with_name(name).write_bytes(b"unknown")


def flip_byte(cluster: EmbeddedCluster) -> None:
    path = object_of(cluster, 2, "log")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def flip_index_byte(cluster: EmbeddedCluster) -> None:
    path = object_of(cluster, 0, "indexes")
    data = bytearray(path.read_bytes())
    data[0] ^= 0x80
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "kind", "severity", "is_deep"),
    [
        (remove_log, "missing_object", "loss", False),
        (truncate_log_object, "wrong_size", "loss", False),
        (corrupt_manifest, "bad_manifest", "loss", False),
        (add_orphan, "orphan", "leftover", False),
        (flip_byte, "bad_batch", "loss", True),
        (flip_index_byte, "bad_index", "damage", True),
    ],
)
def test_fsck_finds_changes_made_in_the_bucket(
    damage: Callable[[EmbeddedCluster], None],
    kind: str,
    severity: str,
    is_deep: bool,
    damaged: EmbeddedCluster,
) -> None:
    damage(damaged)
    if is_deep:
        assert fsck(damaged, "tides") == []
    (finding,) = fsck(damaged, "tides", *(["--deep"] if is_deep else []), code=1)
    assert (finding["kind"], finding["severity"], finding["topic"], finding["partition"]) == (
        kind,
        severity,
        "tides",
        0,
    )
    assert [one["kind"] for one in fsck(damaged, "--all", "--deep", code=1)] == [kind]
    offline = fsck(damaged, "--all", "--offline", "--deep", code=1)
    assert kind in [one["kind"] for one in offline] or kind == "orphan"


def test_fsck_prints_a_line_for_each_finding(damaged: EmbeddedCluster) -> None:
    remove_log(damaged)
    result = tidelog("tier", "fsck", "tides", *bucket_options(damaged), bootstrap=damaged.bootstrap_servers)
    assert result.exit_code == 1
    line, summary = result.stdout.splitlines()
    assert line.startswith("LOSS missing-object: tides-0 tides-")
    assert line.endswith(".log: an object that the metadata requires is missing")
    assert summary == "1 partition, 3 remote segments: 1 finding, no notes"


def test_fsck_finds_objects_of_unknown_topics(damaged: EmbeddedCluster) -> None:
    folder = object_of(damaged, 0, "log").parent.parent
    shutil.copytree(folder, folder.with_name("tides-" + "B" * 22))
    (damaged.tier_dir / "readme.txt").write_text("not ours")
    findings = fsck(damaged, "--all", code=1)
    assert [one["kind"] for one in findings].count("orphan") == 9
    assert [one["kind"] for one in findings].count("foreign_object") == 1
    assert fsck(damaged, "tides") == []


async def write_metadata(cluster: EmbeddedCluster, event: RemoteLogSegmentMetadataUpdate) -> None:
    async with Admin(cluster.bootstrap_servers) as admin:
        description = (await admin.describe_topics([METADATA_TOPIC]))[METADATA_TOPIC]
        assert isinstance(description, TopicDescription)
    number = metadata_partition(event.remote_log_segment_id.topic_id_partition, len(description.partitions))
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait(METADATA_TOPIC, encode_event(event), partition=number)


def test_a_segment_deleted_from_the_middle_is_a_gap(cluster: EmbeddedCluster, tiered: TieredTopics) -> None:
    topic = f"tides-{uuid4().hex[:8]}"
    tiered.create(topic)
    client_factory = ClientFactory(cluster.bootstrap_servers)
    client_factory.produce(CONFLUENT, topic, SENT)
    client_factory.close()
    tiered.wait_until_tiered(topic)
    (before,) = document(cluster, "ls", topic, "--segments")
    middle = before["remote_segments"][1]
    partition = TopicIdPartition(uuid_from_text(before["topic_id"]), topic, 0)
    segment_id = RemoteLogSegmentId(partition, uuid_from_text(middle["segment_id"]))
    deleting = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
    asyncio.run(write_metadata(cluster, RemoteLogSegmentMetadataUpdate(segment_id, 1, deleting, 1)))

    def gaps() -> list[str]:
        return [one["place"] for one in fsck(cluster, topic, code=1) if one["kind"] == "gap"]

    wait_until(lambda: document(cluster, "ls", topic)[0]["segments"] == 2)
    assert gaps() == [f"offsets {middle['start_offset']}-{middle['end_offset']}"]
    text = output(cluster, "explain", f"{topic}-0", "--offset", str(middle["start_offset"]))
    assert Place.NOWHERE.value in text
    tiered.delete(topic)


def test_ls_of_a_topic_without_remote_storage(cluster: EmbeddedCluster, tiered: TieredTopics) -> None:
    topic = f"pond-{uuid4().hex[:8]}"
    tiered.create(topic, {"remote.storage.enable": "false", "local.retention.bytes": "-2"})
    (shown,) = document(cluster, "ls", topic)
    assert (shown["is_tiered"], shown["segments"], shown["remote_bytes"]) == (False, 0, 0)
    assert fsck(cluster, topic) == []
    assert topic not in output(cluster, "ls")


def test_fsck_reads_the_settings_of_a_broker(cluster: EmbeddedCluster, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "node.id=1\nrsm.config.storage.backend.class=filesystem\n"
        f"rsm.config.storage.root={cluster.tier_dir}\nrsm.config.fetch.chunk.cache.class=disk\n"
    )
    servers = cluster.bootstrap_servers
    assert "no findings" in tidelog_output("tier", "fsck", topic, "--config", str(file), bootstrap=servers)
    file.write_text("node.id=1\n")
    line = tidelog_failure("tier", "fsck", topic, "--config", str(file), code=2, bootstrap=servers)
    assert "no key begins with rsm.config." in line


def test_fsck_reports_an_unavailable_bucket(cluster: EmbeddedCluster, topic: str, tmp_path: Path) -> None:
    servers, bucket = cluster.bootstrap_servers, bucket_options(cluster)
    assert "no bucket: give" in tidelog_failure("tier", "fsck", topic, code=2, bootstrap=servers)
    assert "give topics, or --all" in tidelog_failure("tier", "fsck", *bucket, code=2, bootstrap=servers)
    missing = ["-C", "storage.backend.class=filesystem", "-C", f"storage.root={tmp_path / 'none'}"]
    tidelog_failure("tier", "fsck", topic, *missing, code=2, bootstrap=servers)
    tidelog_failure("tier", "fsck", "ebb", *bucket, code=2, bootstrap=servers)
    line = tidelog_failure(
        "tier", "fsck", topic, "--offline", *bucket[:2], "-C", f"storage.root={tmp_path}", code=2
    )
    assert "the bucket has no segments of tides" in line
    tidelog_failure("tier", "fsck", "--config", str(tmp_path / "none"), "--all", code=2, bootstrap=servers)


async def delete_before(cluster: EmbeddedCluster, topic: str, offset: int) -> None:
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.delete_records({TopicPartition(topic, 0): offset})


def test_fsck_has_no_finding_during_copies_and_deletions(
    cluster: EmbeddedCluster, tiered: TieredTopics
) -> None:
    topic = f"tides-{uuid4().hex[:8]}"
    tiered.create(topic, {"retention.bytes": str(3 << 20)})
    client_factory = ClientFactory(cluster.bootstrap_servers)
    for _ in range(4):
        client_factory.produce(CONFLUENT, topic, SENT)
        for _ in range(3):
            assert [one for one in fsck(cluster, topic, "--deep") if one["severity"] != "note"] == []
    client_factory.close()


def test_offsets_below_the_log_start_are_reported_as_deleted(
    cluster: EmbeddedCluster, tiered: TieredTopics
) -> None:
    topic = f"tides-{uuid4().hex[:8]}"
    tiered.create(topic)
    client_factory = ClientFactory(cluster.bootstrap_servers)
    client_factory.produce(CONFLUENT, topic, SENT)
    client_factory.close()
    tiered.wait_until_tiered(topic)
    asyncio.run(delete_before(cluster, topic, 1500))
    assert f"offset 1499: {Place.BELOW_START.value}" in output(cluster, "explain", f"{topic}-0", "-o", "1499")
    assert "offset 1500: in remote storage" in output(cluster, "explain", f"{topic}-0", "-o", "1500")
    assert [one for one in fsck(cluster, topic, "--deep") if one["severity"] != "note"] == []
    wait_until(lambda: fsck(cluster, topic) == [])


def test_epochs_of_three_consecutive_leaders_are_shown(tmp_path: Path) -> None:
    with EmbeddedCluster(3, tiered=True, data_dir=tmp_path / "cluster") as cluster:
        tiered = TieredTopics(cluster)
        tiered.create("tides")
        for _ in range(3):
            client_factory = ClientFactory(cluster.bootstrap_servers)
            client_factory.produce(CONFLUENT, "tides", SENT)
            client_factory.close()
            tiered.wait_until_tiered("tides")
            leader = tiered.leader("tides")
            cluster.kill_node(leader)
            wait_until(lambda leader=leader: tiered.leader("tides") not in (leader, -1))  # type: ignore[misc]
            cluster.start_node(leader)
        shown = document(cluster, "explain", "tides-0")
        starts = [entry["start_offset"] for entry in shown["lineage"]]
        assert starts[0] == 0
        assert starts == sorted(set(starts))
        assert len(starts) >= 3
        findings = fsck(cluster, "--all", "--deep")
        assert all(one["severity"] == "note" for one in findings), findings
