"""`tidelog tier fsck`: one line for each finding, a summary, and an exit status (shell).

| status | |
|---|---|
| 0 | no findings, except notes |
| 1 | findings |
| 2 | could not be checked: no broker, no bucket, wrong settings |
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Final

import typer

from tidelog.base.config_definition import ConfigError
from tidelog.base.count_text import count_text
from tidelog.base.dataclass import dataclass
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.failures import EXIT_FAILURE, UsageFailure, complain, kafka_error_text
from tidelog.cli.output import print_json
from tidelog.cli.progress import bar
from tidelog.cli.tier.sources import gather
from tidelog.clients.config.options import ConfigError as ClientConfigError
from tidelog.protocol.errors import KafkaError
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.findings import Finding, Severity
from tidelog.remote.inspection.fsck import (
    bucket_findings,
    confirmed_findings,
    deep_findings,
    metadata_findings,
    segments_to_read,
)
from tidelog.remote.inspection.offline import offline_bucket_findings, offline_views
from tidelog.remote.inspection.states import history_findings
from tidelog.remote.inspection.views import PartitionView, finished_segments
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.spark_connector.jobs.failures import JobFailure

EXIT_UNCHECKED: Final = 2

DeepCheck = Callable[[Sequence[RemoteLogSegmentMetadata]], list[Finding]]
"""Reads every byte of segments and returns the findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckOptions:
    """The options of one check."""

    cluster: ClusterConnection
    topics: Sequence[str]
    """Empty for all."""
    is_deep: bool = False
    is_offline: bool = False
    patience_ms: int = 0
    as_json: bool = False
    deep_check: DeepCheck | None = None
    """Reads the bytes; None means threads of this process."""


@dataclass(slots=True)
class Report:
    """The partitions that were checked, and the findings."""

    findings: list[Finding] = field(default_factory=list)
    views: list[PartitionView] = field(default_factory=list)
    bytes_read: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether there are no findings except notes."""
        return all(finding.kind.severity is Severity.NOTE for finding in self.findings)


@contextmanager
def exit_if_unchecked() -> Iterator[None]:
    """Print an error that prevents the check on one line, and exit with status 2."""
    try:
        yield
    except KafkaError as error:
        complain(kafka_error_text(error))
    except (UsageFailure, ConfigError, ClientConfigError, RemoteStorageError, JobFailure) as error:
        complain(str(error))
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    else:
        return
    raise typer.Exit(EXIT_UNCHECKED)


def run_fsck(bucket: Bucket, options: FsckOptions) -> None:
    """Check remote storage, print the report and exit with its status."""
    report = _check_offline(bucket, options) if options.is_offline else check(bucket, options)
    _print(report, options.as_json)
    if not report.is_clean:
        raise typer.Exit(EXIT_FAILURE)


def check(bucket: Bucket, options: FsckOptions) -> Report:
    """Check remote storage with the brokers, and return the confirmed findings."""
    views, findings = _shallow(bucket, options)
    report = Report(findings, views)
    if options.is_deep:
        report.findings += _deep(bucket, report, options.deep_check)
    if report.findings:
        views, second_findings = _shallow(bucket, options)
        report.findings = confirmed_findings(report.findings, second_findings, views)
    return report


def _shallow(bucket: Bucket, options: FsckOptions) -> tuple[list[PartitionView], list[Finding]]:
    is_all = not options.topics
    cluster_view = gather(options.cluster, options.topics or None, whole_history=is_all)
    views = list(cluster_view.partitions)
    findings: list[Finding] = []
    partitions = {view.partition for view in views}
    if is_all:
        findings += history_findings(
            cluster_view.history, cluster_view.topic_ids, cluster_view.now_ms, options.patience_ms
        )
        partitions |= {partition for partition, _ in cluster_view.history}
    with _segments_bar(views) as on_segment:
        for view in views:
            findings += metadata_findings(view, options.patience_ms)
            findings += bucket_findings(bucket, view, on_segment)
    if is_all:
        findings += bucket.stray_findings(partitions, bucket.referenced_keys(views))
    return views, findings


def _check_offline(bucket: Bucket, options: FsckOptions) -> Report:
    with bar("manifests", None) as show:
        views, object_findings = offline_views(bucket, options.topics, _Steps(show))
    if not views and not object_findings:
        raise UsageFailure(f"the bucket has no segments of {', '.join(options.topics) or 'any topic'}")
    report = Report(list(object_findings), views)
    with _segments_bar(views) as on_segment:
        for view in views:
            report.findings += metadata_findings(view, options.patience_ms)
            report.findings += offline_bucket_findings(bucket, view, object_findings, on_segment)
    if options.is_deep:
        report.findings += _deep(bucket, report, options.deep_check)
    return report


def _deep(bucket: Bucket, report: Report, deep_check: DeepCheck | None) -> list[Finding]:
    segments = segments_to_read(report.views, report.findings)
    total = sum(segment.segment_size_bytes for segment in segments)
    if deep_check is not None:
        report.bytes_read = total
        return deep_check(segments)
    with bar("bytes", total) as show:
        steps = _Steps(show)
        findings = deep_findings(bucket, report.views, report.findings, steps.add)
    report.bytes_read = steps.done
    return findings


class _Steps:
    """Counts steps in several threads and shows the count."""

    def __init__(self, show: Callable[[int, str], None]) -> None:
        self._show = show
        self._lock = threading.Lock()
        self.done = 0

    def __call__(self) -> None:
        self.add(1)

    def add(self, count: int) -> None:
        with self._lock:
            self.done += count
            self._show(self.done, "")


@contextmanager
def _segments_bar(views: Sequence[PartitionView]) -> Iterator[_Steps]:
    with bar("segments", sum(len(finished_segments(view.segments)) for view in views)) as show:
        yield _Steps(show)


def _print(report: Report, as_json: bool) -> None:
    segments = sum(len(finished_segments(view.segments)) for view in report.views)
    notes = sum(finding.kind.severity is Severity.NOTE for finding in report.findings)
    finding_count = len(report.findings) - notes
    if as_json:
        print_json(
            {
                "partitions": len(report.views),
                "segments": segments,
                "bytes_read": report.bytes_read,
                "findings": [_document(finding) for finding in report.findings],
            }
        )
        return
    for finding in report.findings:
        print(finding)
    read = f", {count_text(report.bytes_read, 'byte')} read" if report.bytes_read else ""
    looked_at = (
        f"{_count_text(len(report.views), 'partition')}, {_count_text(segments, 'remote segment')}{read}"
    )
    print(f"{looked_at}: {_count_text(finding_count, 'finding')}, {_count_text(notes, 'note')}")


def _count_text(number: int, noun: str) -> str:
    return count_text(number, noun) if number else f"no {noun}s"


def _document(finding: Finding) -> dict[str, object]:
    partition = finding.partition
    return {
        "severity": finding.kind.severity,
        "kind": finding.kind,
        "topic": None if partition is None else partition.topic,
        "partition": None if partition is None else partition.partition,
        "place": finding.place,
        "meaning": finding.kind.meaning,
        "detail": finding.detail or None,
        "segment_id": finding.segment,
    }
