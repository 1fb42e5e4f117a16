"""Commands about topics, groups, configurations and the cluster, against a broker."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, Protocol
from zlib import crc32

import pytest
from confluent_kafka import Consumer

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster


class Command(Protocol):
    """One of the helpers of tests.support.cli, with the broker's address."""

    def __call__(self, *arguments: str, stdin: bytes | str | None = None) -> str: ...


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
def run(broker: EmbeddedCluster) -> Command:
    return partial(tidelog_output, bootstrap=broker.bootstrap_servers)


@pytest.fixture
def fail(broker: EmbeddedCluster) -> Any:
    return partial(tidelog_failure, bootstrap=broker.bootstrap_servers)


@pytest.fixture
def topic(run: Command, request: pytest.FixtureRequest) -> str:
    name = f"t{crc32(request.node.name.encode())}"
    run("topic", "create", name, "-p", "2")
    return name


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# --- topics


def test_a_topic_is_created_listed_described_and_deleted(run: Command) -> None:
    assert run("topic", "create", "tides", "-p", "3", "-c", "retention.ms=60000") == (
        "created tides: 3 partitions, replication factor 1\n"
    )
    assert ["tides", "3"] in [row[:2] for row in words(run("topic", "list"))]
    run("produce", "tides", "-p", "1", stdin="a\nb\n")
    described = run("topic", "describe", "tides")
    assert "config       retention.ms=60000" in described
    heading, *rows = words(described)[-4:]
    assert heading[:3] == ["PARTITION", "LEADER", "EPOCH"] and heading[-4:] == ["START", "END", "SIZE", "LAG"]
    assert [(row[0], row[1], row[6]) for row in rows] == [("0", "1", "0"), ("1", "1", "2"), ("2", "1", "0")]
    assert run("topic", "delete", "tides") == "deleted tides\n"
    assert "tides" not in run("topic", "list")


def test_topics_in_json_have_the_fields_for_scripts(run: Command) -> None:
    created = json.loads(
        run("topic", "create", "j1", "j2", "-p", "1", "-c", "max.message.bytes=2000", "--json")
    )
    assert [(topic["name"], topic["num_partitions"]) for topic in created] == [("j1", 1), ("j2", 1)]
    listed = {topic["name"]: topic for topic in json.loads(run("topic", "list", "--json"))}
    assert listed["j1"]["topic_id"] == created[0]["topic_id"]
    (described,) = json.loads(run("topic", "describe", "j1", "--json"))
    assert described["configs"] == {"max.message.bytes": "2000"}
    (partition,) = described["partitions"]
    assert (partition["leader"], partition["replicas"], partition["log_end_offset"]) == (1, [1], 0)


def test_if_not_exists_accepts_an_existing_topic(run: Command, fail: Any, topic: str) -> None:
    assert "[TOPIC_ALREADY_EXISTS]" in fail("topic", "create", topic)
    assert run("topic", "create", topic, "--if-not-exists") == ""


def test_a_dry_run_creates_nothing(run: Command, fail: Any) -> None:
    assert run("topic", "create", "dry", "-p", "2", "--dry-run").startswith("would create dry: 2 partitions")
    assert "dry" not in run("topic", "list")
    assert "[INVALID_CONFIG]" in fail("topic", "create", "dry", "--dry-run", "-c", "cleanup.policy=nope")


def test_valid_topics_are_processed_although_one_fails(fail: Any, run: Command, topic: str) -> None:
    assert "'missing'" in fail("topic", "delete", "missing", topic)
    assert topic not in run("topic", "list")
    assert run("topic", "delete", "missing", "--if-exists") == ""


def test_a_topic_is_altered(run: Command, fail: Any, topic: str) -> None:
    run("topic", "alter", topic, "-p", "4", "-c", "cleanup.policy=compact", "-c", "segment.ms=1000")
    run("topic", "alter", topic, "-d", "segment.ms")
    (described,) = json.loads(run("topic", "describe", topic, "--json"))
    assert (len(described["partitions"]), described["configs"]) == (4, {"cleanup.policy": "compact"})
    assert "[INVALID_PARTITIONS]" in fail("topic", "alter", topic, "-p", "1")
    assert "nothing to change" in fail("topic", "alter", topic, code=2)
    assert "--config 'x'" in fail("topic", "alter", topic, "-c", "x", code=2)


def test_internal_topics_are_listed_on_request(run: Command, topic: str) -> None:
    run("consume", topic, "-g", "own", "-e")
    assert "__consumer_offsets" not in run("topic", "list")
    assert "__consumer_offsets" in run("topic", "list", "--internal")


# --- groups


def test_a_group_is_listed_with_its_lag_and_deleted(run: Command, fail: Any, topic: str) -> None:
    run("produce", topic, "-p", "0", stdin="a\nb\nc\n")
    run("consume", topic, "-g", "harbour", "-n", "1")
    assert ["harbour", "Empty", "classic", "consumer"] in words(run("group", "list"))
    described = run("group", "describe", "harbour")
    assert "total lag    2\n" in described
    row = next(row for row in words(described) if row[:2] == [topic, "0"])
    assert row[2:5] == ["1", "3", "2"]
    (document,) = json.loads(run("group", "describe", "harbour", "--json"))
    entry = next(entry for entry in document["partitions"] if entry["partition"] == 0)
    assert (entry["committed_offset"], entry["log_end_offset"], entry["lag"]) == (1, 3, 2)
    assert run("group", "delete", "harbour") == "deleted harbour\n"
    assert "harbour" not in run("group", "list")
    assert "[GROUP_ID_NOT_FOUND]" in fail("group", "delete", "harbour")


def test_groups_are_listed_by_state(run: Command, topic: str) -> None:
    run("consume", topic, "-g", "states", "-e")
    assert [group["group_id"] for group in json.loads(run("group", "list", "-s", "Stable", "--json"))] == []
    assert "states" in run("group", "list", "-s", "Empty")


def test_a_consumer_group_is_shown_with_type_epochs_and_members(
    run: Command, broker: EmbeddedCluster, topic: str
) -> None:
    member = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "modern",
            "client.id": "pier",
            "group.protocol": "consumer",
        }
    )
    try:
        member.subscribe([topic])
        wait_until(lambda: member.poll(0.1) or member.assignment())
        assert ["modern", "Stable", "consumer", "consumer"] in words(run("group", "list", "-t", "consumer"))
        assert "modern" not in run("group", "list", "--type", "classic")
        described = run("group", "describe", "modern")
        assert (
            "type         consumer\nepochs       group 2, assignment 2\nassignor     uniform\n" in described
        )
        row = next(row for row in words(described) if "pier" in row)
        assert row[1:] == [
            "2",
            "consumer",
            "pier",
            str(len(member.assignment())),
            str(len(member.assignment())),
        ]
        (document,) = json.loads(run("group", "describe", "modern", "--json"))
        assert (document["type"], document["group_epoch"], document["assignment_epoch"]) == ("consumer", 2, 2)
    finally:
        member.close()


# --- cluster and configurations


def test_cluster_info_shows_brokers_and_health(run: Command, broker: EmbeddedCluster) -> None:
    lines = words(run("cluster", "info"))
    assert ["controller", "1"] in lines
    assert ["without", "leader", "0"] in lines
    host, _, port = broker.bootstrap_servers.partition(":")
    assert lines[-1] == ["1", host, port, "-"]
    info = json.loads(run("cluster", "info", "--json"))
    assert (info["brokers"][0]["port"], info["under_replicated"]) == (int(port), 0)


def test_configurations_are_shown_and_changed(run: Command, fail: Any, topic: str) -> None:
    assert run("config", "set", "topic", topic, "retention.ms=5000") == f"altered topic {topic}\n"
    shown = {
        entry["name"]: entry for entry in json.loads(run("config", "describe", "topic", topic, "--json"))
    }
    assert (shown["retention.ms"]["value"], shown["retention.ms"]["source"]) == ("5000", "topic")
    assert "segment.bytes" not in shown
    assert ["segment.bytes", "1073741824", "default"] in words(
        run("config", "describe", "topic", topic, "-a")
    )
    run("config", "set", "topic", topic, "--delete", "retention.ms")
    assert "retention.ms" not in run("config", "describe", "topic", topic)
    assert "[INVALID_CONFIG]" in fail("config", "set", "topic", topic, "retention.ms=soon")
    assert "nothing to change" in fail("config", "set", "topic", topic, code=2)
    assert "[UNKNOWN_TOPIC_OR_PARTITION]" in fail("config", "describe", "topic", "missing")
    assert "node.id" in run("config", "describe", "broker", "1", "--all")


def test_config_shows_and_changes_the_levels_of_loggers(run: Command, fail: Command) -> None:
    logger = logging.getLogger("tests.of.the.command")
    try:
        run("config", "set", "broker-logger", "1", f"{logger.name}=TRACE")
        described = run("config", "describe", "broker-logger", "1", "--json")
        levels = {entry["name"]: entry["value"] for entry in json.loads(described)}
        assert levels[logger.name] == "TRACE"
        assert "root" in levels
        run("config", "set", "broker-logger", "1", "--delete", logger.name)
        assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(logging.NOTSET)
    assert "[INVALID_CONFIG]" in fail("config", "set", "broker-logger", "1", "no.such.logger=INFO")
    assert "[INVALID_CONFIG]" in fail("config", "set", "broker-logger", "1", "root=LOUD")
    assert "[INVALID_REQUEST]" in fail("config", "set", "broker-logger", "1", "--delete", "root")


# --- performance


def test_produce_and_fetch_performance_in_json(run: Command, topic: str) -> None:
    written = json.loads(run("perf", "produce", topic, "-n", "500", "-s", "100", "-z", "lz4", "--json"))
    assert (written["records"], written["bytes"]) == (500, 50_000)
    assert list(written["delivery_latency_ms"]) == ["p50", "p95", "p99", "p99.9", "max"]
    read = json.loads(run("perf", "consume", topic, "--json"))
    assert (read["records"], read["bytes"]) == (500, 50_000)
    assert json.loads(run("perf", "consume", topic, "-n", "7", "--json"))["records"] == 7


def test_produce_and_fetch_performance_as_text(run: Command, fail: Any, topic: str) -> None:
    assert "no records to read" in fail("perf", "consume", topic, code=2)
    first, second = run(
        "perf", "produce", topic, "-n", "20", "--acks", "1", "--throughput", "1000"
    ).splitlines()
    assert first.startswith("20 records in ")
    assert " MB/s" in first
    assert second.startswith("delivery latency ms: p50 ")


# --- usage errors and failures


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["topic", "create"], "tidelog topic create: Missing argument"),
        (["topic", "creat"], "tidelog topic: No such command 'creat'; did you mean 'create'"),
        (["nope"], "tidelog: No such command 'nope'."),
        (["topic", "list", "--colour"], "tidelog topic list: No such option: --colour"),
        (
            ["consume", "t", "-n", "0"],
            "tidelog consume: Invalid value for '-n' / '--count' / '--max-messages': ",
        ),
        (["consume", "t", "-f", "%y"], "tidelog: format '%y': unknown token '%y'"),
        (["consume", "t", "-o", "x"], "tidelog: 'x' is not beginning, end, stored"),
        (["consume", "t", "-o", "stored"], "tidelog: -o stored needs --group"),
        (["consume", "t", "-g", "g", "-p", "0"], "tidelog: --group assigns partitions and offsets"),
        (
            ["consume", "t", "--isolation", "none"],
            "tidelog: Invalid option: isolation_level='none'; expected",
        ),
        (["produce", "t", "-z", "brotli"], "tidelog: Invalid option: compression_type='brotli'; expected"),
        (["produce", "t", "--acks", "2"], "tidelog: Invalid option: acks='2'; expected"),
        (["produce", "t", "-K", ""], "tidelog: --key-separator is empty"),
        (["produce", "t", "-D", "\\"], "tidelog: '\\\\' ends with a lone backslash"),
        (["produce", "t", "-H", "=x"], "tidelog: --header '=x' is not name=value"),
        (
            ["topic", "list", "-b", "nowhere"],
            "tidelog: Invalid option: bootstrap_servers='nowhere'; expected",
        ),
        (["config", "describe", "planet", "x"], "tidelog config describe: Invalid value for"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_code_2(arguments: list[str], line: str) -> None:
    assert tidelog_failure(*arguments, code=2).startswith(line)


def test_an_unknown_client_option_is_named() -> None:
    assert "no.such" in tidelog_failure("consume", "t", "-X", "no.such=1", code=2)


def test_an_unavailable_cluster_is_one_line_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.cli.admin.CONNECT_TIMEOUT_MS", 300)
    line = tidelog_failure("topic", "list", "-b", "127.0.0.1:1")
    assert "127.0.0.1:1 cannot be reached" in line


def test_an_internal_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("tidelog.cli.topics.topic.with_admin", broken)
    runner_result = _invoke_without_checks("topic", "list")
    assert runner_result.exit_code == 1
    assert runner_result.stderr.splitlines() == [
        "tidelog: internal error: ZeroDivisionError: of ours (set TIDELOG_TRACEBACK=1 for the traceback)"
    ]


def _invoke_without_checks(*arguments: str) -> Any:
    from typer.testing import CliRunner

    from tidelog.cli.app import app

    return CliRunner(env={"TIDELOG_TRACEBACK": None}).invoke(app, list(arguments))


def test_help_lists_every_command_and_every_command_has_help() -> None:
    listed = tidelog_output("--help")
    for name in ("dev", "topic", "produce", "consume", "group", "cluster", "config", "log", "perf"):
        assert f"\n  {name} " in listed
        assert "Usage: tidelog " + name in tidelog_output(name, "--help")
    assert tidelog("--version").stdout.startswith("tidelog ")


# --- brokers, elections, reassignments


def test_brokers_are_listed_with_their_state(run: Command, broker: EmbeddedCluster) -> None:
    heading, row = words(run("broker", "list"))
    assert heading == ["BROKER", "HOST", "PORT", "RACK", "STATE"]
    port = broker.bootstrap_servers.rpartition(":")[2]
    assert (row[0], row[2], row[4]) == ("1", port, "serving")
    (described,) = json.loads(run("broker", "list", "--json"))
    assert (described["broker"], described["state"], described["rack"]) == (1, "serving", None)


def test_an_unknown_broker_cannot_be_unregistered(fail: Any) -> None:
    assert "99" in fail("broker", "unregister", "99")


def test_preferred_leaders_need_no_election(run: Command, fail: Any, topic: str) -> None:
    assert run("topic", "elect", topic) == "no partition needs an election\n"
    assert run("topic", "elect") == "no partition needs an election\n"
    assert json.loads(run("topic", "elect", f"{topic}:1", "--unclean", "--json")) == []
    assert "no partition 7" in fail("topic", "elect", f"{topic}:7", code=2)


def test_partitions_move_to_the_requested_replicas(run: Command, fail: Any, topic: str) -> None:
    assert (
        run("topic", "reassign", topic, "--to", "1", "--wait")
        == f"reassigned {topic}-0\nreassigned {topic}-1\n"
    )
    assert run("topic", "reassign", f"{topic}:1", "--over", "1") == f"reassigning {topic}-1\n"
    assert words(run("topic", "reassign"))[0] == ["TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"]
    assert json.loads(run("topic", "reassign", topic, "--json")) == []
    assert f"{topic}-0" in fail("topic", "reassign", f"{topic}:0", "--cancel")
    assert "9" in fail("topic", "reassign", f"{topic}:0", "--to", "9")


def test_an_invalid_reassignment_is_a_usage_error(fail: Any, topic: str) -> None:
    assert "exclude each other" in fail("topic", "reassign", topic, "--to", "1", "--cancel", code=2)
    assert "--over" in fail("topic", "reassign", topic, "--replicas", "2", code=2)
    assert "needs 2 brokers" in fail("topic", "reassign", topic, "--over", "1", "-r", "2", code=2)
    assert "not a list of numbers" in fail("topic", "reassign", topic, "--to", "one", code=2)
    assert "give the topics" in fail("topic", "reassign", "--to", "1", code=2)
