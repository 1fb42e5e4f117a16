"""Comparison of the objects in the bucket with the metadata. Pure.

    <prefix><topic>-<topic id>/<partition>/<20-digit offset>-<segment id>.{log,indexes,rsm-manifest}

Source: ObjectKeyFactory of Aiven's RemoteStorageManager.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.ids import Offset, TopicPartition, uuid_from_text, uuid_text
from tidelog.remote.inspection.findings import Finding, Kind
from tidelog.remote.objects.layout.manifest import SegmentManifest
from tidelog.remote.objects.layout.object_keys import SegmentKeys
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition

MANIFEST_SUFFIX: Final = "rsm-manifest"

_ID: Final = r"[A-Za-z0-9_-]{22}"
_KEY: Final = re.compile(
    rf"(?P<topic>.+)-(?P<topic_id>{_ID})/(?P<partition>\d+)/"
    rf"(?P<offset>\d{{20}})-(?P<segment_id>{_ID})\.(?P<suffix>log|indexes|{MANIFEST_SUFFIX})"
)


class ObjectName(NamedTuple):
    """The parts of the key of a segment's object."""

    partition: TopicIdPartition
    start_offset: Offset
    segment_id: UUID
    suffix: str


def partition_prefix(prefix: str, partition: TopicIdPartition) -> str:
    """Return the common prefix of the keys of a partition."""
    return f"{prefix}{partition.topic}-{uuid_text(partition.topic_id)}/{partition.partition}/"


def parse_key(key: str, prefix: str) -> ObjectName | None:
    """Return the parts of `key`; None if it is not the key of a segment's object."""
    if not key.startswith(prefix):
        return None
    found = _KEY.fullmatch(key, len(prefix))
    if found is None:
        return None
    topic_id, number = uuid_from_text(found["topic_id"]), int(found["partition"])
    partition = TopicIdPartition(topic_id, found["topic"], number)
    return ObjectName(partition, int(found["offset"]), uuid_from_text(found["segment_id"]), found["suffix"])


def expected_sizes(keys: SegmentKeys, manifest: SegmentManifest) -> dict[str, int]:
    """Return the sizes in bytes of log and indexes according to the manifest."""
    chunks = manifest.chunk_index
    log_bytes = chunks.chunk(chunks.count - 1).transformed_end if chunks.count else 0
    index_bytes = max((place.position + place.size for place in manifest.indexes.values()), default=0)
    return {keys.log: log_bytes, keys.indexes: index_bytes}


def size_findings(
    segment: RemoteLogSegmentMetadata,
    keys: SegmentKeys,
    manifest: SegmentManifest,
    sizes: Mapping[str, int | None],
) -> Iterator[Finding]:
    """Return findings about objects of `segment` that are missing or have another size.

    `sizes` has the size of each object by key, None for a missing one.
    """
    name, segment_id = segment.topic_id_partition.topic_partition, segment.remote_log_segment_id.id
    for key, expected in expected_sizes(keys, manifest).items():
        size = sizes[key]
        if size is None:
            yield Finding(Kind.MISSING_OBJECT, name, keys.display_name(key), segment=segment_id)
        elif size != expected:
            detail = f"{size} bytes, in the manifest it is {expected}"
            yield Finding(Kind.WRONG_SIZE, name, keys.display_name(key), detail, segment_id)
    log_bytes = manifest.chunk_index.original_file_size
    if log_bytes != segment.segment_size_bytes:
        detail = f"a log of {log_bytes} bytes, in the metadata it is {segment.segment_size_bytes}"
        yield Finding(Kind.WRONG_SIZE, name, keys.display_name(keys.manifest), detail, segment_id)


def orphan_findings(
    listed: Iterable[str],
    named: Iterable[str],
    deleted: Iterable[UUID],
    *,
    name: TopicPartition,
    prefix: str,
    display_name: Callable[[str], str] = str,
) -> list[Finding]:
    """Return findings about those of the `listed` keys of one partition that are not in `named`."""
    known, deleted_ids = set(named), set(deleted)
    found = []
    for key in sorted(set(listed) - known):
        parsed = parse_key(key, prefix)
        if parsed is None:
            found.append(Finding(Kind.FOREIGN_OBJECT, name, display_name(key)))
            continue
        detail = (
            "its segment was deleted"
            if parsed.segment_id in deleted_ids
            else "its copy is not in the metadata"
        )
        found.append(Finding(Kind.ORPHAN, name, display_name(key), detail, parsed.segment_id))
    return found
