"""Kafka's tools for groups and client metrics are translated to commands of Tidelog."""

from __future__ import annotations

import pytest

from tidelog.cli.kafka_tools import TOOLS

SERVER = ("--bootstrap-server", "b:9092")


@pytest.mark.parametrize(
    ("tool", "arguments", "command"),
    [
        ("kafka-consumer-groups", "--list", "group list --names"),
        ("kafka-consumer-groups", "--describe --group g --members --verbose", "group describe g"),
        (
            "kafka-consumer-groups",
            "--reset-offsets --group g --topic t --topic u:0,2 --shift-by -2 --dry-run",
            "group reset-offsets g --topic t --topic u:0,2 --shift-by -2",
        ),
        ("kafka-share-groups", "--list", "share-group list --names"),
        ("kafka-share-groups", "--list --state", "share-group list"),
        (
            "kafka-share-groups",
            "--list --state Empty,Stable",
            "share-group list --state Empty --state Stable",
        ),
        ("kafka-share-groups", "--describe --group g", "share-group offsets g"),
        ("kafka-share-groups", "--describe --group g --offsets", "share-group offsets g"),
        ("kafka-share-groups", "--describe --group g --group h --state", "share-group describe g h"),
        ("kafka-share-groups", "--delete --group g", "share-group delete g"),
        ("kafka-share-groups", "--delete-offsets --group g --topic t", "share-group delete-offsets g t"),
        (
            "kafka-share-groups",
            "--reset-offsets --group g --all-topics --to-earliest --execute",
            "share-group reset-offsets g --all-topics --to-earliest --execute",
        ),
        ("kafka-streams-groups", "--list", "streams-group list --names"),
        ("kafka-streams-groups", "--describe --group g", "streams-group describe g"),
        (
            "kafka-streams-groups",
            "--reset-offsets --group g --input-topic t --to-latest --delete-all-internal-topics",
            "streams-group reset-offsets g --topic t --to-latest --delete-all-internal-topics",
        ),
        (
            "kafka-streams-groups",
            "--delete-offsets --group g --all-input-topics",
            "streams-group delete-offsets g --all-input-topics",
        ),
        ("kafka-client-metrics", "--list", "config list client-metrics"),
        ("kafka-client-metrics", "--describe --name n", "config describe client-metrics n"),
        (
            "kafka-client-metrics",
            "--alter --name n --interval 5000 --metrics a.,b. --match client_id=c",
            "config set client-metrics n interval.ms=5000 metrics=a.,b. match=client_id=c",
        ),
        (
            "kafka-client-metrics",
            "--delete --name n",
            "config set client-metrics n --delete interval.ms --delete metrics --delete match",
        ),
        (
            "kafka-console-share-consumer",
            "--topic t --group g --max-messages 3 --timeout-ms 100 --property print.key=true",
            r"consume t --share g --format %k\t%s\n --max-messages 3 --timeout-ms 100",
        ),
        ("kafka-console-share-consumer", "--topic t", "consume t --share console-share-consumer"),
    ],
)
def test_a_tool_becomes_a_command(tool: str, arguments: str, command: str) -> None:
    translated = TOOLS[tool]([*SERVER, *arguments.split(" ")])
    index = translated.index(SERVER[0])
    assert translated[index : index + 2] == list(SERVER)
    assert translated[:index] + translated[index + 2 :] == command.split(" ")


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("kafka-share-groups", "--describe", "--describe needs --group"),
        ("kafka-share-groups", "--describe --group g --group h", "needs one --group"),
        ("kafka-streams-groups", "--list --describe", "not allowed with argument"),
        ("kafka-client-metrics", "--alter --interval 1", "--alter needs --name"),
    ],
)
def test_wrong_usage_is_explained(
    tool: str, arguments: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        TOOLS[tool](arguments.split(" "))
    assert exit.value.code == 2
    assert text in capsys.readouterr().err
