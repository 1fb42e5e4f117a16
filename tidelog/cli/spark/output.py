"""The output of the jobs of `tidelog spark`: tables, or one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.base.count_text import count_text
from tidelog.cli.output import print_json, print_table
from tidelog.spark_connector.jobs.stats_report import Counts, KeyCount, TopicStats
from tidelog.spark_connector.jobs.times import time_text

if TYPE_CHECKING:
    from tidelog.spark_connector.jobs.archive import ArchiveResult
    from tidelog.spark_connector.jobs.transform import TransformResult

_KEY_CHARACTERS = 40


def print_archive(topic: str, output: str, result: ArchiveResult, as_json: bool) -> None:
    """Print what one run has archived, and the next offset of each partition."""
    span, commits = result.span, result.commits
    rows = sum(commit.rows for commit in commits)
    size_bytes = sum(commit.size_bytes for commit in commits)
    if as_json:
        print_json(
            {
                "topic": topic,
                "output": output,
                "commits": [commit.number for commit in commits],
                "rows": rows,
                "files": [file.path for file in result.files],
                "bytes": size_bytes,
                "partitions": [
                    {"partition": one.partition, "start_offset": start, "end_offset": span.ends[one]}
                    for one, start in sorted(span.starts.items())
                ],
            }
        )
        return
    print_table(
        ("partition", "from offset", "next offset", "offsets"),
        [
            (one.partition, start, span.ends[one], span.ends[one] - start)
            for one, start in sorted(span.starts.items())
        ],
    )
    done = ", ".join(
        count_text(count, noun)
        for count, noun in (
            (rows, "row"), (len(result.files), "file"), (size_bytes, "byte"), (len(commits), "commit")
        )
    )  # fmt: skip
    print(f"{topic} to {output}: {done if commits else 'no new records'}")


def print_transform(request_words: str, result: TransformResult, as_json: bool) -> None:
    """Print what one run of a transformation has read and written."""
    if as_json:
        print_json(
            {
                "batches": result.batches,
                "records_read": result.records_read,
                "records_written": result.records_written,
                "end_offsets": result.end_offsets,
            }
        )
        return
    batches = count_text(result.batches, "batch", "batches")
    counts = f"{count_text(result.records_read, 'record')} read, {result.records_written} written, {batches}"
    print(f"{request_words}: {counts if result.batches else 'no new records'}")


def print_stats(found: Sequence[TopicStats], as_json: bool) -> None:
    """Print the statistics of partitions, then those of the topic and its largest keys."""
    if as_json:
        print_json(found)
        return
    for number, topic in enumerate(found):
        if number:
            print()
        print_table(
            (*_HEADINGS, "out of order"),
            [
                *((one.partition, *_row(one.counts), one.out_of_order) for one in topic.partitions),
                ("all", *_row(topic.counts), topic.out_of_order),
            ],
        )
        _print_whole(topic)


_HEADINGS = (
    "partition",
    "records",
    "key bytes",
    "value bytes",
    "null keys",
    "tombstones",
    "keys",
    "p50",
    "p90",
    "p99",
    "max",
)


def _row(counts: Counts) -> tuple[object, ...]:
    sizes = counts.sizes
    return (
        counts.records,
        counts.key_bytes,
        counts.value_bytes,
        counts.null_keys,
        counts.tombstones,
        counts.distinct_keys,
        sizes.p50,
        sizes.p90,
        sizes.p99,
        sizes.max,
    )


def _print_whole(topic: TopicStats) -> None:
    counts = topic.counts
    if topic.skew_records is None:
        print(f"{topic.topic}: no records")
        return
    print(
        f"{topic.topic}: the largest partition has {topic.skew_records} x the mean in records, "
        f"{topic.skew_bytes} x in bytes"
    )
    if counts.first_timestamp_ms is not None and counts.last_timestamp_ms is not None:
        print(f"times: {time_text(counts.first_timestamp_ms)} to {time_text(counts.last_timestamp_ms)}")
    for words, keys in (("records", topic.top_keys_by_records), ("bytes", topic.top_keys_by_bytes)):
        if keys:
            print(f"\nlargest keys by {words}:")
            print_table(("key", "records", "bytes", "share"), [_key_row(counts, words, key) for key in keys])


def _key_row(counts: Counts, words: str, key: KeyCount) -> tuple[object, ...]:
    part, whole = (key.records, counts.records) if words == "records" else (key.size_bytes, counts.size_bytes)
    share = f"{part / whole:.1%}" if whole else None
    return _key_text(key.key), key.records, key.size_bytes, share


def _key_text(key: bytes) -> str:
    text = key.decode("utf-8", errors="backslashreplace")
    printable = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return printable if len(printable) <= _KEY_CHARACTERS else f"{printable[: _KEY_CHARACTERS - 3]}..."
