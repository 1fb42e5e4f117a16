"""Comparison of the objects in the bucket with the metadata. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from uuid import UUID

from tidelog.protocol.ids import TopicPartition
from tidelog.remote.inspection.findings import Finding, Kind
from tidelog.remote.objects.layout.manifest import SegmentManifest
from tidelog.remote.objects.layout.object_keys import SegmentKeys, parse_key
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata


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
    for key, expected in expected_sizes(keys, manifest).items():
        size = sizes[key]
        if size is None:
            yield Finding.of_segment(Kind.MISSING_OBJECT, segment, keys.display_name(key))
        elif size != expected:
            detail = f"{size} bytes, in the manifest it is {expected}"
            yield Finding.of_segment(Kind.WRONG_SIZE, segment, keys.display_name(key), detail)
    log_bytes = manifest.chunk_index.original_file_size
    if log_bytes != segment.segment_size_bytes:
        detail = f"a log of {log_bytes} bytes, in the metadata it is {segment.segment_size_bytes}"
        yield Finding.of_segment(Kind.WRONG_SIZE, segment, keys.display_name(keys.manifest), detail)


def orphan_findings(
    listed: Iterable[str],
    expected: Iterable[str],
    deleted: Collection[UUID],
    *,
    name: TopicPartition,
    prefix: str,
    display_name: Callable[[str], str] = str,
) -> list[Finding]:
    """Return findings about those of the `listed` keys of partition `name` that are not `expected`.

    `deleted` are the ids of deleted segments; `display_name` returns a key in the form that output may show.
    """
    findings = []
    for key in sorted(set(listed) - set(expected)):
        parsed = parse_key(key, prefix)
        if parsed is None:
            findings.append(Finding(Kind.FOREIGN_OBJECT, name, display_name(key)))
            continue
        is_deleted = parsed.segment_id in deleted
        detail = "its segment was deleted" if is_deleted else "its copy is not in the metadata"
        findings.append(Finding(Kind.ORPHAN, name, display_name(key), detail, parsed.segment_id))
    return findings
