"""The parts of the command line that convert text to values and values to text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.cli.connection import open_connection
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import key_values
from tidelog.cli.output import json_text, print_table
from tidelog.cli.records.escapes import unescape
from tidelog.cli.records.input_records import InputRecord, RecordSplitter
from tidelog.cli.records.latency import LatencyHistogram
from tidelog.cli.records.offset_choice import OffsetChoice, Start, parse_offset_choices
from tidelog.cli.records.record_format import DEFAULT_FORMAT, compile_format, json_line
from tidelog.clients.config.client_config import AdminConfig, ConsumerConfig, ProducerConfig
from tidelog.clients.config.options import ConfigError
from tidelog.clients.consumer.consumer_types import ConsumerRecord, TimestampType
from tidelog.security.jaas import parse_jaas


def record(
    key: bytes | None = b"k",
    value: bytes | None = b"value",
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> ConsumerRecord:
    return ConsumerRecord(
        "tides", 3, 42, 1_700_000_000_123, TimestampType.CREATE_TIME, key, value, headers, 0
    )


# --- escapes


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("plain", b"plain"),
        (r"a\tb\r\n", b"a\tb\r\n"),
        (r"\x00\xfF", b"\x00\xff"),
        (r"\\n", b"\\n"),
        (r"\"\q", b'"q'),
        ("naïve", "naïve".encode()),
        ("", b""),
    ],
)
def test_escapes_represent_bytes(text: str, data: bytes) -> None:
    assert unescape(text) == data


@pytest.mark.parametrize("text", ["\\", r"\x", r"\x4", r"\xzz", r"ab\x1"])
def test_an_unfinished_escape_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"backslash|hexadecimal"):
        unescape(text)


# --- format strings


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (DEFAULT_FORMAT, b"value\n"),
        ("%t [%p] %o %T", b"tides [3] 42 1700000000123"),
        (r"%k=%s %K %S%%\x41\n", b"k=value 1 5%A\n"),
        ("%R%s", b"\0\0\0\x05value"),
        ("nothing", b"nothing"),
        ("%s", b"value"),
        ("", b""),
    ],
)
def test_a_format_prints_its_fields(text: str, printed: bytes) -> None:
    assert compile_format(text)(record()) == printed


def test_null_prints_nothing_or_a_given_text_and_has_length_minus_one() -> None:
    empty, null = record(b"", b""), record(None, None)
    assert compile_format("%k:%s:%K:%S")(empty) == b"::0:0"
    assert compile_format("%k:%s:%K:%S:%R")(null) == b"::-1:-1:\xff\xff\xff\xff"
    assert compile_format("%k:%s", null=b"NULL")(null) == b"NULL:NULL"
    assert compile_format("%k:%s", null=b"NULL")(empty) == b":"


def test_headers_print_as_kcat_prints_them() -> None:
    headers = (("a", b"1"), ("b", b""), ("c", None))
    assert compile_format("%h")(record(headers=headers)) == b"a=1,b=,c=NULL"
    assert compile_format("%h")(record()) == b""


def test_invalid_utf_8_is_printed_unchanged() -> None:
    assert compile_format(r"%s\n")(record(value=b"\xff\x00\n")) == b"\xff\x00\n\n"


@pytest.mark.parametrize("text", ["%", "%z", "a%", "%-5s", "\\"])
def test_an_invalid_format_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown token|backslash"):
        compile_format(text)


def test_a_json_line_has_text_as_text_and_other_bytes_in_base64() -> None:
    headers = (("h", b"1"), ("null", None))
    line = json_line(record(key=None, value=b"\xff\xfe", headers=headers))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "tides",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_123,
        "timestamp_type": "create_time",
        "key": None,
        "value": {"base64": "//4="},
        "headers": [{"key": "h", "value": "1"}, {"key": "null", "value": None}],
    }


# --- offsets


@pytest.mark.parametrize(
    ("texts", "offset_choice"),
    [
        ([], OffsetChoice(Start.STORED)),
        (["beginning"], OffsetChoice(Start.BEGINNING)),
        (["earliest"], OffsetChoice(Start.BEGINNING)),
        (["end"], OffsetChoice(Start.END)),
        (["latest"], OffsetChoice(Start.END)),
        (["stored"], OffsetChoice(Start.STORED)),
        (["0"], OffsetChoice(Start.OFFSET, 0)),
        (["42"], OffsetChoice(Start.OFFSET, 42)),
        (["-10"], OffsetChoice(Start.BEFORE_END, 10)),
        (["s@17"], OffsetChoice(Start.TIMESTAMP, 17)),
        (["e@18"], OffsetChoice(Start.STORED, 0, 18)),
        (["s@17", "e@18"], OffsetChoice(Start.TIMESTAMP, 17, 18)),
    ],
)
def test_offsets_have_kcats_syntax(texts: list[str], offset_choice: OffsetChoice) -> None:
    assert parse_offset_choices(texts, default=Start.STORED) == offset_choice


@pytest.mark.parametrize(
    "texts", [["middle"], [""], ["s@"], ["s@soon"], ["e@-1"], ["1.5"], ["1", "2"], ["e@1", "e@2"], ["--1"]]
)
def test_invalid_offsets_are_refused(texts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"is not|expected|second"):
        parse_offset_choices(texts, default=Start.END)


@pytest.mark.parametrize(
    ("offset_choice", "timestamp_offset", "offset"),
    [
        (OffsetChoice(Start.BEGINNING), None, 10),
        (OffsetChoice(Start.END), None, 20),
        (OffsetChoice(Start.OFFSET, 15), None, 15),
        (OffsetChoice(Start.OFFSET, 3), None, 10),
        (OffsetChoice(Start.OFFSET, 20), None, 20),
        (OffsetChoice(Start.OFFSET, 21), None, 20),
        (OffsetChoice(Start.BEFORE_END, 4), None, 16),
        (OffsetChoice(Start.BEFORE_END, 400), None, 10),
        (OffsetChoice(Start.TIMESTAMP, 1), 12, 12),
        (OffsetChoice(Start.TIMESTAMP, 1), None, 20),
    ],
)
def test_an_offset_option_is_resolved_per_partition(
    offset_choice: OffsetChoice, timestamp_offset: int | None, offset: int
) -> None:
    assert offset_choice.resolve(10, 20, timestamp_offset) == offset


# --- input


def split(data: bytes, *, pieces: list[int] | None = None, **options: object) -> list[InputRecord]:
    splitter = RecordSplitter(record_bytes_max=1_000, **options)  # type: ignore[arg-type]
    records: list[InputRecord] = []
    at = 0
    for size in pieces or []:
        records += splitter.feed(data[at : at + size])
        at += size
    return [*records, *splitter.feed(data[at:]), *splitter.finish()]


def test_a_line_is_a_record_and_an_empty_line_is_an_empty_record() -> None:
    assert split(b"a\n\nb") == [(None, b"a"), (None, b""), (None, b"b")]
    assert split(b"a\n") == [(None, b"a")]
    assert split(b"") == []


def test_a_key_is_before_the_first_separator() -> None:
    records = split(b"k:v:w\n:v\nk:\nplain\n", key_separator=b":", fixed_key=b"fixed")
    assert records == [(b"k", b"v:w"), (b"", b"v"), (b"k", b""), (b"fixed", b"plain")]


def test_empty_keys_and_values_may_represent_null() -> None:
    records = split(b"k:\n:v\n:\n\n", key_separator=b":", null_empty=True)
    assert records == [(b"k", None), (None, b"v"), (None, None), (None, None)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=8).filter(lambda value: b"||" not in value + b"|"), max_size=8),
    st.lists(st.integers(0, 5), max_size=20),
)
def test_chunks_may_end_anywhere(values: list[bytes], pieces: list[int]) -> None:
    values = [value.replace(b"|", b"") for value in values]
    data = b"".join(value + b"||" for value in values)
    assert [record.value for record in split(data, pieces=pieces, delimiter=b"||")] == values


def test_a_record_beyond_the_size_limit_is_refused() -> None:
    splitter = RecordSplitter(record_bytes_max=10)
    assert splitter.feed(b"0123456789") == []
    with pytest.raises(ValueError, match="within 10 bytes"):
        splitter.feed(b"0")


# --- options


def explicit_options(config_type: type[Any], *texts: str) -> dict[str, Any]:
    """Return the options that `-X` texts result in."""
    return open_connection(None, None, texts).client_options(config_type)


def test_client_options_have_the_clients_types() -> None:
    texts = ["linger.ms=7", "enable_idempotence=false", "acks=1", "compression-level=3", "client.id=me"]
    assert explicit_options(ProducerConfig, *texts) == {
        "linger_ms": 7,
        "enable_idempotence": False,
        "acks": "1",
        "compression_level": 3,
        "client_id": "me",
    }
    assert explicit_options(ConsumerConfig, "partition.assignment.strategy=range, sticky") == {
        "partition_assignment_strategy": ("range", "sticky")
    }


@pytest.mark.parametrize("text", ["linger.ms=soon", "enable.idempotence=perhaps"])
def test_an_invalid_option_value_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(UsageFailure, match=re.escape(text)):
        explicit_options(ProducerConfig, text)


@pytest.mark.parametrize("text", ["sasl.password", "=secret", "secret"])
def test_an_option_without_a_key_or_a_value_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(UsageFailure, match="option 2 is not of this form") as refused:
        explicit_options(ProducerConfig, "acks=1", text)
    assert text not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("bootstrap.servers=localhost:1", "use --bootstrap"),
        ("group_id=harbour", "use --group"),
        ("environment=x", "Unknown option: 'environment'"),
        ("ssl.context=x", "Unknown option: 'ssl.context'"),
        ("linger=5", "did you mean linger_ms"),
    ],
)
def test_an_option_that_is_not_text_is_refused(text: str, expected_text: str) -> None:
    with pytest.raises((UsageFailure, ConfigError), match=expected_text):
        explicit_options(ProducerConfig, text)


def command_config(folder: Path, text: str) -> Path:
    """Write a properties file of a client and return its path."""
    path = folder / "client.properties"
    path.write_text(text)
    return path


def test_options_override_those_of_a_command_config(tmp_path: Path) -> None:
    path = command_config(
        tmp_path, "bootstrap.servers=a:1\nclient.id=file\nacks=1\nlinger.ms=9\ngroup.id=g\n"
    )
    connection = open_connection(None, path, ["client.id=explicit"])
    assert (connection.bootstrap, connection.group_id) == ("a:1", "g")
    options = connection.client_options(
        ProducerConfig, {"linger_ms": 5, "batch_size": 7}, {"acks": "0", "retries": None}
    )
    assert options == {"linger_ms": 9, "batch_size": 7, "client_id": "explicit", "acks": "0"}
    assert open_connection("b:2", path, []).bootstrap == "b:2"


def test_a_command_config_may_have_options_of_other_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = open_connection(None, command_config(tmp_path, "acks=1\nclient.id=me\n"), [])
    assert connection.client_options(AdminConfig) == {"client_id": "me"}
    assert capsys.readouterr().err == ""


def test_unknown_keys_of_a_command_config_are_reported_on_one_line_and_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = command_config(tmp_path, "key.serializer=secret\nssl.keystore=secret\nclient.id=me\n")
    assert open_connection(None, path, []).client_options(AdminConfig) == {"client_id": "me"}
    expected = f"tidelog: {path}: ignored keys that no client has: key.serializer, ssl.keystore\n"
    assert capsys.readouterr().err == expected


def test_config_providers_replace_variables_of_a_command_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secrets").write_text("id=from a file\n")
    path = command_config(
        tmp_path,
        "config.providers=file\n"
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"client.id=${{file:{tmp_path}/secrets:id}}\n",
    )
    assert open_connection(None, path, []).client_options(AdminConfig) == {"client_id": "from a file"}
    assert capsys.readouterr().err == ""
    (tmp_path / "secrets").unlink()
    with pytest.raises(UsageFailure, match=r"client\.properties.*client\.id=.*no regular file"):
        open_connection(None, path, [])


def test_names_of_librdkafka_are_accepted_for_tls_and_sasl(tmp_path: Path) -> None:
    path = command_config(
        tmp_path, "security.protocol=sasl_ssl\nsasl.mechanisms=PLAIN\nssl.ca.location=ca.pem\n"
    )
    connection = open_connection(None, path, ["sasl.username=alice", 'sasl.password=a"b\\c'])
    options = connection.client_options(AdminConfig)
    jaas_config = options.pop("sasl_jaas_config")
    assert parse_jaas(jaas_config, "PLAIN").options == {"username": "alice", "password": 'a"b\\c'}
    assert options == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "ssl_truststore_location": "ca.pem",
        "ssl_truststore_type": "PEM",
    }
    assert 'a"b' not in repr(connection)


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        (None, "No such file or directory"),
        ("ssl.key.password=secret\\u12", "line 1: .*four hexadecimal digits"),
        ("sasl.username=alice\nsasl.password=secret", "also need sasl.mechanism"),
        ("acks=1\nlinger.ms=soon", "linger.ms=soon: expected an integer"),
    ],
)
def test_a_command_config_that_cannot_be_used_is_refused_on_one_line_without_secrets(
    tmp_path: Path, text: str | None, expected_text: str
) -> None:
    path = tmp_path / "client.properties" if text is None else command_config(tmp_path, text)
    with pytest.raises(UsageFailure, match=expected_text) as refused:
        open_connection(None, path, []).client_options(ProducerConfig)
    assert ("secret" not in str(refused.value) and str(path) in str(refused.value)) or "sasl" in expected_text


def test_a_value_may_hold_equals_signs() -> None:
    assert key_values(["a=b=c", " d = e "], "-c") == {"a": "b=c", "d": "e"}


# --- output


def test_a_table_in_a_pipe_is_aligned_and_not_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "count"), [("a" * 300, 7), ("b", 1000), (None, -1)])
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "COUNT"]
    assert [row.split() for row in rows] == [["a" * 300, "7"], ["b", "1000"], ["-", "-1"]]
    assert {len(line) for line in [heading, *rows]} == {300 + 2 + 5}


def test_an_empty_table_prints_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [])
    assert capsys.readouterr().out == "A  B\n"


def test_json_has_no_nan_or_infinity() -> None:
    value = {"id": UUID(int=0), "type": TimestampType.CREATE_TIME, "list": (1, None, b"x"), "text": "ä"}
    assert json_text(value) == (
        '{"id":"AAAAAAAAAAAAAAAAAAAAAA","type":"create_time","list":[1,null,"x"],"text":"ä"}'
    )


# --- latencies


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 1 << 40), min_size=1, max_size=50),
    st.sampled_from([1.0, 50.0, 95.0, 99.9, 100.0]),
)
def test_a_percentile_is_at_most_one_bucket_above_the_exact_value(
    durations: list[int], percent: float
) -> None:
    histogram = LatencyHistogram()
    for duration in durations:
        histogram.record(duration)
    true = sorted(durations)[max(1, int(-(-len(durations) * percent // 100))) - 1]
    assert true <= histogram.percentile_us(percent) <= true * (1 + 1 / 64)
    assert histogram.max_us == max(durations)


def test_a_histogram_accepts_zero_and_very_large_durations() -> None:
    histogram = LatencyHistogram()
    assert histogram.summary_ms() == {"p50": 0.0, "p95": 0.0, "p99": 0.0, "p99.9": 0.0, "max": 0.0}
    histogram.record(-5)
    histogram.record(1 << 80)
    assert histogram.count == 2
    assert histogram.percentile_us(1) == 0
