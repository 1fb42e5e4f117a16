"""The PySpark data source `tidelog`: its name, schema, readers and writers.

Spark itself uses the name `kafka`. Options, columns and offsets are those of Spark's Kafka source.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.sink_columns import check_columns
from tidelog.spark_connector.planning.sink_options import read_sink_options
from tidelog.spark_connector.planning.source_options import read_includes_headers, read_source_options
from tidelog.spark_connector.reading.batch_reader import FilteringBatchReader, TidelogBatchReader
from tidelog.spark_connector.reading.stream_reader import TidelogStreamReader
from tidelog.spark_connector.writing.at_least_once import AtLeastOnce
from tidelog.spark_connector.writing.writers import TidelogBatchWriter, TidelogStreamWriter

HEADERS_TYPE = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())]), containsNull=True
)
RECORD_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
RECORD_SCHEMA_WITH_HEADERS = StructType([*RECORD_SCHEMA.fields, StructField("headers", HEADERS_TYPE)])


class TidelogSource(DataSource):
    """`format("tidelog")`: topics of Tidelog, or of any Kafka cluster."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        return RECORD_SCHEMA_WITH_HEADERS if read_includes_headers(self.options) else RECORD_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        self._require_own(schema)
        options = read_source_options(self.options, is_streaming=False)
        return FilteringBatchReader(options) if options.pushes_filters else TidelogBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self._require_own(schema)
        return TidelogStreamReader(read_source_options(self.options, is_streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise OptionError("mode overwrite is not allowed: topics are append-only; use mode append")
        return TidelogBatchWriter(self._delivery(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if overwrite:
            raise OptionError(
                "output mode complete is not allowed: it replaces earlier rows, and topics are "
                "append-only; use append"
            )
        return TidelogStreamWriter(self._delivery(schema))

    def _delivery(self, schema: StructType) -> AtLeastOnce:
        options = read_sink_options(self.options)
        columns = check_columns(
            [(field.name, field.dataType.simpleString()) for field in schema.fields], options.topic
        )
        return AtLeastOnce(options.client, columns)

    def _require_own(self, schema: StructType) -> None:
        if schema.fieldNames() != self.schema().fieldNames():
            names = ", ".join(self.schema().fieldNames())
            raise OptionError(f"the schema of tidelog is fixed ({names}); it cannot be specified")
