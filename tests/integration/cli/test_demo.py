"""The comparisons of the demo are exact, and the demo completes on a small text."""

from __future__ import annotations

import io
import os
import re
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from tidelog.demo.comparison import Content, Fingerprint, OffsetGap, Received
from tidelog.demo.corpus import Corpus
from tidelog.demo.readers import Advance, Members
from tidelog.demo.run import PARTITIONS, TIERED, Demo
from tidelog.demo.stream_query import GroupCount, QueryResult

LINES = [(b"a", b"1\n"), (b"a", b"2\n"), (b"b", b"3\n"), (b"a", b"4\n")]


def fingerprint(records: list[tuple[bytes, bytes]]) -> Fingerprint:
    content = Content()
    for key, value in records:
        content.add(key, value)
    return content.fingerprint()


@pytest.mark.parametrize(
    "changed",
    [
        LINES[:-1],
        [*LINES, LINES[0]],
        [LINES[1], LINES[0], *LINES[2:]],
        [(b"a", b"1\n"), (b"a", b"2\r"), *LINES[2:]],
        [(b"a", b"1\n2\n"), (b"a", b""), *LINES[2:]],
        [(b"b", b"1\n"), *LINES[1:]],
    ],
    ids=["missing", "repeated", "swapped", "one byte", "moved border", "other key"],
)
def test_every_difference_changes_the_checksum(changed: list[tuple[bytes, bytes]]) -> None:
    assert fingerprint(changed) != fingerprint(LINES)


def test_partitions_may_be_read_in_any_order() -> None:
    assert fingerprint([LINES[2], LINES[0], LINES[1], LINES[3]]) == fingerprint(LINES)


def test_repeated_records_count_once_and_a_gap_is_an_error() -> None:
    received = Received()
    received.take(0, [(0, 0, b"a", b"x"), (0, 1, b"a", b"y")])
    received.take(1, [(0, 1, b"a", b"y"), (0, 2, b"a", b"z"), (1, 0, b"b", b"w")])
    assert (received.records, received.members) == (4, {0: 2, 1: 2})
    with pytest.raises(OffsetGap, match="received offset 5, expected 3"):
        received.take(0, [(0, 5, b"a", b"v")])


def test_a_group_reads_once_all_members_have_partitions() -> None:
    members = Members()
    assert not members.update(0, 6)
    assert not members.update(0, 0)
    assert not members.update(1, 3)
    assert members.update(0, 3)
    assert members.update(1, 0), "records that they have read count, whatever the group does"


def test_lines_are_split_for_every_line_ending(tmp_path: Path) -> None:
    contents = {"one.py": b"a = 1\r\nb\rc\n\nlast", "sub/two.py": b"", "sub/site-packages/no.py": b"x\n"}
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    corpus = Corpus(tmp_path)
    assert [path.as_posix() for path in corpus.paths] == ["one.py", "sub/two.py"]
    lines, none = (list(corpus.lines_of(path)) for path in corpus.paths)
    assert b"".join(line.value for line in lines) == contents["one.py"]
    assert {line.key for line in lines} == {b"one.py"}
    assert none == []


def group(**changed: object) -> GroupCount:
    values = {"partition": 0, "module": "a", "lines": 3, "cold": 2, "size_bytes": 9, "crc_sum": 77}
    return GroupCount(**{**values, **changed})  # type: ignore[arg-type]


def query_result(*groups: GroupCount) -> QueryResult:
    return QueryResult(groups, micro_batches=2, seconds=1.0)


def test_the_query_matches_only_with_equal_lines_keys_bytes_and_checksums() -> None:
    source = fingerprint(LINES)
    counts = {"lines": 3, "size_bytes": 9, "crc_sum": source.crc_sum - 5}
    rest = group(partition=1, module="b", lines=1, cold=0, size_bytes=3, crc_sum=5)
    assert query_result(group(**counts), rest).is_of(source)
    for changed in ({"lines": 4}, {"size_bytes": 8}, {"crc_sum": source.crc_sum}, {"module": "b"}):
        assert not query_result(group(**{**counts, **changed}), rest).is_of(source)
    assert query_result(group(), rest).largest() == "a (3 lines), b (1 lines)"


def test_the_checksum_of_all_records_is_the_same_in_any_order() -> None:
    assert fingerprint(LINES[::-1]).crc_sum == fingerprint(LINES).crc_sum
    assert fingerprint(LINES[1:]).crc_sum != fingerprint(LINES).crc_sum


@pytest.mark.parametrize(
    ("records", "members", "equal"),
    [
        (LINES, 1, True),
        ([*LINES[:-1], (b"a", b"4\r")], 1, False),
        (LINES[:-1], 1, False),
        ([*LINES, LINES[-1]], 1, False),
        (LINES, 2, False),
    ],
    ids=["equal", "one byte", "one less", "one twice", "a member without partitions"],
)
async def test_the_demo_fails_when_a_reader_gets_different_records(
    tmp_path: Path, records: list[tuple[bytes, bytes]], members: int, equal: bool
) -> None:
    async def read(servers: str, topic: str, expected: int, advance: Advance) -> Received:
        received = Received()
        received.take(0, ((0, offset, *record) for offset, record in enumerate(records)))
        return received

    output = io.StringIO()
    demo = Demo(Corpus(tmp_path), tmp_path, Console(file=output, width=160))
    assert await demo._read("reader", read, fingerprint(LINES), members) is equal
    demo._console.print(demo._comparison)
    assert ("DIFFERS from" in output.getvalue()) is not equal


@pytest.mark.long
async def test_the_demo_completes_on_a_small_text(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for number in range(40):
        lines = "".join(f"{number} {line} {'x' * (line % 90)}\n" for line in range(number * 20))
        (text / f"{number}.py").write_text(lines)
    output = io.StringIO()
    topic_configs = {**TIERED, "internal.segment.bytes": "16384"}
    demo = Demo(Corpus(text), tmp_path, Console(file=output, width=160), topic_configs)
    try:
        assert await demo.run(), output.getvalue()
    finally:
        demo.close()
    assert "DIFFERS" not in output.getvalue()
    # Spark's query is skipped, and the reason printed, without Java.
    by_spark = "no streaming query with Spark: " not in output.getvalue()
    assert by_spark is (shutil.which("java") is not None or "JAVA_HOME" in os.environ)
    assert output.getvalue().count("equal") == 3 + by_spark
    assert ("largest modules: 39.py (780 lines), 38.py (760 lines)" in output.getvalue()) is by_spark
    copied = re.search(r"copied ([\d.]+) MB of the ([\d.]+) MB", output.getvalue())
    assert copied is not None and float(copied[1]) < float(copied[2]) / 2, output.getvalue()
    assert len(demo.watch.borders) == PARTITIONS
    for border in demo.watch.borders:
        assert 0 == border.log_start < border.local_start == border.remote_end <= border.high_watermark
        assert border.remote.count > 1 == border.local.count
