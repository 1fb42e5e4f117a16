"""What `tidelog tier` looks at: a cluster, and the bucket that its brokers write to (shell)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.admin import with_admin
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import key_values
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from tidelog.remote.inspection.bucket import Bucket
    from tidelog.remote.inspection.cluster import ClusterView

_PREFIX_KEY: Final = "remote.log.storage.manager.impl.prefix"
_PREFIX: Final = "rsm.config."
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_ATTEMPTS_MAX: Final = 5

FsckTopics = Annotated[list[str], typer.Argument(metavar="[TOPIC]...", help="Topics by name.")]
Everything = Annotated[
    bool, typer.Option("-a", "--all", help="Every tiered topic, and what is left of others.")
]
Offline = Annotated[bool, typer.Option("--offline", help="By the bucket alone, without a broker.")]
Patience = Annotated[
    int,
    typer.Option("--patience", metavar="SECONDS", min=0, help="How long a copy or a deletion may take."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A broker's properties; of them those for the storage manager (rsm.config.).",
    ),
]
StorageValues = Annotated[
    list[str],
    typer.Option(
        "-C",
        metavar="KEY=VALUE",
        help="A setting of the storage manager, with or without rsm.config., e.g. storage.root=/tier.",
    ),
]


def storage_values(file: Path | None, given: Sequence[str]) -> dict[str, str]:
    """The storage manager's settings without prefix; what is `given` counts more than the `file`."""
    from tidelog.base.properties import parse_properties

    values: dict[str, str] = {}
    if file is not None:
        try:
            properties = parse_properties(file.read_text())
        except OSError as error:
            raise UsageFailure(f"--config {file}: {error.strerror or error}") from error
        prefix = properties.get(_PREFIX_KEY, _PREFIX)
        values = {
            key.removeprefix(prefix): text for key, text in properties.items() if key.startswith(prefix)
        }
        if not values and not given:
            raise UsageFailure(f"--config {file}: no key begins with {prefix}")
    own = {key.removeprefix(_PREFIX): text for key, text in key_values(given, "-C").items()}
    return {**values, **own}


@contextmanager
def opened_bucket(values: dict[str, str]) -> Iterator[Bucket]:
    """The bucket of these settings. Errors: ConfigError; UsageFailure when there are none."""
    if not values:
        raise UsageFailure("which bucket? Give --config FILE, or -C storage.backend.class=... and its keys")
    from tidelog.remote.inspection.bucket import Bucket

    bucket = Bucket.open(values)
    try:
        yield bucket
    finally:
        bucket.close()


def gather(
    bootstrap: str,
    names: Sequence[str] | None,
    numbers: Sequence[int] | None = None,
    *,
    whole_history: bool = False,
) -> ClusterView:
    """What brokers know of the topics `names` (None: of all tiered ones)."""
    from tidelog.remote.inspection.cluster import Gatherer

    async def work(admin: Admin) -> ClusterView:
        gatherer = Gatherer(admin, bootstrap)
        if names is not None:
            return await gatherer.view(names, numbers, whole_history=whole_history)
        attempts = 0
        while True:
            topics = await gatherer.tiered_topics()
            try:
                return await gatherer.view(topics, whole_history=whole_history)
            except KafkaError as error:
                # A topic may go between the list and the look.
                attempts += 1
                if error.code not in _GONE or attempts == _ATTEMPTS_MAX:
                    raise

    return with_admin(bootstrap, work)


def gather_named(bootstrap: str, text: str) -> ClusterView:
    """What brokers know of TOPIC, or of TOPIC-PARTITION when no topic has the whole name."""
    topic, number = split_name(text)
    if number is None:
        return gather(bootstrap, [text])
    try:
        return gather(bootstrap, [text])
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    return gather_one(bootstrap, topic, number)


def gather_one(bootstrap: str, topic: str, number: int) -> ClusterView:
    """What brokers know of one partition. Errors: KafkaError when there is none."""
    found = gather(bootstrap, [topic], [number])
    if not found.partitions:
        text = f"topic {topic!r} has no partition {number}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return found


def split_name(text: str) -> tuple[str, int | None]:
    """`tides-3` as topic and number; the number is None when `text` does not end with one."""
    topic, dash, number = text.rpartition("-")
    if dash and topic and number.isdecimal():
        return topic, int(number)
    return text, None
