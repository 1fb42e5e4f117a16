"""Repair of damaged segments, one after the other (shell).

A segment is written again under its own id and keys, so that its metadata stay valid. Brokers detect the new
objects themselves: they discard cached bytes whose checksums are wrong.

Errors of one segment are its outcome; RemoteStorageError if the store does not respond.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.ids import BrokerId
from tidelog.remote.inspection.deep import inspect_segment
from tidelog.remote.inspection.findings import BROKEN_OBJECTS, DEEP, Finding
from tidelog.remote.inspection.views import PartitionView, finished_segments
from tidelog.remote.objects.layout.object_keys import is_reference
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.repair.replica_records import RecordsNotAvailable, fetch_segment_records
from tidelog.remote.repair.segment_files import (
    NotRepairable,
    complete_files,
    log_path,
    require_replaceable,
)
from tidelog.storage.config.log_config import LogConfig

_REPAIRED: Final = BROKEN_OBJECTS | DEEP


@dataclass(frozen=True, slots=True)
class DamagedRemoteSegment:
    """A finished segment with findings, and the configuration of its log."""

    metadata: RemoteLogSegmentMetadata
    findings: tuple[Finding, ...]
    config: LogConfig


class RepairOutcome(NamedTuple):
    """The replica with the records of a segment, or the reason why there is none."""

    segment: DamagedRemoteSegment
    source: BrokerId | None
    problem: str = ""
    is_written: bool = False


def damaged_segments(
    findings: Iterable[Finding], views: Iterable[PartitionView]
) -> list[DamagedRemoteSegment]:
    """Return the finished segments with findings of damage."""
    by_segment: dict[UUID, list[Finding]] = {}
    for finding in findings:
        if finding.segment is not None and finding.kind in _REPAIRED:
            by_segment.setdefault(finding.segment, []).append(finding)
    return [
        DamagedRemoteSegment(segment, tuple(by_segment[segment.remote_log_segment_id.id]), view.config)
        for view in views
        for segment in finished_segments(view.segments)
        if segment.remote_log_segment_id.id in by_segment
    ]


class SegmentRepair:
    """Repairs segments from the replicas of a cluster; without `executes`, only looks for the records.

    `options` are those of clients, see `ConsumerConfig`.
    """

    def __init__(
        self,
        storage: ObjectStorageManager,
        bootstrap_servers: str | Sequence[str],
        options: Mapping[str, Any],
        *,
        executes: bool,
    ) -> None:
        self._storage = storage
        self._bootstrap_servers = bootstrap_servers
        self._options = options
        self._executes = executes

    async def repair(self, segment: DamagedRemoteSegment, replicas: Iterable[BrokerId]) -> RepairOutcome:
        """Repair a segment from the first of `replicas` that has its records."""
        if is_reference(segment.metadata):
            return RepairOutcome(segment, None, "its objects belong to another topic, which must be repaired")
        try:
            require_replaceable(segment.findings)
        except NotRepairable as error:
            return RepairOutcome(segment, None, str(error))
        problems = []
        for replica in replicas:
            with tempfile.TemporaryDirectory(prefix="tidelog-repair-") as directory:
                try:
                    await self._repair_from(replica, segment, Path(directory))
                except RecordsNotAvailable as error:
                    problems.append(str(error))
                except NotRepairable as error:
                    return RepairOutcome(segment, replica, str(error))
                else:
                    return RepairOutcome(segment, replica, is_written=self._executes)
        return RepairOutcome(segment, None, "; ".join(problems) or "the partition has no replica in sync")

    async def _repair_from(self, replica: BrokerId, segment: DamagedRemoteSegment, directory: Path) -> None:
        metadata = segment.metadata
        with _create_file(log_path(directory, metadata)) as file:
            headers = await fetch_segment_records(
                self._bootstrap_servers, self._options, replica, metadata, file
            )
        await asyncio.to_thread(self._write, segment, directory, headers)

    def _write(self, segment: DamagedRemoteSegment, directory: Path, headers: list[BatchHeader]) -> None:
        """Write and verify the objects. Errors: NotRepairable."""
        metadata = segment.metadata
        files = complete_files(directory, metadata, headers, self._storage, segment.config)
        if not self._executes:
            return
        self._storage.replace_log_segment_data(metadata, files)
        remaining = inspect_segment(self._storage, metadata)
        if remaining:
            raise NotRepairable(f"it was written again, and still has a finding: {remaining[0]}")


def _create_file(path: Path) -> BinaryIO:
    return open(path, "wb")
