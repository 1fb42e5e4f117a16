"""Tables on a terminal of 80 columns, with names of any length, and the results of changes as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from typer.main import get_command

from tests.support.cli import TERMINAL_WIDTH, tidelog, tidelog_output
from tidelog.cli.app import COMMANDS
from tidelog.cli.output import print_table
from tidelog.clients.consumer.consumer import Consumer
from tidelog.testing.embedded import EmbeddedCluster

LONG_TOPIC = "tides-of-the-northern-harbour." * 7
LONG_GROUP = "readers of the northern harbour, " * 7
COMMANDS_WITHOUT_RESULT = {
    "dev", "broker", "produce", "cluster start", "cluster logs", "storage random-uuid", "console",
}  # fmt: skip
"""Commands that run until they are stopped, or print only what they were asked for."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run a cluster whose topic, group, client and user have long names."""
    with EmbeddedCluster() as cluster:
        cluster.create_topics({LONG_TOPIC: 2})

        async def join() -> None:
            servers = cluster.bootstrap_servers
            async with Consumer(servers, group_id=LONG_GROUP, client_id="c" * 100) as consumer:
                consumer.subscribe([LONG_TOPIC])
                while not consumer.assignment():
                    await consumer.poll(timeout_ms=100)
                await consumer.commit(dict.fromkeys(consumer.assignment(), 0))

        asyncio.run(join())
        quota = ("quota", "alter", "producer_byte_rate=123456789012", "--client-id", "c" * 100)
        tidelog_output(*quota, bootstrap=cluster.bootstrap_servers)
        yield cluster


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    "command",
    [
        "topic list", "topic describe", f"topic log-dirs {LONG_TOPIC}", "group list",
        "group describe GROUP", "cluster info", "cluster health", "log-dirs", "api-versions",
        "features describe", "quota describe", f"config describe topic {LONG_TOPIC} --all", "broker list",
        "quorum describe", "quorum describe --replication", "transactions list",
    ],
)  # fmt: skip
def test_tables_fit_in_80_columns(command: str, cluster: EmbeddedCluster) -> None:
    arguments = [LONG_GROUP if each == "GROUP" else each for each in command.split()]
    result = tidelog(*arguments, bootstrap=cluster.bootstrap_servers)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines
    # A line of its own for a whole name is no table.
    tables = [line for line in lines if LONG_TOPIC not in line and LONG_GROUP not in line]
    assert tables
    assert [line for line in tables if len(line.rstrip()) > TERMINAL_WIDTH] == []


@pytest.mark.usefixtures("terminal")
def test_numbers_are_never_folded(capsys: pytest.CaptureFixture[str]) -> None:
    offset = 9_223_372_036_854_775_807
    print_table(("topic", "start offset", "end offset"), [(LONG_TOPIC, 0, offset)])
    lines = capsys.readouterr().out.splitlines()
    assert any(str(offset) in line for line in lines)
    parts = (line.split()[0] for line in lines if "OFFSET" not in line)
    assert "".join(parts) == LONG_TOPIC
    assert max(map(len, lines)) <= TERMINAL_WIDTH


@pytest.mark.usefixtures("terminal")
def test_a_table_with_too_many_columns_is_printed_as_lists(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [f"column {number}" for number in range(8)]
    print_table(columns, [[10**14 + number for number in range(8)]] * 2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"COLUMN 0  {10**14}"
    assert lines[8] == ""
    assert len(lines) == 17


def commands() -> Iterator[tuple[str, set[str]]]:
    """Yield the name of each command with its options."""

    def of(command: Any, name: str) -> Iterator[tuple[str, set[str]]]:
        subcommands = getattr(command, "commands", {})
        for subname, subcommand in subcommands.items():
            yield from of(subcommand, f"{name} {subname}")
        if not subcommands:
            yield name, {option for parameter in command.params for option in parameter.opts}

    for name, command in COMMANDS.items():
        yield from of(get_command(import_module(f"tidelog.cli.{command.module}").app), name)


def test_every_command_prints_json_on_request() -> None:
    without_json = {name for name, options in commands() if "--json" not in options}
    assert without_json == COMMANDS_WITHOUT_RESULT


def test_changes_are_reported_as_json(cluster: EmbeddedCluster) -> None:
    def result(*arguments: str) -> Any:
        return json.loads(tidelog_output(*arguments, "--json", bootstrap=cluster.bootstrap_servers))

    tidelog_output("topic", "create", "moons", bootstrap=cluster.bootstrap_servers)
    assert result("topic", "alter", "moons", "-p", "2") == {"altered": "moons"}
    setting = ("topic", "moons", "retention.ms=1000")
    assert result("config", "set", *setting) == {"altered": "moons", "kind": "topic"}
    assert result("topic", "delete", "moons") == [{"deleted": "moons"}]
    assert result("quota", "alter", "producer_byte_rate=1", "--user", "alice") == {
        "altered": "user alice",
        "quotas": {"producer_byte_rate": 1.0},
        "dry_run": False,
    }
    assert result("quota", "remove", "--user", "alice")["quotas"] == ["producer_byte_rate"]
