"""The output of `tidelog tier`: partitions, segments, positions of offsets, and expiry of segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from tidelog.base.count_text import count_text
from tidelog.cli.output import NOTHING, print_table, size_text, time_text
from tidelog.protocol.ids import uuid_text
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.byte_range import ByteRange
from tidelog.remote.inspection.placing import (
    OffsetLocation,
    Place,
    UploadReason,
    pending_offset,
    upload_reasons,
)
from tidelog.remote.inspection.scheduled_deletions import (
    ScheduledDeletion,
    local_only_bytes,
    scheduled_deletions,
)
from tidelog.remote.inspection.views import PartitionView, finished_segments
from tidelog.remote.objects.layout.custom_metadata import decode_custom_metadata
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.storage.leader_epoch import epoch_spans

PARTITION_COLUMNS = ("partition", "start", "local", "remote", "end", "segments", "size", "behind")
SEGMENT_COLUMNS = ("partition", "start", "end", "epochs", "state", "bytes", "newest", "object", "custom")


def partition_document(view: PartitionView) -> dict[str, Any]:
    """Return one partition for JSON."""
    offsets, partition = view.offsets, view.partition
    visible = finished_segments(view.segments)
    behind_bytes = None if view.local_size_bytes is None else local_only_bytes(view)
    return {
        "topic": partition.topic,
        "topic_id": partition.topic_id,
        "partition": partition.partition,
        "is_tiered": view.config.remote_storage_enable,
        "leader_epoch": offsets.leader_epoch,
        "log_start_offset": offsets.log_start_offset,
        "local_log_start_offset": offsets.local_log_start_offset,
        "highest_offset_in_remote_storage": offsets.highest_offset_in_remote_storage,
        "earliest_pending_upload_offset": pending_offset(view),
        "last_stable_offset": offsets.last_stable_offset,
        "high_watermark": offsets.high_watermark,
        "log_end_offset": offsets.log_end_offset,
        "segments": len(visible),
        "remote_bytes": sum(segment.segment_size_bytes for segment in visible),
        "behind_offsets": max(0, offsets.high_watermark - pending_offset(view)),
        "behind_bytes": behind_bytes,
        "behind_segments": None if behind_bytes is None else behind_bytes // view.config.segment_bytes,
    }


def print_partitions(views: Iterable[PartitionView]) -> None:
    """Print one line for each partition: what fits in 80 columns."""
    rows = []
    for view in views:
        document = partition_document(view)
        rows.append(
            (
                view.partition.topic_partition,
                document["log_start_offset"],
                document["local_log_start_offset"],
                _remote_end(document),
                document["high_watermark"],
                document["segments"],
                size_text(document["remote_bytes"]),
                size_text(document["behind_bytes"]),
            )
        )
    print_table(PARTITION_COLUMNS, rows)


def _remote_end(document: dict[str, Any]) -> int | None:
    remote_end: int = document["highest_offset_in_remote_storage"]
    return None if remote_end < 0 else remote_end


def _print_partition(view: PartitionView) -> None:
    """Print all values of one partition, one per line."""
    document = partition_document(view)
    values = {
        "partition": view.partition.topic_partition,
        "log start offset": document["log_start_offset"],
        "local start offset": document["local_log_start_offset"],
        "last remote offset": _remote_end(document),
        "next to be copied": document["earliest_pending_upload_offset"],
        "last stable offset": document["last_stable_offset"],
        "high watermark": document["high_watermark"],
        "remote segments": document["segments"],
        "remote bytes": document["remote_bytes"],
        "behind": document["behind_offsets"],
        "behind bytes": document["behind_bytes"],
        "behind segments": document["behind_segments"],
    }
    for name, value in values.items():
        print(f"{name:<18}  {NOTHING if value is None else value}")


def segment_document(segment: RemoteLogSegmentMetadata, bucket: Bucket | None) -> dict[str, Any]:
    """Return one segment for JSON; `object_key` is the key of its log."""
    return {
        "segment_id": segment.remote_log_segment_id.id,
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "leader_epochs": {str(entry.epoch): entry.start_offset for entry in segment.segment_leader_epochs},
        "state": segment.state.name,
        "size_bytes": segment.segment_size_bytes,
        "max_timestamp_ms": segment.max_timestamp_ms,
        "event_timestamp_ms": segment.event_timestamp_ms,
        "broker_id": segment.broker_id,
        "is_txn_index_empty": segment.is_txn_index_empty,
        "object_key": object_key(segment, bucket),
        "custom_metadata": custom_text(segment),
    }


def object_key(segment: RemoteLogSegmentMetadata, bucket: Bucket | None) -> str:
    """Return the key of the segment's log object; without a bucket, the key without a prefix."""
    from tidelog.remote.objects.layout.object_keys import ObjectKeys

    keys = ObjectKeys().of(segment) if bucket is None else bucket.keys(segment)
    return keys.display_name(keys.log)


def custom_text(segment: RemoteLogSegmentMetadata) -> str | None:
    """Return custom metadata as text: fields of the bundled storage manager, otherwise hexadecimal."""
    data = segment.custom_metadata
    if not data:
        return None
    try:
        fields = decode_custom_metadata(data)._asdict()
    except ValueError:
        return data.hex()
    return " ".join(f"{name}={value}" for name, value in fields.items() if value is not None) or data.hex()


def print_segments(views: Iterable[PartitionView], bucket: Bucket | None) -> None:
    """Print one line for each segment."""
    rows = [
        (
            view.partition.topic_partition,
            segment.start_offset,
            segment.end_offset,
            ",".join(f"{entry.epoch}@{entry.start_offset}" for entry in segment.segment_leader_epochs),
            segment.state.name.lower(),
            segment.segment_size_bytes,
            time_text(segment.max_timestamp_ms),
            object_key(segment, bucket),
            custom_text(segment),
        )
        for view in views
        for segment in view.segments
    ]
    print_table(SEGMENT_COLUMNS, rows, is_wide=True)


# --- explain ------------------------------------------------------------------------------


def explain_document(
    view: PartitionView,
    place: OffsetLocation | None,
    where: ByteRange | None,
    reasons: Sequence[UploadReason],
    count: int,
) -> dict[str, Any]:
    """Return the output of `explain` for JSON."""
    return {
        **partition_document(view),
        "lineage": [{"leader_epoch": epoch, "start_offset": start} for epoch, start in view.lineage],
        "offset": None if place is None else _place_document(place, where),
        "not_tiered": [
            {
                "obstacle": reason.obstacle,
                "meaning": reason.obstacle.value,
                "detail": reason.detail,
                "since_ms": reason.since_ms,
            }
            for reason in reasons
        ],
        "departures": [
            {
                "start_offset": departure.segment.start_offset,
                "end_offset": departure.segment.end_offset,
                "segment_id": departure.segment.remote_log_segment_id.id,
                "reason": departure.reason,
                "at_ms": departure.at_ms,
                "after_bytes": departure.after_bytes,
            }
            for departure in scheduled_deletions(view, count)
        ],
    }


def not_tiered(
    view: PartitionView, place: OffsetLocation | None, store_problem: str | None
) -> list[UploadReason]:
    """Return why the requested offset, or the next pending one, is not in remote storage; empty if it is."""
    if place is not None:
        return upload_reasons(view, place.offset, store_problem) if place.place is Place.LOCAL else []
    first = pending_offset(view)
    return upload_reasons(view, first, store_problem) if first < view.offsets.high_watermark else []


def print_explanation(
    view: PartitionView,
    place: OffsetLocation | None,
    where: ByteRange | None,
    reasons: Sequence[UploadReason],
    count: int,
) -> None:
    """Print the output of `explain`."""
    _print_partition(view)
    print()
    spans = list(epoch_spans(view.lineage, view.offsets.log_end_offset))
    print_table(("leader epoch", "first offset", "last offset"), [(e, s, end - 1) for e, s, end in spans])
    if place is not None:
        print()
        _print_place(place, where)
    if reasons:
        subject = f"offset {pending_offset(view) if place is None else place.offset}"
        print(f"\n{subject} is not in remote storage:")
        for reason in reasons:
            print(f"  {_reason_text(reason)}")
    deletions = scheduled_deletions(view, count)
    if deletions:
        print("\nnext segments to expire:")
        print_table(("start", "end", "when", "reason"), [_deletion_row(view, each) for each in deletions])


def _reason_text(reason: UploadReason) -> str:
    since = None if reason.since_ms is None else f"since {time_text(reason.since_ms)}"
    values = ", ".join(filter(None, (reason.detail, since)))
    return f"{reason.obstacle.value} ({values})" if values else reason.obstacle.value


def _place_document(place: OffsetLocation, where: ByteRange | None) -> dict[str, Any]:
    segment = place.segment
    return {
        "offset": place.offset,
        "place": place.place,
        "meaning": place.place.value,
        "leader_epoch": place.epoch,
        "segment": None if segment is None else segment_document(segment, None),
        "bytes": None if where is None else asdict(where),
    }


def _print_place(place: OffsetLocation, where: ByteRange | None) -> None:
    print(f"offset {place.offset}: {place.place.value}")
    if place.epoch is not None:
        print(f"  leader epoch  {place.epoch}")
    if place.segment is not None:
        segment = place.segment
        print(f"  segment       {uuid_text(segment.remote_log_segment_id.id)}")
        print(f"  offsets       {segment.start_offset}-{segment.end_offset}")
        if where is None:
            print(f"  object        {object_key(segment, None)}")
    if where is not None:
        how = [word for word, is_so in (("zstd", where.is_compressed), ("AES", where.is_encrypted)) if is_so]
        print(f"  object        {where.key}")
        print(f"  batch         {where.base_offset}-{where.last_offset}")
        print(f"  log bytes     {where.log_start}-{where.log_end - 1}")
        stored = f"  stored bytes  {where.stored_start}-{where.stored_end - 1}"
        print(stored + (f" ({', '.join(how)})" if how else ""))


def _deletion_row(view: PartitionView, departure: ScheduledDeletion) -> tuple[object, ...]:
    segment = departure.segment
    if departure.reason is not None:
        return segment.start_offset, segment.end_offset, "now", departure.reason.value
    when, why = [], []
    if departure.at_ms is not None:
        when.append(time_text(departure.at_ms) or "")
        why.append(f"retention.ms={view.config.retention_ms}")
    if departure.after_bytes is not None:
        when.append(f"{count_text(departure.after_bytes, 'byte')} later")
        why.append(f"retention.bytes={view.config.retention_bytes}")
    return segment.start_offset, segment.end_offset, " or ".join(when), ", ".join(why)
