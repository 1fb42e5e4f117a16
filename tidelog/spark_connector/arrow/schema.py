"""The Arrow schema of the columns of Spark's Kafka source.

PySpark compares the schema of a reader's batches with its own and refuses large or view types, dictionaries,
fields that are not nullable, and any other order.

Source: the schema in Spark's guide to Kafka integration; pyspark.sql.pandas.types of PySpark 4.3.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

HEADERS: Final = "headers"

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(pa.field("element", HEADER_TYPE))

RECORD_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
RECORD_SCHEMA_WITH_HEADERS: Final = RECORD_SCHEMA.append(pa.field(HEADERS, HEADERS_TYPE))


def record_schema(*, include_headers: bool) -> pa.Schema:
    """Return the schema of the rows, with or without the column `headers`."""
    return RECORD_SCHEMA_WITH_HEADERS if include_headers else RECORD_SCHEMA
