"""Batches are exchanged with other clients for every codec that they support."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterable, Iterator
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch
from kio.records.schema import Record as KioRecord
from kio.records.schema import RecordHeader as KioRecordHeader
from kio.records.writers import write_new_batch
from kio.static.primitive import TZAwareMicros

from tests.support.batches.kafka_batches import append_all, large_records, small_records
from tidelog.protocol.batch import read_header
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.record import Record, RecordHeader, read_records

# kafka-python needs further packages for snappy, lz4 and zstd; aiokafka uses cramjam.
EVERY_CODEC = list(Compression)
KAFKA_PYTHON_CODECS = [Compression.NONE, Compression.GZIP]


def with_codecs(name: str, implementation: Any, codecs: list[Compression]) -> list[Any]:
    return [pytest.param(implementation, codec, id=f"{name}-{codec.name}") for codec in codecs]


BUILDERS = [
    *with_codecs("aiokafka", aiokafka_records._DefaultRecordBatchBuilderCython, EVERY_CODEC),
    *with_codecs("aiokafka-python", aiokafka_records._DefaultRecordBatchBuilderPy, EVERY_CODEC),
    *with_codecs("kafka-python", kafka_python_records.DefaultRecordBatchBuilder, KAFKA_PYTHON_CODECS),
]
READERS = [
    *with_codecs("aiokafka", aiokafka_records._DefaultRecordBatchCython, EVERY_CODEC),
    *with_codecs("aiokafka-python", aiokafka_records._DefaultRecordBatchPy, EVERY_CODEC),
    *with_codecs("kafka-python", kafka_python_records.DefaultRecordBatch, KAFKA_PYTHON_CODECS),
]
CONTENTS = [pytest.param(small_records(0), id="small"), pytest.param(large_records(), id="large")]


def build_by(builder_class: Any, codec: Compression, records: Iterable[Record]) -> bytes:
    """Return a batch built by another client."""
    builder = builder_class(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=8,
        producer_epoch=3,
        base_sequence=70,
        batch_size=1 << 20,
    )
    for record in records:
        added = builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
        assert added is not None
    return bytes(builder.build())


def read_by(batch_class: Any, data: bytes) -> Iterator[Record]:
    """Return the records that another client reads from a batch."""
    batch = batch_class(data)
    assert batch.validate_crc()
    for record in batch:
        yield Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))


@pytest.mark.parametrize("records", CONTENTS)
@pytest.mark.parametrize(("builder_class", "codec"), BUILDERS)
def test_batches_of_other_clients_are_read(
    builder_class: Any, codec: Compression, records: list[Record]
) -> None:
    data = build_by(builder_class, codec, records)
    header = read_header(data)
    assert header.compression is codec
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 3, 70)
    assert header.is_transactional
    assert read_records(data) == records


@pytest.mark.parametrize("records", CONTENTS)
@pytest.mark.parametrize(("batch_class", "codec"), READERS)
def test_other_clients_read_our_batches(batch_class: Any, codec: Compression, records: list[Record]) -> None:
    data = append_all(BatchBuilder(compression=codec), records).build()
    assert list(read_by(batch_class, bytes(data))) == records


def as_kio(record: Record) -> KioRecord:
    return KioRecord(
        attributes=0,  # type: ignore[arg-type]
        timestamp=TZAwareMicros.parse(
            datetime.datetime.fromtimestamp(record.timestamp // 1000, datetime.UTC)
        ),
        offset=record.offset,  # type: ignore[arg-type]
        key=record.key,
        value=record.value,
        headers=tuple(KioRecordHeader(key=key.encode(), value=value) for key, value in record.headers),
    )


kio_contents = st.lists(
    st.tuples(
        # kio supports whole seconds only.
        st.integers(0, 4_000_000_000).map(lambda seconds: seconds * 1000),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=100, deadline=None)
@given(contents=kio_contents)
def test_kio_and_tidelog_read_each_others_batches(
    contents: list[tuple[int, bytes | None, bytes | None, tuple[RecordHeader, ...]]],
) -> None:
    records = [Record(offset, *content) for offset, content in enumerate(contents)]
    ours = bytes(
        append_all(
            BatchBuilder(producer=BatchProducer(producer_id=8, producer_epoch=3, base_sequence=1)), records
        ).build()
    )
    read, size = read_batch(ours, 0)
    assert size == len(ours)
    assert read.records == tuple(map(as_kio, records))
    out = io.BytesIO()
    batch = NewRecordBatch(
        producer_id=8,  # type: ignore[arg-type]
        producer_epoch=3,  # type: ignore[arg-type]
        base_sequence=1,  # type: ignore[arg-type]
        records=read.records,
        attributes=0,  # type: ignore[arg-type]
    )
    write_new_batch(out, batch)
    assert read_records(out.getvalue()) == records
