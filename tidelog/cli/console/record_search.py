"""Searches one partition for the records that the message browser shows.

Bounds: RECORDS_MAX records, RECORDS_SCANNED_MAX scanned ones, TIMEOUT_S; SHOWN_BYTES of key and value, and of
all headers of a record together; DECODED_CHARACTERS_MAX of decoded keys and values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.base.dataclass import dataclass
from tidelog.cli.console.schemas.wire_format import schema_id
from tidelog.cli.output import bytes_to_json
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.protocol.ids import Offset, TopicPartition

if TYPE_CHECKING:
    from tidelog.cli.console.schemas.decoding import SchemaDecoder

RECORDS_MAX: Final = 500
RECORDS_SCANNED_MAX: Final = 50_000
TIMEOUT_S: Final = 5.0
SHOWN_BYTES: Final = 16 * 1024
DECODED_CHARACTERS_MAX: Final = 4 * 1024 * 1024
"""Of all records together. Four bytes of Avro can be 600,000 characters: an array of nulls."""
HEADER_OVERHEAD_BYTES: Final = 8
"""Counts for each header in addition, so that empty ones are bounded too."""
DIGITS_MAX: Final = 19
"""The number of digits of the largest 64-bit integer."""
_POLL_MS: Final = 500


class InvalidSearchError(ValueError):
    """A parameter of a search cannot be used; the text names it and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSearch:
    """The records of one partition from an offset or a time on, or the last ones.

    `key` and `text` are parts of the key, and of the key, the value or a header, in UTF-8.
    """

    partition: TopicPartition
    offset: Offset | None = None
    timestamp_ms: int | None = None
    key: str = ""
    text: str = ""
    limit: int = 50

    @classmethod
    def parse(cls, topic: str, parameters: Mapping[str, str]) -> RecordSearch:
        """Return the search that the parameters of a request describe. Errors: InvalidSearchError."""
        limit = _number(parameters, "limit", 1, RECORDS_MAX)
        return cls(
            partition=TopicPartition(topic, _number(parameters, "partition", 0, 2**31 - 1) or 0),
            offset=_number(parameters, "offset", 0, 2**63 - 1),
            timestamp_ms=_number(parameters, "timestamp_ms", 0, 2**63 - 1),
            key=parameters.get("key", ""),
            text=parameters.get("text", ""),
            limit=50 if limit is None else limit,
        )

    def matches(self, record: ConsumerRecord) -> bool:
        """Return whether a record has the requested key and text."""
        if self.key and self.key.encode() not in (record.key or b""):
            return False
        text = self.text.encode()
        parts = (record.key, record.value, *(value for _, value in record.headers))
        return not text or any(text in part for part in parts if part is not None)


async def find_records(
    consumer: Consumer, search: RecordSearch, decoder: SchemaDecoder | None = None
) -> dict[str, Any]:
    """Return the records, the next offset, and whether the search has reached the end of the partition.

    With a `decoder`, also return the keys and values, decoded with the schemas of a registry.
    Errors: KafkaError.
    """
    partition = search.partition
    consumer.assign([partition])
    start = (await consumer.beginning_offsets([partition]))[partition]
    end = (await consumer.end_offsets([partition]))[partition]
    position = await _first_offset(consumer, search, start, end)
    found: list[ConsumerRecord] = []
    scanned = 0
    if position < end:
        consumer.seek(partition, position)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while position < end and len(found) < search.limit and scanned < RECORDS_SCANNED_MAX:
                for record in (await consumer.poll(_POLL_MS)).get(partition, ()):
                    position, scanned = record.offset + 1, scanned + 1
                    if search.matches(record):
                        found.append(record)
                    if len(found) >= search.limit:
                        break
                else:
                    # Control records and compacted offsets are passed without a record.
                    position = max(position, await consumer.position(partition))
    except TimeoutError:
        pass
    return {
        "records": await _decoded(found, decoder),
        "next_offset": position,
        "start_offset": start,
        "end_offset": end,
        "is_complete": position >= end,
        "scanned": scanned,
    }


async def _first_offset(consumer: Consumer, search: RecordSearch, start: Offset, end: Offset) -> Offset:
    if search.offset is not None:
        return min(max(search.offset, start), end)
    if search.timestamp_ms is None:
        return max(start, end - search.limit)
    found = (await consumer.offsets_for_times({search.partition: search.timestamp_ms}))[search.partition]
    return end if found is None else found.offset


async def _decoded(records: Sequence[ConsumerRecord], decoder: SchemaDecoder | None) -> list[dict[str, Any]]:
    """Return the records with their decoded keys and values, as far as the bound allows."""
    documents = []
    characters_left = DECODED_CHARACTERS_MAX
    for record in records:
        document = _document(record)
        documents.append(document)
        if decoder is None:
            continue
        for name, data in (("decoded_key", record.key), ("decoded_value", record.value)):
            if characters_left > 0:
                decoded = await decoder.decode(data)
            else:
                decoded = _not_decoded(data)
            if decoded is not None:
                document[name] = decoded
                characters_left -= len(decoded.get("text", ""))
            # Other requests are served between two values.
            await asyncio.sleep(0)
    return documents


def _not_decoded(data: bytes | None) -> dict[str, Any] | None:
    """Return the reason why a value with a schema is not decoded; None for a value without one."""
    identifier = None if data is None else schema_id(data)
    if identifier is None:
        return None
    text = f"the records before have {DECODED_CHARACTERS_MAX} characters, which is the limit of a search"
    return {"schema_id": identifier, "error": text}


def _document(record: ConsumerRecord) -> dict[str, Any]:
    headers, are_cut = _shown_headers(record.headers)
    sizes = [len(part) for part in (record.key, record.value) if part is not None]
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _shown(record.key),
        "value": _shown(record.value),
        "headers": headers,
        "is_cut": are_cut or any(size > SHOWN_BYTES for size in sizes),
        "size_bytes": sum(sizes),
    }


def _shown_headers(headers: Sequence[tuple[str, bytes | None]]) -> tuple[list[list[Any]], bool]:
    """Return the first headers, which have at most SHOWN_BYTES together, and whether others are left out."""
    shown: list[list[Any]] = []
    size_bytes = 0
    for name, value in headers:
        size_bytes += HEADER_OVERHEAD_BYTES + len(name) + len(value or b"")
        if size_bytes > SHOWN_BYTES:
            return shown, True
        shown.append([name, _shown(value)])
    return shown, False


def _shown(data: bytes | None) -> Any:
    """Return the first bytes as text, or as {"base64": ...} if they are not UTF-8."""
    if data is None or len(data) <= SHOWN_BYTES:
        return bytes_to_json(data)
    cut = data[:SHOWN_BYTES]
    try:
        return cut.decode()
    except UnicodeDecodeError as error:
        # The cut may be within a character.
        return bytes_to_json(cut[: error.start] if error.start > SHOWN_BYTES - 4 else cut)


def _number(parameters: Mapping[str, str], name: str, lowest: int, highest: int) -> int | None:
    text = parameters.get(name, "")
    if not text:
        return None
    is_number = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    if not is_number or not lowest <= int(text) <= highest:
        raise InvalidSearchError(f"{name}={text[:DIGITS_MAX]}: allowed are {lowest} to {highest}")
    return int(text)
