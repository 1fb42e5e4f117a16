"""Do the objects in the bucket fit what the metadata says? Pure.

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
    """What the key of a segment's object says."""

    partition: TopicIdPartition
    start_offset: Offset
    segment_id: UUID
    suffix: str


def partition_prefix(prefix: str, partition: TopicIdPartition) -> str:
    """What the keys of all objects of a partition begin with."""
    return f"{prefix}{partition.topic}-{uuid_text(partition.topic_id)}/{partition.partition}/"


def parse_key(key: str, prefix: str) -> ObjectName | None:
    """What `key` says; None when it is not made as keys of segments are."""
    if not key.startswith(prefix):
        return None
    found = _KEY.fullmatch(key, len(prefix))
    if found is None:
        return None
    topic_id, number = uuid_from_text(found["topic_id"]), int(found["partition"])
    partition = TopicIdPartition(topic_id, found["topic"], number)
    return ObjectName(partition, int(found["offset"]), uuid_from_text(found["segment_id"]), found["suffix"])


def expected_sizes(keys: SegmentKeys, manifest: SegmentManifest) -> dict[str, int]:
    """What log and indexes have in bytes, as the manifest says."""
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
    """Objects of one segment that are missing or of another size; `sizes` has None for what is not there."""
    name, segment_id = segment.topic_id_partition.topic_partition, segment.remote_log_segment_id.id
    for key, expected in expected_sizes(keys, manifest).items():
        size = sizes[key]
        if size is None:
            yield Finding(Kind.MISSING_OBJECT, name, keys.shown(key), segment=segment_id)
        elif size != expected:
            detail = f"{size} bytes, the manifest says {expected}"
            yield Finding(Kind.WRONG_SIZE, name, keys.shown(key), detail, segment_id)
    log_bytes = manifest.chunk_index.original_file_size
    if log_bytes != segment.segment_size_bytes:
        detail = f"a log of {log_bytes} bytes, the metadata says {segment.segment_size_bytes}"
        yield Finding(Kind.WRONG_SIZE, name, keys.shown(keys.manifest), detail, segment_id)


def orphan_findings(
    listed: Iterable[str],
    named: Iterable[str],
    deleted: Iterable[UUID],
    *,
    name: TopicPartition,
    prefix: str,
    shown: Callable[[str], str] = str,
) -> list[Finding]:
    """Those of the `listed` keys of one partition that none of the `named` ones is."""
    known, gone = set(named), set(deleted)
    found = []
    for key in sorted(set(listed) - known):
        parsed = parse_key(key, prefix)
        if parsed is None:
            found.append(Finding(Kind.FOREIGN_OBJECT, name, shown(key)))
            continue
        detail = "its segment was deleted" if parsed.segment_id in gone else "its copy was never noted"
        found.append(Finding(Kind.ORPHAN, name, shown(key), detail, parsed.segment_id))
    return found
