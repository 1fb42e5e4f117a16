"""`tidelog tier restore --at`: a topic as it was at a time, by reference, and the lives of both topics."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tests.support.foreign_clients import Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.nodes.killed_restore import TravelStep
from tests.support.tier.bucket_settings import bucket_options
from tests.support.tier.source_cluster import CONFLUENT, COUNT, SourceCluster
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourceCluster]:
    running = SourceCluster(tmp_path_factory.mktemp("tier"))
    yield running
    running.cluster.stop()


def test_a_topic_as_of_a_time_has_the_records_up_to_it_and_its_own_life(source: SourceCluster) -> None:
    before = source.fill("tides")
    objects = source.objects("tides-")
    plan = source.restore("tides", "yesterday")
    assert not plan["restored"] and not source.has("yesterday")
    assert source.objects("tides-") == objects

    report = source.restore("tides", "yesterday", "--execute")
    end = report["log_end_offset"]
    assert end == plan["end_offset"]
    expected = [each for each in before if each.offset < end]
    at_ms = source.at_ms["tides"]
    assert expected == [each for each in before if (each.timestamp_ms or 0) <= at_ms]
    assert source.read("yesterday", len(expected)) == expected
    assert report["segments"] == 3
    copied = [size for path, size in source.objects("yesterday-").items() if path.suffix == ".log"]
    assert len(copied) == 1 and copied[0] < 1 << 20

    clients = ClientFactory(source.servers)
    (receipt,) = clients.produce(CONFLUENT, "yesterday", [Message(b"after")])
    assert receipt.offset >= end
    clients.close()
    committed = source.read("tides", COUNT * 2 // 3 - 100, "read_committed")
    undecided = [each["first_offset"] for each in report["open_transactions"]]
    visible = [each for each in committed if each.offset < min([end, *undecided])]
    *read_committed, last = source.read("yesterday", len(visible) + 1, "read_committed")
    assert read_committed == visible and last.value == b"after"
    source.require_clean_bucket()

    result = tidelog("topic", "delete", "tides", bootstrap=source.servers)
    assert result.exit_code == 1
    assert "yesterday refers to its remote segments" in result.stderr
    tidelog_output("topic", "delete", "yesterday", bootstrap=source.servers)
    wait_until(lambda: not source.objects("yesterday-"))
    assert source.objects("tides-") == objects
    assert source.read("tides", COUNT) == before
    source.require_clean_bucket()


def test_an_expired_segment_is_kept_for_the_topic_that_refers_to_it(source: SourceCluster) -> None:
    before = source.fill("waves")
    end = source.restore("waves", "calm", "--execute")["log_end_offset"]
    source.topics.alter("waves", {"retention.ms": "1000", "local.retention.ms": "-2"})
    wait_until(lambda: source.topics.border("waves").log_start > end)
    expected = [each for each in before if each.offset < end]
    assert source.read("calm", len(expected)) == expected
    source.require_clean_bucket()
    tidelog_output("topic", "delete", "calm", bootstrap=source.servers)
    wait_until(lambda: not source.objects("waves-"))


@pytest.mark.parametrize("step", list(TravelStep))
def test_a_killed_restore_as_of_a_time_continues(source: SourceCluster, step: TravelStep) -> None:
    if not source.has("steps"):
        source.fill("steps")
    name = f"steps-{step.name.lower()}"
    killed = subprocess.run(
        (
            *(sys.executable, "-m", "tests.support.nodes.killed_restore", step.name),
            *("tier", "restore", "steps", "--at", str(source.at_ms["steps"]), "--as", name, "--execute"),
            *("-b", source.servers, *bucket_options(source.tier)),
        ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    report = source.restore("steps", name, "--execute")
    assert report["restored"]
    expected = source.records_before("steps", report["end_offset"])
    assert source.read(name, len(expected)) == expected
    source.require_clean_bucket()


def test_the_same_name_can_be_restored_again_after_its_deletion(source: SourceCluster) -> None:
    if not source.has("steps"):
        source.fill("steps")
    ends = []
    for _ in range(2):
        ends.append(source.restore("steps", "again", "--execute")["log_end_offset"])
        tidelog_output("topic", "delete", "again", bootstrap=source.servers)
        wait_until(lambda: not source.objects("again-"))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--at", "yesterday", "--as", "x"), "--at yesterday: allowed are milliseconds"),
        (("--at", "1000"), "give the topic, --at and --as"),
        (("--at", "1000", "--as", "a/b"), "--as a/b"),
    ],
)
def test_a_wrong_time_or_name_is_a_usage_failure(
    source: SourceCluster, arguments: tuple[str, ...], text: str
) -> None:
    line = tidelog_failure("tier", "restore", "tides", *arguments, *bucket_options(source.tier), code=2)
    assert text in line
