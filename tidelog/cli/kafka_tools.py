"""Kafka's tools by their names and options, for health checks and scripts: `/opt/kafka/bin` of the image.

    python -m tidelog.cli.kafka_tools kafka-topics --bootstrap-server localhost:9092 --list

A tool is translated to a `tidelog` command. Options without a counterpart are wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final

Options = argparse.Namespace
TAB: Final = r"\t"
"""The default separator of key and value, as `tidelog produce` and `consume` read it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tool that the first argument names, with the other arguments."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = words[0].rpartition("/")[2].removesuffix(".sh") if words else ""
    if name not in TOOLS:
        print(f"unknown tool {name!r}; the tools are: {', '.join(TOOLS)}", file=sys.stderr)
        sys.exit(2)
    # Imported here: wrong usage does not need the commands.
    from tidelog.cli.main import main as run

    run(TOOLS[name](words[1:]))


def _topics(arguments: Sequence[str]) -> list[str]:
    parser = _parser("kafka-topics")
    _add_actions(parser, "list", "create", "describe", "alter", "delete")
    for option in ("--topic", "--partitions", "--replication-factor"):
        parser.add_argument(option)
    for option in ("--config", "--delete-config"):
        parser.add_argument(option, action="append", default=[])
    for option in ("--if-exists", "--if-not-exists", "--exclude-internal"):
        parser.add_argument(option, action="store_true")
    options = parser.parse_args(arguments)
    command = ["topic", options.action, *_connection(options)]
    if options.action == "list":
        return [*command, "--names", *([] if options.exclude_internal else ["--internal"])]
    if options.topic is None and options.action != "describe":
        parser.error(f"--{options.action} needs --topic")
    command += [] if options.topic is None else [options.topic]
    for name in ("partitions", "replication_factor"):
        command += _option(f"--{name.replace('_', '-')}", getattr(options, name))
    for name in ("config", "delete_config"):
        for value in getattr(options, name):
            command += [f"--{name.replace('_', '-')}", value]
    for name in ("if_exists", "if_not_exists"):
        command += [f"--{name.replace('_', '-')}"] if getattr(options, name) else []
    return command


def _console_producer(arguments: Sequence[str]) -> list[str]:
    parser = _parser("kafka-console-producer", "--broker-list")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--producer.config", dest="command_config")
    parser.add_argument("--property", "--reader-property", action="append", default=[])
    parser.add_argument("--producer-property", "--command-property", action="append", default=[])
    parser.add_argument("--compression-codec", nargs="?", const="gzip")
    options = parser.parse_args(arguments)
    command = ["produce", options.topic, *_connection(options)]
    properties = _properties(options.property)
    if properties.get("parse.key") == "true":
        command += ["--key-separator", properties.get("key.separator", TAB)]
    for text in options.producer_property:
        command += ["-X", text]
    return command + _option("--compression", options.compression_codec)


def _console_consumer(arguments: Sequence[str]) -> list[str]:
    parser = _parser("kafka-console-consumer")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--consumer.config", dest="command_config")
    parser.add_argument("--from-beginning", action="store_true")
    parser.add_argument("--property", "--formatter-property", action="append", default=[])
    parser.add_argument("--consumer-property", "--command-property", action="append", default=[])
    for option in ("--group", "--max-messages", "--partition", "--timeout-ms", "--isolation-level"):
        parser.add_argument(option)
    parser.add_argument("--offset", default="latest")
    options = parser.parse_args(arguments)
    command = ["consume", options.topic, *_connection(options)]
    starts = {"earliest": "beginning", "latest": "end"}
    start = "beginning" if options.from_beginning else starts.get(options.offset, options.offset)
    command += ["--offset", start]
    command += _format(options.property)
    for text in options.consumer_property:
        command += ["-X", text]
    command += _option("--isolation", options.isolation_level)
    for name in ("group", "max_messages", "partition", "timeout_ms"):
        command += _option(f"--{name.replace('_', '-')}", getattr(options, name))
    return command


def _console_share_consumer(arguments: Sequence[str]) -> list[str]:
    parser = _parser("kafka-console-share-consumer")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="console-share-consumer")
    parser.add_argument("--consumer.config", dest="command_config")
    parser.add_argument("--property", "--formatter-property", action="append", default=[])
    parser.add_argument("--consumer-property", "--command-property", action="append", default=[])
    for option in ("--max-messages", "--timeout-ms"):
        parser.add_argument(option)
    options = parser.parse_args(arguments)
    command = ["consume", options.topic, *_connection(options), "--share", options.group]
    command += _format(options.property)
    for text in options.consumer_property:
        command += ["-X", text]
    for name in ("max_messages", "timeout_ms"):
        command += _option(f"--{name.replace('_', '-')}", getattr(options, name))
    return command


def _consumer_groups(arguments: Sequence[str]) -> list[str]:
    return _groups("kafka-consumer-groups", "group", arguments)


def _share_groups(arguments: Sequence[str]) -> list[str]:
    return _groups("kafka-share-groups", "share-group", arguments)


def _streams_groups(arguments: Sequence[str]) -> list[str]:
    return _groups("kafka-streams-groups", "streams-group", arguments)


def _groups(tool: str, command: str, arguments: Sequence[str]) -> list[str]:
    """Translate a tool for the groups of one type; options that both have are not changed."""
    parser = _parser(tool)
    actions = ["list", "describe", "delete", "reset-offsets"]
    _add_actions(parser, *actions, *([] if command == "group" else ["delete-offsets"]))
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--state", nargs="?", const="")
    parser.add_argument("--topic", "--input-topic", action="append", default=[])
    for option in ("--members", "--offsets", "--verbose", "--dry-run"):
        parser.add_argument(option, action="store_true")
    options, others = parser.parse_known_args(arguments)
    action, connection = options.action, _connection(options)
    if action == "list":
        # As in Kafka, states are shown if any --state is given; without it, names only.
        states = [word for state in (options.state or "").split(",") if state for word in ("--state", state)]
        return [
            command,
            "list",
            *(states if options.state is not None else ["--names"]),
            *connection,
            *others,
        ]
    if not options.group:
        parser.error(f"--{action} needs --group")
    if (
        command == "share-group"
        and action == "describe"
        and not (options.members or options.state is not None)
    ):
        if len(options.group) > 1:
            parser.error("--describe of offsets needs one --group")
        action = "offsets"
    topics = options.topic
    if action != "delete-offsets":
        topics = [word for topic in topics for word in ("--topic", topic)]
    return [command, action, *options.group, *topics, *connection, *others]


def _client_metrics(arguments: Sequence[str]) -> list[str]:
    parser = _parser("kafka-client-metrics")
    _add_actions(parser, "list", "describe", "alter", "delete")
    parser.add_argument("--name")
    values = {"interval": "interval.ms", "metrics": "metrics", "match": "match"}
    for option in values:
        parser.add_argument(f"--{option}")
    options = parser.parse_args(arguments)
    if options.action == "list":
        return ["config", "list", "client-metrics", *_connection(options)]
    if options.name is None:
        parser.error(f"--{options.action} needs --name")
    command = ["client-metrics", options.name, *_connection(options)]
    if options.action == "describe":
        return ["config", "describe", *command]
    for option, key in values.items():
        value = "" if options.action == "delete" else getattr(options, option)
        if value is not None:
            # As in Kafka, an empty value resets the key.
            command += [f"{key}={value}"] if value else ["--delete", key]
    return ["config", "set", *command]


def _broker_api_versions(arguments: Sequence[str]) -> list[str]:
    return ["api-versions", *_connection(_parser("kafka-broker-api-versions").parse_args(arguments))]


TOOLS: Final[dict[str, Callable[[Sequence[str]], list[str]]]] = {
    "kafka-topics": _topics,
    "kafka-console-producer": _console_producer,
    "kafka-console-consumer": _console_consumer,
    "kafka-console-share-consumer": _console_share_consumer,
    "kafka-consumer-groups": _consumer_groups,
    "kafka-share-groups": _share_groups,
    "kafka-streams-groups": _streams_groups,
    "kafka-client-metrics": _client_metrics,
    "kafka-broker-api-versions": _broker_api_versions,
}


def _parser(name: str, *names_of_servers: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{name}.sh", allow_abbrev=False)
    parser.add_argument("--bootstrap-server", *names_of_servers, dest="bootstrap", metavar="HOST:PORT")
    parser.add_argument("--command-config", metavar="FILE")
    return parser


def _add_actions(parser: argparse.ArgumentParser, *names: str) -> None:
    actions = parser.add_mutually_exclusive_group(required=True)
    for name in names:
        actions.add_argument(f"--{name}", dest="action", action="store_const", const=name)


def _connection(options: Options) -> list[str]:
    return [
        *_option("--bootstrap-server", options.bootstrap),
        *_option("--command-config", options.command_config),
    ]


def _option(name: str, value: str | None) -> list[str]:
    return [] if value is None else [name, value]


def _format(property_texts: Sequence[str]) -> list[str]:
    """Return the option that prints keys, if the properties of the formatter request them."""
    properties = _properties(property_texts)
    if properties.get("print.key") != "true":
        return []
    return ["--format", f"%k{properties.get('key.separator', TAB)}%s\\n"]


def _properties(texts: Sequence[str]) -> dict[str, str]:
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


if __name__ == "__main__":
    main()
