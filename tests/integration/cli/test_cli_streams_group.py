"""`tidelog streams-group`, and `tidelog group` with a streams group."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from tests.support.cli import TERMINAL_WIDTH, tidelog, tidelog_failure, tidelog_output
from tests.support.groups.streams_application import EAGER_STREAMS, MEMBER, PARTITIONS, Application
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

LINES: Final = 3
TO_EARLIEST: Final = ("--to-earliest", "--execute")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Run a node with the source topic, which has three lines in partition 0."""
    with EmbeddedCluster(config=EAGER_STREAMS) as cluster:
        servers = cluster.bootstrap_servers
        tidelog_output("topic", "create", "lines", "-p", str(PARTITIONS), bootstrap=servers)
        tidelog_output("topic", "create", "other", bootstrap=servers)
        tidelog_output("produce", "lines", "--partition", "0", stdin=b"a\nb\nc\n", bootstrap=servers)
        application = Application(servers, "any")
        wait_until(application.has_coordinator)
        application.close()
        yield servers


@pytest.fixture
def application(servers: str) -> Iterator[Application]:
    """Run an application that has all tasks."""
    application = Application(servers, f"words-{uuid4().hex[:6]}")
    application.start()
    yield application
    application.close()


def test_a_group_is_listed_and_described_with_its_topology_tasks_and_lag(application: Application) -> None:
    listed = json.loads(tidelog_output("streams-group", "list", "--json", bootstrap=application.servers))
    states = {group["group_id"]: group["state"] for group in listed}
    assert states[application.name] == "Stable"
    document = application.describe()
    assert (document["state"], document["topology_epoch"]) == ("Stable", 0)
    assert document["subtopologies"][1] == {
        "subtopology_id": "1",
        "source_topics": [],
        "repartition_source_topics": [application.repartition],
        "changelog_topics": [application.changelog],
    }
    (member,) = document["members"]
    assert (member["member_id"], member["process_id"]) == (MEMBER, "process")
    assert member["tasks"] == member["target_tasks"]
    assert member["tasks"] == {"active": {"0": [0, 1], "1": [0, 1]}, "standby": {}, "warmup": {}}
    assert {(each["topic"], each["partition"]): each["lag"] for each in document["partitions"]} == {
        ("lines", 0): LINES,
        ("lines", 1): 0,
        (application.repartition, 0): 0,
        (application.repartition, 1): 0,
    }
    text = application.run("describe")
    assert f"total lag    {LINES}" in text
    assert [MEMBER, "active", "1", "0,1", "0,1"] in [line.split() for line in text.splitlines()]


@pytest.mark.usefixtures("terminal")
def test_tables_of_streams_groups_fit_in_80_columns(application: Application) -> None:
    for line in application.run("describe").splitlines():
        assert len(line.rstrip()) <= TERMINAL_WIDTH, line


def test_source_topics_are_reset_only_with_execute(application: Application, tmp_path: Path) -> None:
    assert "it is Stable and has 1 member" in application.failure(
        "reset-offsets", "--topic", "lines", *TO_EARLIEST, code=2
    )
    application.stop()
    planned = tidelog(
        "streams-group", "reset-offsets", application.name, "--topic", "lines", "--to-latest",
        "--delete-all-internal-topics", bootstrap=application.servers,
    )  # fmt: skip
    assert [line.split()[-1] for line in planned.stdout.splitlines()[1:]] == [str(LINES), "0"]
    assert "dry run: --execute resets 2 offsets" in planned.stderr
    assert application.changelog in planned.stderr
    assert application.committed() == {}
    assert application.topics() == {application.repartition, application.changelog}
    both = ("--topic", "lines", "--topic", application.repartition)
    application.run("reset-offsets", *both, "--to-latest", "--execute")
    application.run("reset-offsets", "--all-topics", "--shift-by", "-1", "--execute")
    assert application.committed() == {
        "lines-0": LINES - 1, "lines-1": 0,
        f"{application.repartition}-0": 0, f"{application.repartition}-1": 0,
    }  # fmt: skip
    path = tmp_path / "offsets.csv"
    path.write_text("lines,0,1\n")
    application.run("reset-offsets", "--from-file", str(path), "--execute")
    assert application.committed()["lines-0"] == 1
    application.run("reset-offsets", "--input-topic", "lines:0", *TO_EARLIEST)
    assert application.committed()["lines-0"] == 0


def test_internal_topics_are_deleted_with_a_reset_on_request(application: Application) -> None:
    application.stop()
    reset = ("reset-offsets", "--topic", "lines", *TO_EARLIEST)
    assert "the internal topics of group" in application.failure(
        *reset, "--delete-internal-topic", "other", code=2
    )
    assert "is not part of the group" in application.failure(
        "reset-offsets", "--topic", "other", *TO_EARLIEST, code=2
    )
    text = application.run(*reset, "--delete-internal-topic", application.changelog)
    assert text.splitlines()[-1] == f"deleted the internal topic {application.changelog}"
    assert application.topics() == {application.repartition}
    repartition = ("--delete-internal-topic", application.repartition)
    assert json.loads(application.run(*reset, *repartition, "--json")) == {
        "partitions": [
            {"topic": "lines", "partition": index, "committed_offset": 0, "new_offset": 0}
            for index in range(PARTITIONS)
        ],
        "deleted_internal_topics": [application.repartition],
    }
    assert application.topics() == set()


def test_offsets_are_deleted_by_partition_and_for_all_source_topics(application: Application) -> None:
    application.stop()
    application.run("reset-offsets", "--topic", "lines", *TO_EARLIEST)
    application.start()
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in application.failure("delete-offsets", "lines:0")
    application.stop()
    assert application.run("delete-offsets", "lines:0") == "deleted the offset of lines-0\n"
    deleted = application.run("delete-offsets", "--all-input-topics", "--json")
    assert json.loads(deleted) == [{"deleted": "lines-1"}]
    assert application.committed() == {}
    assert "no committed offsets" in application.failure("delete-offsets", "--all-topics", code=2)


def test_a_group_is_deleted_with_its_internal_topics_on_request(application: Application) -> None:
    assert "NON_EMPTY_GROUP" in application.failure("delete", "--delete-all-internal-topics")
    assert application.topics() == {application.repartition, application.changelog}
    application.stop()
    assert application.run("delete", "--delete-all-internal-topics").splitlines() == [
        f"deleted {application.name}",
        f"deleted the internal topic {application.changelog}",
        f"deleted the internal topic {application.repartition}",
    ]
    assert application.topics() == set()
    for command in (("describe",), ("delete",), ("reset-offsets", "--topic", "lines", *TO_EARLIEST)):
        assert application.name in application.failure(*command)


def test_a_topic_with_another_name_than_kafka_streams_chooses_is_kept(servers: str) -> None:
    application = Application(servers, f"words-{uuid4().hex[:6]}", changelog="counts-of-all")
    application.start()
    application.stop()
    deleted = tidelog(
        "streams-group", "delete", application.name, "--delete-all-internal-topics", bootstrap=servers
    )
    assert deleted.exit_code == 0
    assert "'counts-of-all' is not deleted" in deleted.stderr
    assert application.topics() == {"counts-of-all"}
    application.close()


def test_tidelog_group_lists_describes_resets_and_deletes_a_streams_group(application: Application) -> None:
    def run(*arguments: str) -> str:
        return tidelog_output("group", *arguments, bootstrap=application.servers)

    name = application.name
    assert name in run("list", "--type", "streams", "--names").split()
    described = run("describe", name)
    assert "type         streams" in described
    assert "assignor     sticky" in described
    (document,) = json.loads(run("describe", name, "--json"))
    assert (document["type"], document["state"]) == ("streams", "Stable")
    (member,) = document["members"]
    assert (member["member_id"], member["protocol"]) == (MEMBER, "streams")
    application.stop()
    run("reset-offsets", name, "--topic", "lines", *TO_EARLIEST)
    (document,) = json.loads(run("describe", name, "--json"))
    assert [each["committed_offset"] for each in document["partitions"]] == [0, 0]
    assert document["total_lag"] == LINES
    run("delete", name)
    assert name not in run("list", "--type", "streams", "--names").split()


def test_a_consumer_group_is_no_streams_group(servers: str) -> None:
    reset = ("group", "reset-offsets", "readers", "--topic", "lines", *TO_EARLIEST)
    tidelog_output(*reset, bootstrap=servers)
    for command in ("describe", "delete"):
        assert "readers" in tidelog_failure("streams-group", command, "readers", bootstrap=servers)
    assert "readers" in tidelog_output("group", "list", bootstrap=servers)
