"""The options of `tidelog tier restore`."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from tidelog.cli.failures import UsageFailure
from tidelog.protocol.ids import uuid_from_text

Execute = Annotated[bool, typer.Option("--execute", help="Restore; without it, only report.")]
TopicIds = Annotated[
    list[str],
    typer.Option("--topic-id", metavar="ID", help="The id to use of a topic that was re-created."),
]
Partitions = Annotated[
    int, typer.Option("--partitions", metavar="N", min=1, help="The least number of partitions.")
]
ReplicationFactor = Annotated[
    int, typer.Option("--replication-factor", metavar="N", help="-1 is the brokers' default.")
]
TopicConfigs = Annotated[
    list[str],
    typer.Option(
        "--topic-config",
        metavar="KEY=VALUE",
        help="A config of the topics; without one, they are kept for ever.",
    ),
]
AcceptGaps = Annotated[
    bool,
    typer.Option("--accept-gaps", help="Restore what follows the last gap, and leave out damaged segments."),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="Restore one topic as of this time, such as 2026-11-28T12:00:00Z or milliseconds; needs --as.",
    ),
]
As = Annotated[
    str | None, typer.Option("--as", metavar="TOPIC", help="The name of the new topic, with --at.")
]


def parse_topic_id(text: str) -> UUID:
    """Return the topic id in `text`. Errors: UsageFailure."""
    try:
        return uuid_from_text(text)
    except ValueError:
        raise UsageFailure(f"--topic-id {text}: a topic id has 22 characters") from None
