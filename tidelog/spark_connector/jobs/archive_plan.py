"""The files of an archive, and the plan of its next commit. Pure.

    OUTPUT/topic=tides/date=2026-01-31/commit-000000007-00003.parquet
    OUTPUT/_tidelog/tides/commits/000000007.json      the files and offsets; written last
    OUTPUT/_tidelog/tides/staging/                    exists while a commit is in progress

A commit is the offsets [start, end) of some partitions, and its number is one more than that of the last. It
is valid once its manifest exists. Files with a higher number come from a killed run, and the next run removes
them first. So each offset is archived once, and the last manifest contains where to continue.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset, uuid_from_text, uuid_text
from tidelog.spark_connector.jobs.failures import JobFailure
from tidelog.spark_connector.planning.offsets_json import Offsets, from_json_object, to_json_object
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.trigger_limits import limit_end

FORMAT: Final = 1
STATE_FOLDER: Final = "_tidelog"
_FILE: Final = re.compile(r"commit-(\d{9})-\d{5,}\.parquet")
_MANIFEST: Final = re.compile(r"(\d{9})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """One Parquet file; `path` is relative to the output, `offsets` are first and last by partition."""

    path: str
    rows: int
    size_bytes: int
    offsets: Mapping[int, tuple[Offset, Offset]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One step of an archive; `next_offsets` are those of all partitions after it.

    `topic_id` is None if brokers have no topic ids, and in old manifests.
    """

    number: int
    topic: str
    topic_id: UUID | None
    from_ms: int | None
    starts: Offsets
    next_offsets: Offsets
    files: tuple[ArchivedFile, ...]
    committed_at_ms: int

    @property
    def rows(self) -> int:
        """The number of records in its files."""
        return sum(one.rows for one in self.files)

    @property
    def size_bytes(self) -> int:
        """The number of bytes of its files."""
        return sum(one.size_bytes for one in self.files)

    def to_text(self) -> str:
        """Return the manifest."""
        value = {
            "format": FORMAT,
            "commit": self.number,
            "topic": self.topic,
            "topic_id": None if self.topic_id is None else uuid_text(self.topic_id),
            "from_ms": self.from_ms,
            "committed_at_ms": self.committed_at_ms,
            "rows": self.rows,
            "bytes": self.size_bytes,
            "start_offsets": to_json_object(self.starts),
            "next_offsets": to_json_object(self.next_offsets),
            "files": [
                {
                    "path": one.path,
                    "rows": one.rows,
                    "bytes": one.size_bytes,
                    "offsets": {str(number): list(ends) for number, ends in sorted(one.offsets.items())},
                }
                for one in self.files
            ],
        }
        return json.dumps(value, indent=1) + "\n"


def read_commit(text: str, place: str) -> Commit:
    """Return the commit of a manifest. Errors: JobFailure, which names `place`, if it is not a manifest."""
    try:
        value: dict[str, Any] = json.loads(text)
        if value["format"] != FORMAT:
            raise ValueError(f"its format is {value['format']}, and {FORMAT} is supported")
        return Commit(
            number=value["commit"],
            topic=value["topic"],
            topic_id=None if value.get("topic_id") is None else uuid_from_text(value["topic_id"]),
            from_ms=value["from_ms"],
            starts=from_json_object(value["start_offsets"]),
            next_offsets=from_json_object(value["next_offsets"]),
            files=tuple(_file(one) for one in value["files"]),
            committed_at_ms=value["committed_at_ms"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JobFailure(f"{place} is not a manifest of an archive: {error!r}") from error


def manifest_number(name: str) -> int | None:
    """Return the commit number in the name of a manifest; None for other files."""
    match = _MANIFEST.fullmatch(name)
    return None if match is None else int(match[1])


def manifest_name(number: int) -> str:
    """Return the name of a commit's manifest."""
    return f"{number:09d}.json"


def file_name(number: int, index: int) -> str:
    """Return the name of the `index`th file of a commit."""
    return f"commit-{number:09d}-{index:05d}.parquet"


def file_number(name: str) -> int | None:
    """Return the commit number in the name of a Parquet file; None for other files."""
    match = _FILE.fullmatch(name)
    return None if match is None else int(match[1])


def next_ranges(starts: Offsets, ends: Offsets, max_offsets: int) -> list[OffsetRange]:
    """Return the ranges of the next commit: about `max_offsets`, each partition by its share; or none."""
    if all(end <= starts[topic_partition] for topic_partition, end in ends.items()):
        return []
    limited_end = limit_end(max_offsets, starts, ends, {})
    return [
        OffsetRange(topic_partition, starts[topic_partition], limited_end[topic_partition])
        for topic_partition in sorted(limited_end)
        if limited_end[topic_partition] > starts[topic_partition]
    ]


def file_offsets(
    rows: Iterable[tuple[str, int, int, Offset, Offset]], sizes: Mapping[str, int]
) -> dict[str, ArchivedFile]:
    """Return files by path, from (path, partition, rows, first and last offset) and their sizes by path."""
    offsets: dict[str, dict[int, tuple[Offset, Offset]]] = {path: {} for path in sizes}
    counts = dict.fromkeys(sizes, 0)
    for path, partition, count, first, last in rows:
        offsets[path][partition] = (first, last)
        counts[path] += count
    return {
        path: ArchivedFile(path=path, rows=counts[path], size_bytes=size, offsets=offsets[path])
        for path, size in sizes.items()
    }


def require_within(files: Iterable[ArchivedFile], ranges: Iterable[OffsetRange]) -> None:
    """Raise JobFailure if a file has an offset outside `ranges`; that would be a bug of this program."""
    spans = {one.topic_partition.partition: one for one in ranges}
    for file in files:
        for partition, (first, last) in file.offsets.items():
            span = spans.get(partition)
            if span is None or first < span.start_offset or last >= span.end_offset:
                raise JobFailure(
                    f"{file.path} contains offsets {first}-{last} of partition {partition}: not requested"
                )


def require_same_start(topic: str, last: Commit | None, from_ms: int | None) -> None:
    """Raise JobFailure if the start differs from that of the archive."""
    if last is not None and from_ms is not None and from_ms != last.from_ms:
        begins = "with the first record" if last.from_ms is None else f"at {last.from_ms} ms"
        raise JobFailure(
            f"the archive of {topic} begins {begins}: --from cannot be changed; use another folder"
        )


def require_same_topic(last: Commit | None, topic_id: UUID | None) -> None:
    """Raise JobFailure if the topic was deleted and re-created after `last`: its records are others."""
    if last is None or topic_id is None or last.topic_id in (None, topic_id):
        return
    raise JobFailure(
        f"the archive is of topic {last.topic} with the id {uuid_text(last.topic_id)}, which is now "
        f"{uuid_text(topic_id)}: the topic was deleted and re-created; use another folder for it"
    )


def _file(value: Mapping[str, Any]) -> ArchivedFile:
    return ArchivedFile(
        path=value["path"],
        rows=value["rows"],
        size_bytes=value["bytes"],
        offsets={int(number): (ends[0], ends[1]) for number, ends in value["offsets"].items()},
    )
