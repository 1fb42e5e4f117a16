"""The sources of `tidelog tier`: a cluster, and the bucket of its brokers (shell)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.admin import with_admin
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import key_values
from tidelog.clients.admin.admin import Admin
from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from tidelog.remote.inspection.bucket import Bucket
    from tidelog.remote.inspection.cluster import ClusterView

_PREFIX_KEY: Final = "remote.log.storage.manager.impl.prefix"
_PREFIX: Final = "rsm.config."
_BACKEND: Final = "storage.backend.class"
_DELETED: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_ATTEMPTS_MAX: Final = 5

FsckTopics = Annotated[list[str], typer.Argument(metavar="[TOPIC]...", help="The names of the topics.")]
Everything = Annotated[
    bool, typer.Option("-a", "--all", help="All tiered topics, and leftovers of other topics.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Check only the bucket, without brokers.")]
Patience = Annotated[
    int,
    typer.Option(
        "--patience",
        metavar="SECONDS",
        min=0,
        help="The time after which an unfinished copy or deletion is a finding.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A broker's properties with the settings of the storage manager (rsm.config.).",
    ),
]
Location = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="LOCATION",
        help="The bucket: s3://BUCKET/PREFIX or a directory; --config and -C have further settings.",
    ),
]
StorageValues = Annotated[
    list[str],
    typer.Option(
        "-C",
        metavar="KEY=VALUE",
        help="A setting of the storage manager, with or without rsm.config., such as storage.root=/tier.",
    ),
]


def storage_values(
    file: Path | None, arguments: Sequence[str], location: str | None = None
) -> dict[str, str]:
    """Return the storage manager's settings without prefix.

    `arguments` overrides `location`, which overrides `file`.
    """
    from tidelog.base.properties import parse_properties
    from tidelog.security.config_providers import resolve_variables

    values: dict[str, str] = {}
    if file is not None:
        try:
            properties = resolve_variables(parse_properties(file.read_text()), os.environ)
        except OSError as error:
            raise UsageFailure(f"--config {file}: {error.strerror or error}") from error
        prefix = properties.get(_PREFIX_KEY, _PREFIX)
        values = {
            key.removeprefix(prefix): text for key, text in properties.items() if key.startswith(prefix)
        }
        if not values and not arguments and location is None:
            raise UsageFailure(f"--config {file}: no key begins with {prefix}")
    explicit_values = {key.removeprefix(_PREFIX): text for key, text in key_values(arguments, "-C").items()}
    located_values = {} if location is None else location_values(location)
    return {**values, **located_values, **explicit_values}


def location_values(location: str) -> dict[str, str]:
    """Return the settings of the storage manager for s3://BUCKET/PREFIX or a directory."""
    scheme, found, path = location.partition("://")
    if not found:
        return {_BACKEND: "filesystem", "storage.root": str(Path(location).absolute())}
    if scheme != "s3":
        raise UsageFailure(f"--from {location}: allowed is s3://BUCKET/PREFIX or a directory")
    bucket, _, prefix = path.partition("/")
    values = {_BACKEND: "s3", "storage.s3.bucket.name": bucket}
    return {**values, "key.prefix": prefix} if prefix else values


@contextmanager
def open_bucket(values: dict[str, str]) -> Iterator[Bucket]:
    """Open the bucket of these settings. Errors: ConfigError; UsageFailure if there are no settings."""
    if not values:
        raise UsageFailure(
            "no bucket: give --config FILE, or -C storage.backend.class=... and the settings of the backend"
        )
    from tidelog.remote.inspection.bucket import Bucket

    bucket = Bucket.open(values)
    try:
        yield bucket
    finally:
        bucket.close()


def gather(
    cluster: ClusterConnection,
    names: Sequence[str] | None,
    numbers: Sequence[int] | None = None,
    *,
    whole_history: bool = False,
) -> ClusterView:
    """Return the brokers' view of the topics `names` (None: of all tiered topics)."""
    from tidelog.remote.inspection.cluster import Gatherer

    async def work(admin: Admin) -> ClusterView:
        gatherer = Gatherer(admin, cluster.bootstrap, cluster.client_options(ConsumerConfig))
        if names is not None:
            return await gatherer.view(names, numbers, whole_history=whole_history)
        attempts = 0
        while True:
            topics = await gatherer.tiered_topics()
            try:
                return await gatherer.view(topics, whole_history=whole_history)
            except KafkaError as error:
                # A topic may be deleted after it was listed.
                attempts += 1
                if error.code not in _DELETED or attempts == _ATTEMPTS_MAX:
                    raise

    return with_admin(cluster, work)


def gather_named(cluster: ClusterConnection, text: str) -> ClusterView:
    """Return the brokers' view of TOPIC, or of TOPIC-PARTITION if no topic has the whole name."""
    topic, number = parse_partition_name(text)
    if number is None:
        return gather(cluster, [text])
    try:
        return gather(cluster, [text])
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    return gather_one(cluster, topic, number)


def gather_one(cluster: ClusterConnection, topic: str, number: int) -> ClusterView:
    """Return the brokers' view of one partition; raise KafkaError if it does not exist."""
    cluster_view = gather(cluster, [topic], [number])
    if not cluster_view.partitions:
        text = f"topic {topic!r} has no partition {number}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return cluster_view


def parse_partition_name(text: str) -> tuple[str, int | None]:
    """Parse `tides-3` to topic and number; the number is None if `text` does not end with one."""
    topic, dash, number = text.rpartition("-")
    if dash and topic and number.isdecimal():
        return topic, int(number)
    return text, None
